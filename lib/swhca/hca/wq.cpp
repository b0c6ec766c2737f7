// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/wq.hpp"

#include "swhca/engine/queues.hpp"
#include "swhca/hca/events.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/user_memory.hpp"

#include <bit>
#include <rdma/ib_user_ioctl_verbs.h>

namespace swhca {
namespace {

constexpr std::uint32_t known_wq_flags = IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
                                         IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING;

int check_striding(const DeviceCaps& caps, const WqRequest& request) {
    if (!caps.striding)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_WQ: striding, which the device has not");
    if (request.log_stride_bytes < caps.min_log_stride_bytes ||
        request.log_stride_bytes > caps.max_log_stride_bytes)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_WQ: log_stride_bytes %u, device %u to %u",
                      request.log_stride_bytes, caps.min_log_stride_bytes, caps.max_log_stride_bytes);
    if (request.log_strides < caps.min_log_strides || request.log_strides > caps.max_log_strides)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_WQ: log_strides %u, device %u to %u",
                      request.log_strides, caps.min_log_strides, caps.max_log_strides);
    if (request.log_stride_bytes + request.log_strides < caps.min_log_wqe_bytes)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_WQ: WQE of 2^%u bytes, device min 2^%u",
                      request.log_stride_bytes + request.log_strides, caps.min_log_wqe_bytes);
    return 0;
}

int check_wq(const DeviceCaps& caps, const WqRequest& request) {
    if ((request.create_flags & ~known_wq_flags) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_WQ: create_flags 0x%x",
                      request.create_flags & ~known_wq_flags);
    if (request.max_wr == 0 || request.max_wr > caps.max_qp_wr || request.wqe_count > caps.max_qp_wr)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_WQ: %u WRs in %u WQEs, device max %u",
                      request.max_wr, request.wqe_count, caps.max_qp_wr);
    if (request.max_sge > caps.max_sge)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_WQ: max_sge %u, device max %u", request.max_sge,
                      caps.max_sge);
    if (request.striding) {
        if (const int error = check_striding(caps, request)) return error;
    }
    const int error = check_rq_ring("CREATE_WQ", request.ring, request.wqe_count, request.log_wqe_bytes);
    return error != 0 ? error : check_dbrec("CREATE_WQ", request.dbrec);
}

} // namespace

int check_dbrec(const char* what, std::uint64_t dbrec) {
    constexpr std::uint64_t dbrec_bytes = 8;
    if (dbrec % dbrec_bytes != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: doorbell record 0x%llx misaligned", what,
                      static_cast<unsigned long long>(dbrec));
    if (!is_mapped(dbrec, dbrec_bytes, true))
        return refuse(Rule::bad_argument, EFAULT, "%s: doorbell record 0x%llx not mapped", what,
                      static_cast<unsigned long long>(dbrec));
    return 0;
}

int check_rq_ring(const char* what, std::uint64_t ring, std::uint64_t entries, std::uint32_t log_wqe_bytes) {
    if (!std::has_single_bit(entries) || log_wqe_bytes < 4 || log_wqe_bytes > 10)
        return refuse(Rule::bad_argument, EINVAL, "%s: %llu WQEs of 2^%u bytes", what,
                      static_cast<unsigned long long>(entries), log_wqe_bytes);
    if (ring % 64 != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: ring 0x%llx misaligned", what,
                      static_cast<unsigned long long>(ring));
    if (!is_mapped(ring, entries << log_wqe_bytes, false))
        return refuse(Rule::bad_argument, EFAULT, "%s: ring 0x%llx not mapped", what,
                      static_cast<unsigned long long>(ring));
    return 0;
}

std::unique_ptr<Rq> make_rq(Context& context, const RqParts& parts) {
    auto rq = std::make_unique<Rq>();
    rq->wqn.value = context.device->next_wqn++ & 0xffffffU;
    rq->context = &context;
    rq->pd = parts.pd;
    rq->cq = parts.cq;
    rq->ring = reinterpret_cast<std::byte*>(parts.ring);
    rq->size = RingSize::at_least(parts.wqe_count);
    rq->log_wqe_bytes = parts.log_wqe_bytes;
    rq->dbrec = reinterpret_cast<be32*>(parts.dbrec);
    rq->user_index = parts.user_index;
    rq->user_handle = parts.user_handle;
    rq->vlan_strip = parts.vlan_strip;
    rq->scatter_fcs = parts.scatter_fcs;
    rq->end_padding = parts.end_padding;
    return rq;
}

