// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/receive.hpp"

#include "base/barrier.hpp"
#include "base/clock.hpp"
#include "swhca/engine/disorder.hpp"
#include "swhca/engine/queues.hpp"

#include <algorithm>
#include <array>

namespace swhca {
namespace {

std::uint8_t vendor_syndrome(Rule rule) noexcept { return static_cast<std::uint8_t>(rule) + std::uint8_t{1}; }

} // namespace

std::uint64_t device_clock_ns() noexcept { return stride::clock_ns(CLOCK_MONOTONIC); }

Failure failure_of(const Rq& rq, prm::Syndrome syndrome) noexcept {
    Failure failure;
    failure.syndrome = syndrome;
    failure.qpn = rq.qpn.value != 0 ? rq.qpn.value : rq.wqn.value;
    failure.user_index = rq.user_index;
    failure.wqe_counter = rq.striding ? static_cast<std::uint16_t>(rq.next_stride) : rq.ci;
    failure.wqe_id = rq.ci;
    return failure;
}

void fail_receive(Rq& rq, Rule rule, prm::Syndrome syndrome) noexcept {
    broken(rule, "RQ 0x%x, WQE %u", rq.wqn.value, rq.ci);
    complete_in_error(rq, syndrome, vendor_syndrome(rule));
}

void complete_in_error(Rq& rq, prm::Syndrome syndrome, std::uint8_t vendor_syndrome) noexcept {
    Failure failure = failure_of(rq, syndrome);
    failure.vendor_syndrome = vendor_syndrome;
    write_error_cqe(*rq.cq, failure);
    ++rq.ci;
    rq.next_stride = 0;
    rq.strides = nullptr;
    set_rq_state(rq, QueueState::error, *rq.port);
}

void lose_completion(Rq& rq) noexcept {
    overrun_cq(*rq.cq);
    set_rq_state(rq, QueueState::error, *rq.port);
}

void drain(Rq& rq) noexcept {
    const std::uint16_t pi =
        static_cast<std::uint16_t>(stride::load_from_device(&rq.dbrec[0]).host() & 0xffffU);
    if (static_cast<std::uint16_t>(pi - rq.ci) > rq.size.entries()) return;
    rq.pi = pi;
    while (rq.ci != rq.pi && !rq.cq->overrun && cq_has_room(*rq.cq)) {
        write_error_cqe(*rq.cq, failure_of(rq, prm::Syndrome::flushed));
        rq.next_stride = 0;
        ++rq.ci;
    }
}

namespace {

/// What was posted may be used, what was posted wrongly is named.
[[gnu::noinline]] void accept_posted(Rq& rq, std::uint16_t pi) noexcept {
    const std::uint16_t posted = static_cast<std::uint16_t>(pi - rq.ci);
    if (posted <= rq.size.entries()) [[likely]] {
        if (stride::ring_before(pi, rq.pi))
            broken(Rule::doorbell_backwards, "RQ 0x%x: %u after %u", rq.wqn.value, pi, rq.pi);
        rq.pi = pi;
        return;
    }
    const bool backwards = stride::ring_before(pi, rq.pi);
    fail_receive(rq, backwards ? Rule::doorbell_backwards : Rule::rq_overrun,
                 prm::Syndrome::local_qp_operation);
}

/// Of a queue that is ready.
void read_doorbell(Rq& rq) noexcept {
    const auto pi = static_cast<std::uint16_t>(stride::load_from_device(&rq.dbrec[0]).host() & 0xffffU);
    if (pi != rq.pi) [[unlikely]]
        accept_posted(rq, pi);
}

} // namespace

void Receiver::classify(const Frame& frame, Arrival& arrival) noexcept {
    arrival.frame = arrival.content = &frame;
    arrival.destination = nullptr;
    arrival.rq = nullptr;
    if (frame.length_bytes < ethernet_header_bytes) return;
    parse_into(frame, arrival.info);
    const std::byte* header = frame.segments.front().data;
    arrival.destination = steering_.find(header, arrival.info);
    const Destination* destination = arrival.destination;
    if (destination != nullptr && destination->tables != nullptr) {
        rss_hash_into(*destination->tables, destination->qp->rss.fields, header, arrival.info, arrival.rss);
    } else {
        arrival.rss = RssResult{};
    }
    if (destination != nullptr && !destination->drop) arrival.rq = destination->queue(arrival.rss.hash);
}

/// ... and looks at the queues they go to: with many queues their lines are in no first-level cache, and one
/// leads to the next. Each doorbell record is read for each frame: whether it was read before in the batch
/// would be a branch that nothing predicts.
void Receiver::classify_batch(std::span<const Frame> frames) noexcept {
    const std::uint64_t now_ns = device_clock_ns();
    for (std::size_t i = 0; i < frames.size(); ++i) {
        arrivals_[i].timestamp_ns = now_ns;
        classify(frames[i], arrivals_[i]);
        prefetch_write(arrivals_[i].rq);
    }
    for (std::size_t i = 0; i < frames.size(); ++i) {
        Rq* const rq = arrivals_[i].rq;
        if (rq == nullptr || rq->state != QueueState::ready) continue;
        prefetch_write(rq->cq);
        read_doorbell(*rq);
    }
}

/// What a fault makes of the next packet of `rq`; true: the packet is gone.
bool Receiver::befalls(Rq& rq) noexcept {
    PortFaults& faults = *port_.faults;
    if (rq.ci == rq.pi) return false;
    if (faults.rx_error.strikes()) {
        complete_in_error(rq, static_cast<prm::Syndrome>(faults.rx_error.syndrome), 0);
        return true;
    }
    if (faults.cq_overrun.strikes()) {
        lose_completion(rq);
        return true;
    }
    if (faults.filler_every != 0 && rq.striding && --faults.filler_countdown == 0) {
        faults.filler_countdown = faults.filler_every;
        skip_strides(rq, faults.filler_strides, tally_);
    }
    return false;
}

Placement Receiver::place_now(Rq& rq, const Arrival& arrival) noexcept {
    return rq.striding ? place_in_strides(rq, arrival, tally_) : place_in_wqe(rq, arrival, tally_);
}

/// While the port has faults. Cold.
Placement Receiver::place_under_faults(Rq& rq, const Arrival& arrival) noexcept {
    if (befalls(rq)) {
        ++tally_.queue_error;
        return Placement::placed;
    }
    Disorder* const disorder = port_.faults->disorder.get();
    if (disorder == nullptr) return place_now(rq, arrival);
    const bool aside = begin_aside(*disorder, rq);
    const Placement placement = place_now(rq, arrival);
    end_aside(*disorder);
    const bool follows = !aside && disorder->held != nullptr && disorder->held->cq == rq.cq;
    if (follows && placement == Placement::placed) release_held(*disorder);
    return placement;
}

/// In a queue whose doorbell record was not looked at.
Placement Receiver::look_and_place(Rq& rq, const Arrival& arrival) noexcept {
    if (rq.state == QueueState::ready) read_doorbell(rq);
    return place_in(rq, arrival);
}

Placement Receiver::place_in(Rq& rq, const Arrival& arrival) noexcept {
    if (rq.state != QueueState::ready) [[unlikely]] {
        ++tally_.queue_error;
        return Placement::placed;
    }
    if (port_.faults != nullptr) [[unlikely]]
        return place_under_faults(rq, arrival);
    return place_now(rq, arrival);
}

Placement Receiver::place(const Arrival& arrival) noexcept {
    const Destination* destination = arrival.destination;
    if (destination == nullptr) {
        ++tally_.steering_miss;
    } else if (!destination->drop) {
        if (arrival.frame->length_bytes > port_.max_frame_bytes) [[unlikely]] {
            ++tally_.oversize;
            return Placement::placed;
        }
        if (arrival.rq == nullptr) {
            ++tally_.queue_error;
        } else if (place_in(*arrival.rq, arrival) == Placement::no_buffer) {
            return Placement::no_buffer;
        }
    }
    for (const Destination& sniffer : steering_.sniffers()) {
        Arrival copy = arrival;
        copy.destination = &sniffer;
        Rq* rq = sniffer.drop ? nullptr : sniffer.queue(0);
        if (rq != nullptr && rq->state == QueueState::ready) (void)look_and_place(*rq, copy);
    }
    return Placement::placed;
}

void Receiver::add_tally() noexcept {
    for (Cq* cq : port_.compressing)
        end_session(*cq);
    PortCounters& counters = port_.counters;
    count(counters.rx_frames, tally_.frames);
    count(counters.rx_bytes, tally_.bytes);
    count(counters.rx_wqes, tally_.wqes);
    if (tally_.fillers != 0) count(counters.rx_fillers, tally_.fillers);
    if (tally_.out_of_buffer != 0) count(counters.out_of_buffer, tally_.out_of_buffer);
    if (tally_.steering_miss != 0) count(counters.rx_steering_miss, tally_.steering_miss);
    if (tally_.oversize != 0) count(counters.rx_oversize, tally_.oversize);
    if (tally_.queue_error != 0) count(counters.rx_queue_error, tally_.queue_error);
    if (tally_.bad_pkey != 0) count(counters.rx_bad_pkey, tally_.bad_pkey);
    if (tally_.bad_qkey != 0) count(counters.rx_bad_qkey, tally_.bad_qkey);
    if (tally_.no_qp != 0) count(counters.rx_no_qp, tally_.no_qp);
    if (tally_.malformed != 0) count(counters.rx_malformed, tally_.malformed);
    if (tally_.foreign != 0) count(counters.rx_foreign, tally_.foreign);
    tally_ = {};
}

unsigned Receiver::deliver(std::span<const Frame> frames, WhenFull when_full) {
    if (!plugged()) [[unlikely]] {
        count(port_.counters.rx_unplugged, frames.size());
        return static_cast<unsigned>(frames.size());
    }
    if (port_.link_layer == LinkLayer::infiniband || !port_.datagram_qps.empty()) [[unlikely]]
        return deliver_mixed(frames, when_full);
    return deliver_ethernet(frames, when_full);
}

unsigned Receiver::deliver_ethernet(std::span<const Frame> frames, WhenFull when_full) {
    const bool wait = when_full == WhenFull::wait || port_.pause;
    unsigned gone = 0;
    bool full = false;
    steering_.refresh(port_);
    while (gone < frames.size() && !full) {
        const unsigned batch = std::min(batch_frames, static_cast<unsigned>(frames.size()) - gone);
        classify_batch(frames.subspan(gone, batch));
        unsigned placed = 0;
        for (; placed < batch; ++placed) {
            if (place(arrivals_[placed]) == Placement::placed) [[likely]]
                continue;
            full = wait;
            if (full) break;
            ++tally_.out_of_buffer;
            count(arrivals_[placed].rq->out_of_buffer, 1);
        }
        gone += placed;
    }
    add_tally();
    return gone;
}

bool Receiver::listening() {
    steering_.refresh(port_);
    if (!plugged()) return false;
    if (!port_.datagram_qps.empty()) return true;
    return steering_.listening();
}

bool Receiver::takes(const Frame& frame) {
    steering_.refresh(port_);
    if (port_.link_layer == LinkLayer::infiniband) return !port_.datagram_qps.empty();
    Arrival arrival;
    classify(frame, arrival);
    if (arrival.destination == nullptr) return false;
    if (arrival.destination->drop) return true;
    return arrival.rq != nullptr && arrival.rq->state == QueueState::ready;
}

} // namespace swhca
