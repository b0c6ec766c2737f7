// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/cq.hpp"

#include "swhca/abi/handlers.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

namespace swhca::handlers {
namespace {

/// Both forms of CREATE_CQ, brought together.
struct CoreCq {
    std::uint64_t user_handle;
    std::uint32_t cqe, comp_vector;
    std::int32_t comp_channel; ///< a descriptor, or negative
    std::uint32_t flags;
};

int make(const Call& call, const CoreCq& core, Cq*& cq) {
    const auto driver = call.driver<mlx5_ib_create_cq>();
    // 32 bytes up to and with the first reserved word; the kernel takes shorter ones without the flags.
    if (const int error = call.check_driver<mlx5_ib_create_cq>(offsetof(mlx5_ib_create_cq, flags)))
        return error;
    if ((core.flags & ~std::uint32_t{IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION}) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: flags 0x%x", call.name, core.flags);
    if ((driver.flags & ~MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0 ||
        (driver.flags != 0 && driver.cqe_size != 128))
        return refuse(Rule::bad_argument, EINVAL, "%s: driver flags 0x%x with CQEs of %u bytes", call.name,
                      driver.flags, driver.cqe_size);
    CqRequest request{.user_handle = core.user_handle,
                      .cqe = core.cqe,
                      .comp_vector = core.comp_vector,
                      .ring = driver.buf_addr,
                      .dbrec = driver.db_addr,
                      .cqe_bytes = driver.cqe_size,
                      .compress = driver.cqe_comp_en != 0,
                      .compress_format = driver.cqe_comp_res_format};
    if (core.comp_channel >= 0) {
        request.channel = call.descriptors.channel_of(core.comp_channel, call.context);
        if (request.channel == nullptr)
            return refuse(Rule::bad_handle, EINVAL, "%s: descriptor %d is no completion channel", call.name,
                          core.comp_channel);
    }
    return swhca::create_cq(call.context, request, cq);
}

template <class Resp>
int answer(const Call& call, const Cq& cq, const Resp& resp) {
    int error = call.answer_core(resp);
    if (error == 0) error = call.answer_driver(mlx5_ib_create_cq_resp{.cqn = cq.cqn.value, .reserved = 0});
    if (error != 0) {
        EventsRead read;
        swhca::destroy_cq(call.context, cq.handle, read);
    }
    return error;
}

} // namespace

int create_comp_channel(const Call& call) {
    CompChannel* channel = nullptr;
    int program_fd = -1;
    if (const int error = swhca::create_channel(call.context, channel, program_fd)) return error;
    const int error =
        call.answer_core(ib_uverbs_create_comp_channel_resp{static_cast<std::uint32_t>(program_fd)});
    if (error != 0) {
        close(program_fd);
        swhca::channel_closed(call.context, *channel);
        return error;
    }
    call.descriptors.watch_channel(program_fd, call.context, *channel);
    return 0;
}

int create_cq(const Call& call) {
    const auto req = call.core<ib_uverbs_create_cq>();
    Cq* cq = nullptr;
    const CoreCq core{req.user_handle, req.cqe, req.comp_vector, req.comp_channel, 0};
    if (const int error = make(call, core, cq)) return error;
    ib_uverbs_create_cq_resp resp{};
    resp.cq_handle = cq->handle;
    resp.cqe = req.cqe;
    return answer(call, *cq, resp);
}

int ex_create_cq(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_create_cq>();
    if (req.comp_mask != 0 || req.reserved != 0)
        return refuse(Rule::bad_command, EINVAL, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    Cq* cq = nullptr;
    const CoreCq core{req.user_handle, req.cqe, req.comp_vector, req.comp_channel, req.flags};
    if (const int error = make(call, core, cq)) return error;
    ib_uverbs_ex_create_cq_resp resp{};
    resp.base.cq_handle = cq->handle;
    resp.base.cqe = req.cqe;
    resp.response_length = sizeof resp;
    return answer(call, *cq, resp);
}

int ex_modify_cq(const Call& call) {
    constexpr std::uint32_t moderation = 1; // IB_CQ_MODERATE
    const auto req = call.core<ib_uverbs_ex_modify_cq>();
    if (req.attr_mask != moderation || req.reserved != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: attr_mask 0x%x", call.name, req.attr_mask);
    return swhca::modify_cq(call.context, req.cq_handle, req.attr.cq_count, req.attr.cq_period);
}

int resize_cq(const Call& call) {
    const auto req = call.core<ib_uverbs_resize_cq>();
    const auto driver = call.driver<mlx5_ib_resize_cq>();
    if (const int error = call.check_driver<mlx5_ib_resize_cq>(offsetof(mlx5_ib_resize_cq, reserved0)))
        return error;
    const CqRequest request{.cqe = req.cqe, .ring = driver.buf_addr, .cqe_bytes = driver.cqe_size};
    if (const int error = swhca::resize_cq(call.context, req.cq_handle, request)) return error;
    return call.answer_core(ib_uverbs_resize_cq_resp{.cqe = req.cqe, .reserved = 0});
}

int destroy_cq(const Call& call) {
    EventsRead read;
    if (const int error = swhca::destroy_cq(call.context, call.core<ib_uverbs_destroy_cq>().cq_handle, read))
        return error;
    return call.answer_core(ib_uverbs_destroy_cq_resp{read.completions, read.async});
}

} // namespace swhca::handlers
