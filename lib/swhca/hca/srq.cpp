// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/srq.hpp"

#include "swhca/hca/events.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/wq.hpp"

#include <algorithm>
#include <bit>

namespace swhca {
namespace {

constexpr std::uint32_t segment_bytes = 16; ///< a WQE's next segment, and each of its data segments
constexpr std::uint32_t least_wqe_bytes = 32;

/// The kernel's driver and libmlx5 come to the ring's geometry by the same sum: a next segment and max_sge
/// data segments, rounded up to a power of two (mlx5_ib srq.c; libmlx5 srq.c, mlx5_alloc_srq_buf). libmlx5
/// tells the number of its WQEs as max_wr + 1.
std::uint32_t wqe_bytes(const SrqRequest& request) noexcept {
    return std::bit_ceil(std::max(least_wqe_bytes, segment_bytes * (request.max_sge + 1)));
}

std::uint64_t wqe_count(const SrqRequest& request) noexcept {
    return std::bit_ceil(std::uint64_t{request.max_wr} + 1);
}

int check_srq(const Device& device, const SrqRequest& request) {
    const DeviceCaps& caps = device.caps;
    if (request.max_wr == 0 || wqe_count(request) > caps.max_qp_wr)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_SRQ: %u WRs, device max %u", request.max_wr,
                      caps.max_qp_wr - 1);
    if (request.max_sge > caps.max_srq_sge)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_SRQ: max_sge %u, device max %u", request.max_sge,
                      caps.max_srq_sge);
    if (request.limit > request.max_wr)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_SRQ: limit %u of %u WRs", request.limit,
                      request.max_wr);
    const auto log_bytes = static_cast<std::uint32_t>(std::countr_zero(wqe_bytes(request)));
    if (const int error = check_rq_ring("CREATE_SRQ", request.ring, wqe_count(request), log_bytes))
        return error;
    return check_dbrec("CREATE_SRQ", request.dbrec);
}

} // namespace

int create_srq(Context& context, const SrqRequest& request, Srq*& srq) {
    Device& device = *context.device;
    Pd* pd = find_object(context.pds, request.pd_handle);
    if (pd == nullptr) return refuse(Rule::bad_handle, EINVAL, "CREATE_SRQ: pd %u", request.pd_handle);
    if (const int error = check_srq(device, request)) return error;
    if (device.srqs >= device.caps.max_srq) return ENOMEM;
    auto made = std::make_unique<Srq>();
    made->srqn = device.next_srqn++ & 0xffffffU;
    made->pd = pd->pdn;
    made->ring = reinterpret_cast<std::byte*>(request.ring);
    made->size = RingSize::at_least(static_cast<std::uint32_t>(wqe_count(request)));
    made->log_wqe_bytes = static_cast<std::uint32_t>(std::countr_zero(wqe_bytes(request)));
    made->dbrec = reinterpret_cast<be32*>(request.dbrec);
    made->user_index = request.user_index;
    made->user_handle = request.user_handle;
    made->max_wr = static_cast<std::uint32_t>(wqe_count(request)) - 1;
    made->max_sge = wqe_bytes(request) / segment_bytes - 1;
    made->limit = request.limit;
    srq = file_object(context, context.srqs, std::move(made));
    ++pd->users;
    ++device.srqs;
    return 0;
}

int set_srq_limit(Context& context, std::uint32_t handle, std::uint32_t limit) {
    Srq* srq = find_object(context.srqs, handle);
    if (srq == nullptr) return refuse(Rule::bad_handle, EINVAL, "MODIFY_SRQ: srq %u", handle);
    if (limit >= srq->size.entries())
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_SRQ: limit %u of %u WQEs", limit,
                      srq->size.entries());
    Engine::Quiesced quiet{*context.device->engine};
    srq->limit = limit;
    return 0;
}

int destroy_srq(Context& context, std::uint32_t handle, EventsRead& read) {
    Srq* srq = find_object(context.srqs, handle);
    if (srq == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_SRQ: srq %u", handle);
    if (srq->users != 0) return EBUSY;
    {
        Engine::Quiesced quiet{*context.device->engine};
        read.async = srq->async_events - take_back_async(context, srq->user_handle);
    }
    --domain_of(context, srq->pd).users;
    context.srqs.erase(handle);
    --context.device->srqs;
    return 0;
}

} // namespace swhca
