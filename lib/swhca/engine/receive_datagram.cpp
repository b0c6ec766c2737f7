// SPDX-License-Identifier: BSD-3-Clause
/// Receiving for UD QPs: checks, groups, steering of IPoIB flows, shared receive queues.
///
/// A QP named by a datagram owns its keys and groups; flow rules of QPs with that source_qpn may take the
/// packet for queues of their own (the kernel's mlx5 driver: set_underlay_qp in fs.c). What no rule takes is
/// the owner's.
#include "base/barrier.hpp"
#include "swhca/engine/queues.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/prm/wqe.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using prm::Cqe;
using prm::DataSegment;

constexpr std::uint32_t ipoib_header_bytes = 4;
constexpr std::uint16_t full_member = 0x8000;
constexpr std::uint32_t max_parts = 64;

/// Same partition, and not both limited members of it (IBTA 10.9.3).
bool same_partition(std::uint16_t a, std::uint16_t b) noexcept {
    return ((a ^ b) & ~full_member) == 0 && ((a | b) & full_member) != 0 && (a & ~full_member) != 0;
}

/// Appends `length` bytes of the frame from `offset` on to `out`; returns how many segments. Too many: cut.
std::size_t slice(const Frame& frame, std::uint32_t offset, std::uint32_t length,
                  std::span<Segment> out) noexcept {
    std::size_t used = 0;
    for (const Segment& segment : frame.segments) {
        if (length == 0 || used == out.size()) break;
        if (offset >= segment.length_bytes) {
            offset -= segment.length_bytes;
            continue;
        }
        const std::uint32_t some = std::min(length, segment.length_bytes - offset);
        out[used++] = {segment.data + offset, some};
        length -= some;
        offset = 0;
    }
    return used;
}

/// Copies the frame's bytes from `offset` on; returns how many there were of `length`.
std::uint32_t copy_out(const Frame& frame, std::uint32_t offset, std::byte* to,
                       std::uint32_t length) noexcept {
    std::uint32_t copied = 0;
    for (const Segment& segment : frame.segments) {
        if (offset >= segment.length_bytes) {
            offset -= segment.length_bytes;
            continue;
        }
        const std::uint32_t some = std::min(length - copied, segment.length_bytes - offset);
        std::memcpy(to + copied, segment.data + offset, some);
        copied += some;
        offset = 0;
        if (copied == length) break;
    }
    return copied;
}

Qp* owner_of(const Port& port, Qpn qpn) noexcept {
    for (Qp* qp : port.datagram_qps) {
        if (qp->qpn == qpn && qp->source_qpn == 0) return qp;
    }
    return nullptr;
}

bool is_member(const Qp& qp, const Datagram& datagram, LinkLayer link) noexcept {
    Gid gid;
    std::memcpy(gid.data(), datagram.grh.data() + ib::Grh::destination_gid_offset, gid.size());
    return std::any_of(qp.groups.begin(), qp.groups.end(), [&](const MulticastGroup& group) {
        if (link == LinkLayer::infiniband && group.lid != datagram.destination_lid) return false;
        return !datagram.has_grh || group.gid == gid;
    });
}

/// The scatter list of an SRQ's next WQE.
bool read_srq_list(const Srq& srq, std::array<MemoryPart, max_parts>& parts, std::size_t& count,
                   Rule& broken_rule) noexcept {
    const MrTable& mrs = srq.context->device->mrs;
    const std::byte* wqe = srq.ring + (std::size_t{srq.size.slot(srq.next_wqe)} << srq.log_wqe_bytes);
    const std::uint32_t segments = ((1U << srq.log_wqe_bytes) - prm::NextSegment::bytes) / DataSegment::bytes;
    for (std::uint32_t i = 0; i < segments && i < max_parts; ++i) {
        const std::byte* segment = wqe + prm::NextSegment::bytes + i * DataSegment::bytes;
        const Lkey lkey{DataSegment::lkey::get(segment)};
        const std::uint32_t bytes = DataSegment::byte_count::get(segment);
        if (lkey.value == prm::terminator_lkey) break;
        if (bytes == 0) continue;
        const DmaAnswer answer =
            dma(mrs, srq.pd, {lkey, DataSegment::address::get(segment), bytes}, Access::write);
        if (answer.data == nullptr) {
            broken_rule = answer.broken;
            return false;
        }
        parts[count++] = {answer.data, bytes, lkey.value};
    }
    return true;
}

/// Takes the WQE off the list; tells the program when few are left.
void advance_srq(Srq& srq) noexcept {
    const std::byte* wqe = srq.ring + (std::size_t{srq.size.slot(srq.next_wqe)} << srq.log_wqe_bytes);
    srq.next_wqe = static_cast<std::uint16_t>(prm::NextSegment::next_wqe_index::get(wqe));
    ++srq.ci;
    const std::uint16_t left = static_cast<std::uint16_t>(srq.pi - srq.ci);
    if (srq.limit == 0 || left >= srq.limit) return;
    srq.limit = 0;
    if (send_async_event(*srq.context, AsyncEvent::srq_limit, srq.user_handle)) ++srq.async_events;
}

