// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/disorder.hpp"

#include "swhca/engine/completion.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/engine/transmit.hpp"

#include <cstring>
#include <utility>

namespace swhca {

bool begin_aside(Disorder& disorder, Rq& rq) noexcept {
    if (disorder.held != nullptr || --disorder.countdown != 0) return false;
    disorder.countdown = disorder.every;
    Cq& aside = disorder.aside;
    aside.ring = disorder.ring.front().bytes.data();
    aside.size = RingSize::from_log(Disorder::log_room);
    aside.dbrec = disorder.record.data();
    aside.mini_cqe = rq.cq->mini_cqe; // what is said of the packet; it is not compressed
    aside.pi = aside.ci = 0;
    aside.overrun = false;
    disorder.borrower = &rq;
    disorder.borrowed = std::exchange(rq.cq, &aside);
    return true;
}

void end_aside(Disorder& disorder) noexcept {
    if (disorder.borrower == nullptr) return;
    disorder.borrower->cq = disorder.borrowed;
    if (disorder.aside.pi != 0) disorder.held = disorder.borrower;
    disorder.borrower = nullptr;
}

void release_held(Disorder& disorder) noexcept {
    if (disorder.held == nullptr) return;
    Rq& rq = *std::exchange(disorder.held, nullptr);
    for (std::uint32_t i = 0; i != disorder.aside.pi; ++i) {
        Cq& cq = *rq.cq;
        if (cq.overrun || !cq_has_room(cq)) return lose_completion(rq);
        const std::byte* line = disorder.ring[i].bytes.data();
        std::memcpy(begin_cqe(cq), line, prm::Cqe::last_dword_offset);
        const auto opcode = static_cast<prm::CqeOpcode>(prm::Cqe::opcode::get(line));
        publish_cqe(cq,
                    {prm::Cqe::wqe_counter::get(line), opcode, opcode == prm::CqeOpcode::responder_error});
    }
}

bool put_aside(SendDisorder& disorder, Qp& qp, const SendCompletion& completion) noexcept {
    if (disorder.every == 0 || disorder.held != nullptr || --disorder.countdown != 0) return false;
    disorder.countdown = disorder.every;
    disorder.held = &qp;
    disorder.completion = completion;
    return true;
}

void release_held(SendDisorder& disorder) noexcept {
    if (disorder.held == nullptr) return;
    Qp& qp = *std::exchange(disorder.held, nullptr);
    (void)write_send_cqe(qp, disorder.completion);
}

void release_held(PortFaults& faults) noexcept {
    if (faults.disorder) release_held(*faults.disorder);
    release_held(faults.tx_disorder);
}

void drop_held(const Rq& rq) noexcept {
    PortFaults* const faults = rq.port->faults.get();
    if (faults != nullptr && faults->disorder && faults->disorder->held == &rq)
        faults->disorder->held = nullptr;
}

void drop_held(const Qp& qp) noexcept {
    PortFaults* const faults = qp.port->faults.get();
    if (faults != nullptr && faults->tx_disorder.held == &qp) faults->tx_disorder.held = nullptr;
}

} // namespace swhca
