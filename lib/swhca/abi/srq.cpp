// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/srq.hpp"

#include "swhca/abi/handlers.hpp"
#include "swhca/hca/lookup.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace swhca::handlers {
namespace {

// enum ib_srq_attr_mask
constexpr std::uint32_t attr_max_wr = 1, attr_limit = 2;

} // namespace

int create_srq(const Call& call) {
    const auto req = call.core<ib_uverbs_create_srq>();
    const auto driver = call.driver<mlx5_ib_create_srq>();
    if (const int error = call.check_driver<mlx5_ib_create_srq>(offsetof(mlx5_ib_create_srq, flags)))
        return error;
    if (driver.flags != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: driver flags 0x%x (signatures)", call.name,
                      driver.flags);
    const SrqRequest request{.user_handle = req.user_handle,
                             .pd_handle = req.pd_handle,
                             .max_wr = req.max_wr,
                             .max_sge = req.max_sge,
                             .limit = req.srq_limit,
                             .ring = driver.buf_addr,
                             .dbrec = driver.db_addr,
                             .user_index = driver.uidx};
    Srq* srq = nullptr;
    if (const int error = swhca::create_srq(call.context, request, srq)) return error;
    ib_uverbs_create_srq_resp resp{};
    resp.srq_handle = srq->handle;
    resp.max_wr = srq->max_wr;
    resp.max_sge = srq->max_sge;
    int error = call.answer_core(resp);
    if (error == 0) error = call.answer_driver(mlx5_ib_create_srq_resp{srq->srqn, 0});
    if (error != 0) {
        EventsRead read;
        swhca::destroy_srq(call.context, srq->handle, read);
    }
    return error;
}

int modify_srq(const Call& call) {
    const auto req = call.core<ib_uverbs_modify_srq>();
    if ((req.attr_mask & attr_max_wr) != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: a size cannot be changed", call.name);
    if ((req.attr_mask & ~attr_limit) != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: attr_mask 0x%x", call.name, req.attr_mask);
    if (req.attr_mask == 0) return 0;
    return swhca::set_srq_limit(call.context, req.srq_handle, req.srq_limit);
}

int query_srq(const Call& call) {
    const auto req = call.core<ib_uverbs_query_srq>();
    const Srq* srq = find_object(call.context.srqs, req.srq_handle);
    if (srq == nullptr) return refuse(Rule::bad_handle, EINVAL, "%s: srq %u", call.name, req.srq_handle);
    Engine::Quiesced quiet{*call.context.device->engine};
    return call.answer_core(ib_uverbs_query_srq_resp{srq->max_wr, srq->max_sge, srq->limit, 0});
}

int destroy_srq(const Call& call) {
    EventsRead read;
    const auto req = call.core<ib_uverbs_destroy_srq>();
    if (const int error = swhca::destroy_srq(call.context, req.srq_handle, read)) return error;
    return call.answer_core(ib_uverbs_destroy_srq_resp{read.async});
}

} // namespace swhca::handlers
