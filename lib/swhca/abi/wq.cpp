// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/wq.hpp"

#include "swhca/abi/handlers.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <vector>

namespace swhca::handlers {
namespace {

// enum ib_wq_attr_mask, enum ib_wq_state
constexpr std::uint32_t attr_state = 1, attr_current_state = 2, attr_flags = 4;
constexpr QueueState wq_states[] = {QueueState::reset, QueueState::ready, QueueState::error};

int check_wq_driver(const Call& call, const mlx5_ib_create_wq& driver) {
    if (const int error =
            call.check_driver<mlx5_ib_create_wq>(offsetof(mlx5_ib_create_wq, single_stride_log_num_of_bytes)))
        return error;
    if (driver.flags != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: driver flags 0x%x", call.name, driver.flags);
    if ((driver.comp_mask & ~std::uint32_t{MLX5_IB_CREATE_WQ_STRIDING_RQ}) != 0)
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s: driver comp_mask 0x%x", call.name,
                      driver.comp_mask);
    return 0;
}

} // namespace

int ex_create_wq(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_create_wq>();
    const auto driver = call.driver<mlx5_ib_create_wq>();
    if (req.comp_mask != 0 || req.wq_type != IB_UVERBS_WQT_RQ)
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s: comp_mask 0x%x, type %u", call.name, req.comp_mask,
                      req.wq_type);
    if (const int error = check_wq_driver(call, driver)) return error;
    const WqRequest request{.user_handle = req.user_handle,
                            .pd_handle = req.pd_handle,
                            .cq_handle = req.cq_handle,
                            .max_wr = req.max_wr,
                            .max_sge = req.max_sge,
                            .create_flags = req.create_flags,
                            .ring = driver.buf_addr,
                            .dbrec = driver.db_addr,
                            .wqe_count = driver.rq_wqe_count,
                            .log_wqe_bytes = driver.rq_wqe_shift,
                            .user_index = driver.user_index,
                            .striding = (driver.comp_mask & MLX5_IB_CREATE_WQ_STRIDING_RQ) != 0,
                            .log_stride_bytes = driver.single_stride_log_num_of_bytes,
                            .log_strides = driver.single_wqe_log_num_of_strides,
                            .two_byte_shift = driver.two_byte_shift_en != 0};
    Rq* wq = nullptr;
    if (const int error = swhca::create_wq(call.context, request, wq)) return error;
    int error =
        call.answer_core(ib_uverbs_ex_create_wq_resp{.comp_mask = 0,
                                                     .response_length = sizeof(ib_uverbs_ex_create_wq_resp),
                                                     .wq_handle = wq->handle,
                                                     .max_wr = req.max_wr,
                                                     .max_sge = req.max_sge,
                                                     .wqn = wq->wqn.value});
    if (error == 0) error = call.answer_driver(mlx5_ib_create_wq_resp{sizeof(mlx5_ib_create_wq_resp), 0});
    if (error != 0) {
        EventsRead read;
        swhca::destroy_wq(call.context, wq->handle, read);
    }
    return error;
}

int ex_modify_wq(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_modify_wq>();
    if (req.attr_mask == 0 || (req.attr_mask & ~(attr_state | attr_current_state | attr_flags)) != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: attr_mask 0x%x", call.name, req.attr_mask);
    if ((req.attr_mask & attr_flags) != 0) {
        if ((req.flags_mask & ~std::uint32_t{IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING}) != 0)
            return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: flags_mask 0x%x", call.name, req.flags_mask);
        const bool strip = (req.flags & req.flags_mask & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) != 0;
        if (req.flags_mask != 0)
            if (const int error = swhca::modify_wq_vlan_strip(call.context, req.wq_handle, strip))
                return error;
    }
    const bool gives_current = (req.attr_mask & attr_current_state) != 0;
    if ((req.attr_mask & attr_state) == 0) return 0;
    if (req.wq_state >= std::size(wq_states) || (gives_current && req.curr_wq_state >= std::size(wq_states)))
        return refuse(Rule::bad_argument, EINVAL, "%s: state %u from %u", call.name, req.wq_state,
                      req.curr_wq_state);
    const QueueState expected = gives_current ? wq_states[req.curr_wq_state] : QueueState::reset;
    return swhca::modify_wq(call.context, req.wq_handle, gives_current ? &expected : nullptr,
                            wq_states[req.wq_state]);
}

int ex_destroy_wq(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_destroy_wq>();
    if (req.comp_mask != 0)
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    EventsRead read;
    if (const int error = swhca::destroy_wq(call.context, req.wq_handle, read)) return error;
    return call.answer_core(
        ib_uverbs_ex_destroy_wq_resp{.comp_mask = 0,
                                     .response_length = sizeof(ib_uverbs_ex_destroy_wq_resp),
                                     .events_reported = read.async,
                                     .reserved = 0});
}

int ex_create_rwq_ind_tbl(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_create_rwq_ind_table>();
    if (req.comp_mask != 0 || req.log_ind_tbl_size > IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE)
        return refuse(Rule::bad_argument, EINVAL, "%s: comp_mask 0x%x, 2^%u entries", call.name,
                      req.comp_mask, req.log_ind_tbl_size);
    std::vector<std::uint32_t> handles(std::size_t{1} << req.log_ind_tbl_size);
    const std::span<const std::byte> list = call.core_in.subspan(sizeof req);
    if (list.size() < handles.size() * sizeof handles[0])
        return refuse(Rule::bad_command, EINVAL, "%s: %zu bytes for %zu handles", call.name, list.size(),
                      handles.size());
    std::memcpy(handles.data(), list.data(), handles.size() * sizeof handles[0]);
    Rqt* rqt = nullptr;
    if (const int error = swhca::create_rqt(call.context, handles, rqt)) return error;
    const int error = call.answer_core(ib_uverbs_ex_create_rwq_ind_table_resp{
        .comp_mask = 0,
        .response_length = sizeof(ib_uverbs_ex_create_rwq_ind_table_resp),
        .ind_tbl_handle = rqt->handle,
        .ind_tbl_num = rqt->number});
    if (error != 0) swhca::destroy_rqt(call.context, rqt->handle);
    return error;
}

int ex_destroy_rwq_ind_tbl(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_destroy_rwq_ind_table>();
    if (req.comp_mask != 0)
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    return swhca::destroy_rqt(call.context, req.ind_tbl_handle);
}

} // namespace swhca::handlers
