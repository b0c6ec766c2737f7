// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/transmit.hpp"

#include "base/barrier.hpp"
#include "swhca/engine/disorder.hpp"

#include <algorithm>

namespace swhca {
namespace {

using prm::Cqe;
using prm::CtrlSegment;

std::uint16_t posted_wqebbs(const Sq& sq) noexcept { return static_cast<std::uint16_t>(sq.pi - sq.ci); }

Failure failure_of(const Qp& qp, prm::Syndrome syndrome) noexcept {
    Failure failure;
    failure.requester = true;
    failure.syndrome = syndrome;
    failure.qpn = qp.qpn.value;
    failure.user_index = qp.sq.user_index;
    failure.wqe_counter = qp.sq.ci;
    failure.wqe_id = qp.sq.ci;
    failure.send_opcode = static_cast<std::uint8_t>(CtrlSegment::opcode::get(sq_wqebb(qp.sq, qp.sq.ci)));
    return failure;
}

/// Basic blocks of the WQE at ci; 1 if its size makes no sense.
std::uint16_t wqebbs_at_ci(const Sq& sq) noexcept {
    const std::uint32_t ds = CtrlSegment::ds::get(sq_wqebb(sq, sq.ci));
    return static_cast<std::uint16_t>(ds == 0 ? 1 : (ds + 3) / 4);
}

const std::uint64_t* register_half(const Sender& sender, std::size_t half) noexcept {
    return reinterpret_cast<const std::uint64_t*>(sender.bfreg + half * bfreg_half_bytes);
}
std::uint64_t peek_register(const Sender& sender, std::size_t half) noexcept {
    return stride::peek_from_device(register_half(sender, half));
}
/// The register says something else than last time.
bool is_rung(const Sender& sender) noexcept {
    return ((peek_register(sender, 0) ^ sender.rung[0]) | (peek_register(sender, 1) ^ sender.rung[1])) != 0;
}

} // namespace

void fail_send(Qp& qp, const GatherFault& fault) noexcept {
    const Sq& sq = qp.sq;
    broken(fault.rule, "QP 0x%x, WQE %u", qp.qpn.value, sq.ci);
    const auto vendor_syndrome = static_cast<std::uint8_t>(static_cast<unsigned>(fault.rule) + 1U);
    complete_send_in_error(qp, fault.syndrome, vendor_syndrome);
}

void complete_send_in_error(Qp& qp, prm::Syndrome syndrome, std::uint8_t vendor_syndrome) noexcept {
    Sq& sq = qp.sq;
    Failure failure = failure_of(qp, syndrome);
    failure.vendor_syndrome = vendor_syndrome;
    write_error_cqe(*sq.cq, failure);
    sq.ci = static_cast<std::uint16_t>(sq.ci + std::min(wqebbs_at_ci(sq), posted_wqebbs(sq)));
    sq.frames_done = 0;
    sq.state = QueueState::error;
    qp.state = QueueState::error;
    if (qp.port != nullptr) count(qp.port->counters.tx_errors, 1);
}

void flush_sends(Qp& qp) noexcept {
    Sq& sq = qp.sq;
    const std::uint16_t pi =
        static_cast<std::uint16_t>(stride::load_from_device(&sq.dbrec[0]).host() & 0xffffU);
    if (static_cast<std::uint16_t>(pi - sq.ci) > sq.size.entries()) return;
    sq.pi = pi;
    while (sq.ci != sq.pi && !sq.cq->overrun && cq_has_room(*sq.cq)) {
        write_error_cqe(*sq.cq, failure_of(qp, prm::Syndrome::flushed));
        sq.ci = static_cast<std::uint16_t>(sq.ci + std::min(wqebbs_at_ci(sq), posted_wqebbs(sq)));
    }
}

bool write_send_cqe(Qp& qp, const SendCompletion& completion) noexcept {
    Sq& sq = qp.sq;
    if (sq.cq->overrun || !cq_has_room(*sq.cq)) [[unlikely]] {
        overrun_cq(*sq.cq);
        sq.state = qp.state = QueueState::error;
        return false;
    }
    void* cqe = begin_cqe(*sq.cq);
    stride::set_dword<Cqe::user_index>(cqe, sq.user_index);
    stride::set_dword<Cqe::send_opcode, Cqe::qpn>(cqe, completion.opcode, qp.qpn.value);
    publish_cqe(*sq.cq, {completion.index, prm::CqeOpcode::requester, completion.solicited});
    return true;
}

/// A doorbell names the WQE it is rung for; the record must cover it.
void Transmitter::check_doorbell(Qp& qp, std::uint64_t value) noexcept {
    const Sq& sq = qp.sq;
    if (CtrlSegment::qpn::get(&value) != qp.qpn.value) return; // another queue's, or a register being cleared
    const std::uint16_t index = static_cast<std::uint16_t>(CtrlSegment::wqe_index::get(&value));
    const std::uint16_t record =
        static_cast<std::uint16_t>(stride::load_from_device(&sq.dbrec[0]).host() & 0xffffU);
    if (static_cast<std::uint16_t>(record - index) - 1U < sq.size.entries()) return;
    broken(Rule::doorbell_without_record, "QP 0x%x: rung for WQE %u, record says %u", qp.qpn.value, index,
           record);
}

/// Takes over the record; false if it makes no sense, then the queue is in error.
bool Transmitter::accept_producer_index(Qp& qp) noexcept {
    Sq& sq = qp.sq;
    const std::uint16_t record =
        static_cast<std::uint16_t>(stride::load_from_device(&sq.dbrec[0]).host() & 0xffffU);
    const std::uint16_t posted = static_cast<std::uint16_t>(record - sq.ci);
    if (posted > sq.size.entries() || stride::ring_before(record, sq.pi)) [[unlikely]] {
        const bool back = stride::ring_before(record, sq.pi);
        fail_send(qp,
                  {back ? Rule::doorbell_backwards : Rule::sq_overrun, prm::Syndrome::local_qp_operation});
        return false;
    }
    sq.pi = record;
    return true;
}

/// Takes over what was rung; true if there is posted work to do.
bool Transmitter::read_doorbell(Sender& sender) noexcept {
    Qp& qp = *sender.qp;
    Sq& sq = qp.sq;
    bool rung = false;
    for (std::size_t half = 0; half < bfreg_halves; ++half) {
        if (peek_register(sender, half) == sender.rung[half]) continue;
        sender.rung[half] = stride::load_from_device(register_half(sender, half));
        check_doorbell(qp, sender.rung[half]);
        rung = true;
    }
    if (rung) {
        count(port_.counters.tx_doorbells, 1);
        if (!accept_producer_index(qp)) return false;
    }
    return sq.ci != sq.pi;
}

/// While the port has faults. Cold.
bool Transmitter::complete_under_faults(Qp& qp, const SendCompletion& completion) noexcept {
    SendDisorder& disorder = port_.faults->tx_disorder;
    const bool follows = disorder.held != nullptr && disorder.held->sq.cq == qp.sq.cq;
    if (put_aside(disorder, qp, completion)) return true;
    const bool written = write_send_cqe(qp, completion);
    if (follows) release_held(disorder);
    return written;
}

/// Completes a WQE, with a CQE if it asked for one; false if there was no room for it.
bool Transmitter::complete_wqe(Qp& qp, const GatheredWqe& wqe) noexcept {
    Sq& sq = qp.sq;
    if (wqe.completion) {
        const SendCompletion completion{wqe.index, wqe.opcode, wqe.solicited};
        const bool faulty = port_.faults != nullptr;
        if (!(faulty ? complete_under_faults(qp, completion) : write_send_cqe(qp, completion))) return false;
    }
    sq.ci = static_cast<std::uint16_t>(sq.ci + wqe.wqebbs);
    sq.frames_done = 0;
    return true;
}

/// `frames_gone` of the batch left: moves the queue on and completes WQEs all of whose frames did.
void Transmitter::complete(Qp& qp, unsigned frames_gone) {
    std::uint64_t wqes = 0;
    for (unsigned i = 0; i < batch_.wqe_count; ++i) {
        const GatheredWqe& wqe = batch_.wqes[i];
        if (wqe.first_frame > frames_gone) break;
        const unsigned gone = std::min<unsigned>(frames_gone - wqe.first_frame, wqe.frames);
        if (gone == wqe.frames && wqe.whole) {
            if (!complete_wqe(qp, wqe)) break;
            ++wqes;
        } else {
            qp.sq.frames_done += gone;
            break;
        }
    }
    std::uint64_t bytes = 0;
    for (unsigned i = 0; i < frames_gone; ++i)
        bytes += batch_.frames[i].length_bytes;
    count(port_.counters.tx_frames, frames_gone);
    count(port_.counters.tx_bytes, bytes);
    count(port_.counters.tx_wqes, wqes);
}

/// Frames of a UD QP: those to the port itself never see the wire, those to a group go both ways.
unsigned Transmitter::send_datagrams(std::span<const Frame> frames) {
    unsigned gone = 0;
    while (gone < frames.size()) {
        // As many as go to the wire alone, at once.
        std::size_t run = 0;
        DatagramRoute route{};
        for (; gone + run < frames.size(); ++run) {
            route = route_of(port_, frames[gone + run]);
            if (route.to_self) break;
        }
        const bool other = gone + run < frames.size();
        const std::size_t wired = run + (other && route.to_wire ? 1 : 0);
        if (wired != 0) {
            const unsigned sent = port_.wire->transmit(frames.subspan(gone, wired));
            if (sent != wired) return gone + sent;
        }
        gone += static_cast<unsigned>(run);
        if (other) self_.deliver_own(frames[gone++]);
    }
    return gone;
}

unsigned Transmitter::send_frames(const Qp& qp) {
    if (batch_.frame_count == 0) return 0;
    const std::span<const Frame> frames{batch_.frames.data(), batch_.frame_count};
    if (qp.type == QpType::ud) [[unlikely]]
        return send_datagrams(frames);
    return port_.wire->transmit(frames);
}

unsigned Transmitter::serve(Qp& qp, unsigned budget) {
    unsigned sent = 0;
    while (sent < budget && qp.sq.state == QueueState::ready && qp.sq.ci != qp.sq.pi) {
        batch_.clear();
        PortFaults* const faults = port_.faults.get();
        const bool counts = faults != nullptr && faults->tx_error.armed;
        if (counts && qp.sq.frames_done == 0 && faults->tx_error.strikes()) [[unlikely]] {
            complete_send_in_error(qp, static_cast<prm::Syndrome>(faults->tx_error.syndrome), 0);
            break;
        }
        gather(qp, counts ? 1 : budget - sent, batch_);
        const unsigned gone = send_frames(qp);
        complete(qp, gone);
        sent += gone;
        if (gone != batch_.frame_count) break; // the far end pauses
        if (batch_.fault && qp.sq.state == QueueState::ready) fail_send(qp, batch_.fault);
    }
    return sent;
}

unsigned Transmitter::attend(Sender& sender, unsigned budget) {
    Qp& qp = *sender.qp;
    unsigned sent = 0;
    sender.pending = true; // comes back to it, should memory be gone in the midst of this
    if (qp.sq.state == QueueState::ready && read_doorbell(sender))
        sent = serve(qp, budget);
    else if (qp.sq.state == QueueState::error) [[unlikely]]
        flush_sends(qp);
    sender.pending = qp.sq.state != QueueState::ready || qp.sq.ci != qp.sq.pi;
    return sent;
}

unsigned Transmitter::run(unsigned budget) {
    std::vector<Sender>& senders = port_.senders;
    unsigned sent = 0;
    std::size_t at = first_sender_;
    for (std::size_t i = 0; i < senders.size() && sent < budget; ++i, ++at) {
        if (at >= senders.size()) at = 0;
        Sender& sender = senders[at];
        if (!sender.pending && !is_rung(sender)) [[likely]]
            continue;
        sent += attend(sender, budget - sent);
        if (sent >= budget) first_sender_ = at + 1;
    }
    return sent;
}

} // namespace swhca
