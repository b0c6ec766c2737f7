// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/completion.hpp"

#include "swhca/engine/queues.hpp"

#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>

namespace swhca {
namespace {

/// Programs keep 24 bits of the consumer index, some 16 (facts: net/mlx5 does for Tx).
std::uint32_t index_mask(const Cq& cq) noexcept {
    return cq.size.log() < 16 ? 0xffffU : prm::CqDoorbell::consumer_index::max;
}

} // namespace

bool refresh_cq_room(Cq& cq) noexcept {
    const std::uint32_t record = stride::load_from_device(&cq.dbrec[prm::CqDoorbell::consumer_dword]);
    const std::uint32_t unread = (cq.pi - record) & index_mask(cq);
    if (unread > cq.size.entries()) {
        broken(Rule::cq_ci_ahead, "CQ 0x%x: consumer index 0x%x, producer index 0x%x", cq.cqn.value, record,
               cq.pi);
        return false;
    }
    cq.ci = cq.pi - unread;
    return unread < cq.size.entries();
}

void overrun_cq(Cq& cq) noexcept {
    if (cq.overrun) return;
    cq.overrun = true;
    broken(Rule::cq_overrun, "CQ 0x%x of %u: producer index 0x%x, consumer index 0x%x", cq.cqn.value,
           cq.size.entries(), cq.pi, cq.ci);
    if (cq.context != nullptr && send_async_event(*cq.context, AsyncEvent::cq_error, cq.user_handle))
        ++cq.async_events;
}

void notify_cq(Cq& cq, bool solicited_or_error) noexcept {
    if (cq.armed_solicited && !solicited_or_error) return;
    cq.armed = false;
    if (cq.channel == nullptr) return;
    ib_uverbs_comp_event_desc event{};
    event.cq_handle = cq.user_handle;
    const ssize_t sent = ::send(cq.channel->engine_fd, &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(sizeof event)) ++cq.comp_events;
}

void poll_arm(Cq& cq) noexcept {
    const be32 raw = stride::load_from_device(&cq.dbrec[prm::CqDoorbell::arm_dword]);
    const std::uint32_t record = raw.host();
    if (record == cq.armed_dbrec) return;
    cq.armed_dbrec = record;
    std::array<be32, 2> both{be32{0}, raw};
    cq.armed = true;
    cq.armed_solicited = prm::CqDoorbell::arm_solicited_only::get(both.data()) != 0;
    const std::uint32_t seen = prm::CqDoorbell::arm_consumer_index::get(both.data());
    if (seen != (cq.pi & prm::CqDoorbell::arm_consumer_index::max)) notify_cq(cq, false);
}

void write_error_cqe(Cq& cq, const Failure& failure) noexcept {
    if (cq.overrun || !cq_has_room(cq)) {
        overrun_cq(cq);
        return;
    }
    void* cqe = begin_cqe(cq);
    stride::set_dword<prm::ErrorCqe::wqe_id>(cqe, failure.wqe_id);
    stride::set_dword<prm::ErrorCqe::user_index>(cqe, failure.user_index);
    stride::set_dword<prm::ErrorCqe::vendor_syndrome, prm::ErrorCqe::syndrome>(cqe, failure.vendor_syndrome,
                                                                               failure.syndrome);
    stride::set_dword<prm::ErrorCqe::send_opcode, prm::ErrorCqe::qpn>(cqe, failure.send_opcode, failure.qpn);
    const prm::CqeOpcode opcode =
        failure.requester ? prm::CqeOpcode::requester_error : prm::CqeOpcode::responder_error;
    publish_cqe(cq, {failure.wqe_counter, opcode, true});
}

} // namespace swhca