int create_wq(Context& context, const WqRequest& request, Rq*& wq) {
    Device& device = *context.device;
    Pd* pd = find_object(context.pds, request.pd_handle);
    Cq* cq = find_object(context.cqs, request.cq_handle);
    if (pd == nullptr || cq == nullptr)
        return refuse(Rule::bad_handle, EINVAL, "CREATE_WQ: pd %u, cq %u", request.pd_handle,
                      request.cq_handle);
    if (const int error = check_wq(device.caps, request)) return error;
    if (device.wqs >= device.caps.max_wq) return ENOMEM;
    const std::uint32_t flags = request.create_flags;
    auto made = make_rq(context, {.pd = pd->pdn,
                                  .cq = cq,
                                  .user_handle = request.user_handle,
                                  .ring = request.ring,
                                  .dbrec = request.dbrec,
                                  .wqe_count = request.wqe_count,
                                  .log_wqe_bytes = request.log_wqe_bytes,
                                  .user_index = request.user_index,
                                  .vlan_strip = (flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) != 0,
                                  .scatter_fcs = (flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS) != 0,
                                  .end_padding = (flags & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING) != 0});
    made->striding = request.striding;
    made->two_byte_shift = request.striding && request.two_byte_shift;
    made->log_stride_bytes = static_cast<std::uint8_t>(request.log_stride_bytes);
    made->log_strides = static_cast<std::uint8_t>(request.log_strides);
    wq = file_object(context, context.wqs, std::move(made));
    {
        Engine::Quiesced quiet{*device.engine};
        set_rq_state(*wq, QueueState::reset, device.port);
    }
    ++pd->users;
    ++cq->users;
    ++device.wqs;
    return 0;
}

int modify_wq(Context& context, std::uint32_t handle, const QueueState* expected, QueueState to) {
    Rq* wq = find_object(context.wqs, handle);
    if (wq == nullptr) return refuse(Rule::bad_handle, EINVAL, "MODIFY_WQ: wq %u", handle);
    Engine::Quiesced quiet{*context.device->engine};
    if (expected != nullptr)
        if (const int error =
                check_claimed_state("MODIFY_WQ", wq->wqn.value,
                                    {static_cast<unsigned>(wq->state), static_cast<unsigned>(*expected)}))
            return error;
    if (to == QueueState::ready && wq->state == QueueState::error)
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_WQ: wq %u from error to ready", handle);
    if (to != wq->state) set_rq_state(*wq, to, context.device->port);
    return 0;
}

int modify_wq_vlan_strip(Context& context, std::uint32_t handle, bool strip) {
    Rq* wq = find_object(context.wqs, handle);
    if (wq == nullptr) return refuse(Rule::bad_handle, EINVAL, "MODIFY_WQ: wq %u", handle);
    Engine::Quiesced quiet{*context.device->engine};
    wq->vlan_strip = strip;
    return 0;
}

int destroy_wq(Context& context, std::uint32_t handle, EventsRead& read) {
    Rq* wq = find_object(context.wqs, handle);
    if (wq == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_WQ: wq %u", handle);
    if (wq->users != 0) return EBUSY;
    {
        Engine::Quiesced quiet{*context.device->engine};
        close_rq(*wq, context.device->port);
        read.async = wq->async_events - take_back_async(context, wq->user_handle);
    }
    --wq->cq->users;
    --domain_of(context, wq->pd).users;
    context.wqs.erase(handle);
    --context.device->wqs;
    return 0;
}

int create_rqt(Context& context, std::span<const std::uint32_t> wq_handles, Rqt*& rqt) {
    Device& device = *context.device;
    const std::size_t max = std::size_t{1} << device.caps.max_log_rqt_entries;
    if (!std::has_single_bit(wq_handles.size()) || wq_handles.size() > max)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_RWQ_IND_TBL: %zu entries, device max %zu",
                      wq_handles.size(), max);
    if (device.rqts >= device.caps.max_rqt) return ENOMEM;
    auto made = std::make_unique<Rqt>();
    for (const std::uint32_t handle : wq_handles) {
        Rq* wq = find_object(context.wqs, handle);
        if (wq == nullptr) return refuse(Rule::bad_handle, EINVAL, "CREATE_RWQ_IND_TBL: wq %u", handle);
        made->wqs.push_back(wq);
    }
    for (Rq* wq : made->wqs)
        ++wq->users;
    made->number = device.next_rqt++ & 0xffffffU;
    rqt = file_object(context, context.rqts, std::move(made));
    ++device.rqts;
    return 0;
}

int destroy_rqt(Context& context, std::uint32_t handle) {
    const Rqt* rqt = find_object(context.rqts, handle);
    if (rqt == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_RWQ_IND_TBL: table %u", handle);
    if (rqt->users != 0) return EBUSY;
    for (Rq* wq : rqt->wqs)
        --wq->users;
    context.rqts.erase(handle);
    --context.device->rqts;
    return 0;
}

} // namespace swhca