/// The WQE at hand completes in error; the QP that took it is dead, the SRQ is not.
void fail_srq(Qp& qp, prm::Syndrome syndrome, Rule rule) noexcept {
    broken(rule, "QP 0x%x, SRQ 0x%x, WQE %u", qp.qpn.value, qp.srq->srqn, qp.srq->next_wqe);
    Failure failure;
    failure.syndrome = syndrome;
    failure.vendor_syndrome = static_cast<std::uint8_t>(static_cast<unsigned>(rule) + 1U);
    failure.qpn = qp.qpn.value;
    failure.user_index = qp.sq.user_index;
    failure.wqe_counter = failure.wqe_id = qp.srq->next_wqe;
    write_error_cqe(*qp.recv_cq, failure);
    advance_srq(*qp.srq);
    qp.state = qp.sq.state = QueueState::error;
    if (send_async_event(*qp.context, AsyncEvent::last_wqe, qp.user_handle)) ++qp.async_events;
}

/// Copies the content over the parts.
void scatter_content(std::span<const MemoryPart> parts, const Frame& content) noexcept {
    std::uint32_t offset = 0;
    for (const Segment& segment : content.segments) {
        scatter_bytes(parts, offset, segment);
        offset += segment.length_bytes;
    }
}

void complete_srq(Qp& qp, const Arrival& arrival) noexcept {
    // What a CQE says of the packet it says for a queue with these.
    Rq named;
    named.user_index = qp.sq.user_index;
    Cq& cq = *qp.recv_cq;
    const std::uint16_t index = qp.srq->next_wqe;
    void* cqe = begin_cqe(cq);
    describe_packet(cqe, named, arrival);
    stride::set_dword<Cqe::byte_count>(cqe, arrival.content->length_bytes);
    publish_cqe(cq, {index, receive_opcode(arrival), is_solicited(arrival)});
}

} // namespace

Placement place_in_srq(Qp& qp, const Arrival& arrival, ReceiveTally& tally) noexcept {
    Srq& srq = *qp.srq;
    srq.pi = static_cast<std::uint16_t>(stride::load_from_device(&srq.dbrec[0]).host() & 0xffffU);
    const std::uint16_t posted = static_cast<std::uint16_t>(srq.pi - srq.ci);
    if (posted == 0) return Placement::no_buffer;
    Cq* cq = qp.recv_cq;
    if (posted > srq.size.entries() || cq == nullptr || cq->overrun || !cq_has_room(*cq)) {
        if (posted > srq.size.entries())
            broken(Rule::rq_overrun, "SRQ 0x%x: %u WQEs posted of %u", srq.srqn, posted, srq.size.entries());
        else if (cq != nullptr)
            overrun_cq(*cq);
        qp.state = qp.sq.state = QueueState::error;
        ++tally.queue_error;
        return Placement::placed;
    }
    std::array<MemoryPart, max_parts> parts;
    std::size_t count = 0;
    Rule rule{};
    if (!read_srq_list(srq, parts, count, rule)) {
        fail_srq(qp, prm::Syndrome::local_protection, rule);
        ++tally.queue_error;
        return Placement::placed;
    }
    const std::span<const MemoryPart> list{parts.data(), count};
    std::uint64_t room = 0;
    for (const MemoryPart& part : list)
        room += part.length_bytes;
    if (room < arrival.content->length_bytes) {
        fail_srq(qp, prm::Syndrome::local_length, Rule::frame_length);
        ++tally.oversize;
        return Placement::placed;
    }
    scatter_content(list, *arrival.content);
    complete_srq(qp, arrival);
    advance_srq(srq);
    ++tally.wqes;
    ++tally.frames;
    tally.bytes += arrival.content->length_bytes;
    return Placement::placed;
}

/// GRH area and payload.
void Receiver::make_content(const Frame& frame) noexcept {
    DatagramWork& work = work_;
    work.content_segments[0] = {work.datagram.grh.data(), ib::Grh::bytes};
    const std::span<Segment> rest{work.content_segments.data() + 1, work.content_segments.size() - 1};
    const std::size_t used = slice(frame, work.datagram.payload_offset, work.datagram.payload_bytes, rest);
    work.content = {{work.content_segments.data(), used + 1}, ib::Grh::bytes + work.datagram.payload_bytes};
}

