// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/queues.hpp"

#include "base/barrier.hpp"
#include "swhca/engine/disorder.hpp"
#include "swhca/hca/device.hpp"
#include "swhca/prm/cqe.hpp"

#include <algorithm>

#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>

namespace swhca {
namespace {

constexpr std::uint32_t never_an_arm_word = 0xffffffffU;

template <class T>
void drop_from(std::vector<T*>& list, T* item) {
    list.erase(std::remove(list.begin(), list.end(), item), list.end());
}

template <class T>
void put_into(std::vector<T*>& list, T* item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

void forget_receives(Rq& rq) {
    drop_held(rq);
    rq.pi = rq.ci = 0;
    rq.next_stride = 0;
    rq.strides = nullptr;
}

/// Indices to 0. The register is cleared, not just remembered: the first doorbell after a reset may carry the
/// value of the last one before it.
void forget_sends(Sq& sq) {
    sq.pi = sq.ci = 0;
    sq.frames_done = 0;
    if (sq.bfreg == nullptr) return;
    for (std::size_t half = 0; half < bfreg_halves; ++half) {
        stride::store_to_device(reinterpret_cast<std::uint64_t*>(sq.bfreg + half * bfreg_half_bytes),
                                std::uint64_t{0});
    }
}

void list_sender(Qp& qp) {
    auto& senders = qp.port->senders;
    const auto known =
        std::find_if(senders.begin(), senders.end(), [&](const Sender& sender) { return sender.qp == &qp; });
    if (known == senders.end())
        senders.push_back({&qp, qp.sq.bfreg});
    else
        known->pending = true;
}

void unlist_sender(const Qp& qp) {
    std::erase_if(qp.port->senders, [&](const Sender& sender) { return sender.qp == &qp; });
}

bool rings_given(const Rq& rq) { return rq.ring != nullptr && rq.dbrec != nullptr && rq.cq != nullptr; }

bool rings_given(const Sq& sq) {
    return sq.ring != nullptr && sq.dbrec != nullptr && sq.bfreg != nullptr && sq.cq != nullptr;
}

/// State of the receive half while the QP is in `to`: it takes packets from RTR on.
QueueState receive_state(QueueState to) {
    return to == QueueState::rtr || to == QueueState::sqd ? QueueState::ready : to;
}

} // namespace

void open_cq(Cq& cq, Port& port) {
    cq.pi = cq.ci = 0;
    cq.armed = cq.overrun = false;
    cq.armed_dbrec = never_an_arm_word;
    if (cq.dbrec != nullptr)
        stride::store_to_device(&cq.dbrec[prm::CqDoorbell::arm_dword], be32{never_an_arm_word});
    if (cq.mini_cqe != MiniCqeFormat::none) {
        cq.session = std::make_unique<MiniCqeSession>();
        put_into(port.compressing, &cq);
    }
    if (cq.channel != nullptr && cq.dbrec != nullptr) put_into(port.notifying, &cq);
}

void close_cq(Cq& cq, Port& port) {
    drop_from(port.notifying, &cq);
    drop_from(port.compressing, &cq);
}

void set_rq_state(Rq& rq, QueueState to, Port& port) {
    rq.port = &port;
    rq.state = to;
    if (to == QueueState::reset) forget_receives(rq);
    if (to == QueueState::error && rings_given(rq)) {
        put_into(port.draining, &rq);
    } else {
        drop_from(port.draining, &rq);
    }
    if (to == QueueState::ready && !rings_given(rq)) rq.state = QueueState::error;
}

void close_rq(Rq& rq, Port& port) {
    drop_from(port.draining, &rq);
    if (rq.port != nullptr) drop_held(rq);
    rq.state = QueueState::reset;
}

void set_qp_state(Qp& qp, QueueState to) {
    qp.state = to;
    qp.sq.state = to;
    if (to == QueueState::reset) {
        drop_held(qp);
        forget_sends(qp.sq);
    }
    const bool sends = to == QueueState::ready || to == QueueState::sqd || to == QueueState::error;
    if (sends && rings_given(qp.sq)) {
        list_sender(qp);
    } else {
        unlist_sender(qp);
    }
    if (qp.type == QpType::ud && receive_state(to) == QueueState::ready) {
        put_into(qp.port->datagram_qps, &qp);
    } else {
        drop_from(qp.port->datagram_qps, &qp);
    }
    if (!qp.rq) return;
    qp.rq->qpn = qp.qpn;
    set_rq_state(*qp.rq, receive_state(to), *qp.port);
}

void open_srq(Srq& srq) { srq.pi = srq.ci = srq.next_wqe = 0; }

void close_qp(Qp& qp) {
    unlist_sender(qp);
    drop_from(qp.port->datagram_qps, &qp);
    drop_held(qp);
    if (qp.rq) close_rq(*qp.rq, *qp.port);
    qp.state = qp.sq.state = QueueState::reset;
}

bool send_async_event(Context& context, AsyncEvent event, std::uint64_t element) {
    if (context.async_engine_fd < 0) return false;
    ib_uverbs_async_event_desc desc{};
    desc.element = element;
    desc.event_type = static_cast<std::uint32_t>(event);
    const ssize_t sent = ::send(context.async_engine_fd, &desc, sizeof desc, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(sizeof desc);
}

} // namespace swhca