/// The Ethernet frame that an IPoIB packet would be: parser, steering and hashes know those. In place of the
/// destination MAC stands the QPN, as rules of SOURCE_QPN QPs have it.
void Receiver::make_view(const Frame& frame) noexcept {
    DatagramWork& work = work_;
    const Datagram& datagram = work.datagram;
    std::memset(work.view_header.data(), 0, ethernet_header_bytes);
    const be32 qpn{datagram.destination.value};
    std::memcpy(work.view_header.data() + 2, &qpn, sizeof qpn);
    std::uint32_t length = ethernet_header_bytes;
    std::size_t used = 1;
    if (datagram.payload_bytes >= ipoib_header_bytes) {
        copy_out(frame, datagram.payload_offset, work.view_header.data() + 12, 2);
        const std::uint32_t ip_bytes = datagram.payload_bytes - ipoib_header_bytes;
        const std::uint32_t ip_offset = datagram.payload_offset + ipoib_header_bytes;
        const std::uint32_t front = std::min(ip_bytes, header_bytes - ethernet_header_bytes);
        copy_out(frame, ip_offset, work.view_header.data() + ethernet_header_bytes, front);
        length += front;
        const std::span<Segment> rest{work.view_segments.data() + 1, work.view_segments.size() - 1};
        used += slice(frame, ip_offset + front, ip_bytes - front, rest);
        work.view_segments[0] = {work.view_header.data(), length};
        length += ip_bytes - front;
    } else {
        work.view_segments[0] = {work.view_header.data(), length};
    }
    work.view = {{work.view_segments.data(), used}, length};
}

/// To the queue of a rule, or to the owner's.
void Receiver::place_datagram(Qp& owner, Arrival& arrival) noexcept {
    classify(work_.view, arrival);
    arrival.content = &work_.content;
    Placement placement = Placement::no_buffer;
    Rq* rq = nullptr;
    if (arrival.destination != nullptr) {
        if (arrival.destination->drop) return;
        rq = arrival.rq;
    } else if (owner.srq != nullptr) {
        placement = place_in_srq(owner, arrival, tally_);
        if (placement == Placement::no_buffer) ++tally_.out_of_buffer;
        return;
    } else {
        rq = owner.rq.get();
    }
    if (rq == nullptr) {
        ++tally_.queue_error;
        return;
    }
    if (look_and_place(*rq, arrival) == Placement::placed) return;
    ++tally_.out_of_buffer;
    count(rq->out_of_buffer, 1);
}

/// Checks the keys, then delivers.
void Receiver::place_for_qp(Qp& qp, Arrival& arrival) noexcept {
    const Datagram& datagram = work_.datagram;
    const std::uint16_t own = qp.pkey_index < port_.pkeys.size() ? port_.pkeys[qp.pkey_index] : 0;
    if (!same_partition(own, datagram.pkey)) {
        ++tally_.bad_pkey;
    } else if (datagram.qkey != qp.qkey) {
        ++tally_.bad_qkey;
    } else {
        place_datagram(qp, arrival);
    }
}

void Receiver::place_for_group(Arrival& arrival) noexcept {
    bool anybody = false;
    for (std::size_t i = 0; i < port_.datagram_qps.size(); ++i) {
        Qp& qp = *port_.datagram_qps[i];
        if (qp.source_qpn != 0 || !is_member(qp, work_.datagram, port_.link_layer)) continue;
        if (work_.own && qp.block_multicast_loopback) continue;
        anybody = true;
        // Rules and CQEs name the member, not the group.
        const be32 qpn{qp.qpn.value};
        std::memcpy(work_.view_header.data() + 2, &qpn, sizeof qpn);
        work_.datagram.destination = qp.qpn;
        place_for_qp(qp, arrival);
    }
    // Groups nobody here is in pass by: a port without a filter of its own sees them all.
    if (!anybody && !work_.own) ++tally_.no_qp;
}

/// False: it is an Ethernet frame.
bool Receiver::take_datagram(const Frame& frame, bool own) noexcept {
    DatagramWork& work = work_;
    if (port_.link_layer == LinkLayer::ethernet && !is_roce(frame)) return false;
    work.datagram = Datagram{};
    work.own = own;
    if (!parse_datagram(frame, port_.link_layer, work.datagram)) {
        ++tally_.malformed;
        return true;
    }
    if (!is_for_port(port_, frame, work.datagram, !own)) {
        ++tally_.foreign;
        return true;
    }
    make_content(frame);
    make_view(frame);
    Arrival arrival;
    arrival.datagram = &work.datagram;
    arrival.timestamp_ns = device_clock_ns();
    if (work.datagram.multicast) {
        place_for_group(arrival);
    } else if (Qp* qp = owner_of(port_, work.datagram.destination)) {
        place_for_qp(*qp, arrival);
    } else {
        ++tally_.no_qp;
    }
    return true;
}

unsigned Receiver::deliver_mixed(std::span<const Frame> frames, WhenFull when_full) {
    steering_.refresh(port_);
    for (std::size_t i = 0; i < frames.size(); ++i) {
        if (take_datagram(frames[i], false)) continue;
        add_tally();
        if (deliver_ethernet(frames.subspan(i, 1), when_full) == 0) return static_cast<unsigned>(i);
    }
    add_tally();
    return static_cast<unsigned>(frames.size());
}

void Receiver::deliver_own(const Frame& frame) {
    steering_.refresh(port_);
    (void)take_datagram(frame, true);
    add_tally();
}

} // namespace swhca
