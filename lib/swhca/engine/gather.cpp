// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/gather.hpp"

#include "swhca/engine/datagram.hpp"
#include "swhca/engine/offload.hpp"
#include "swhca/engine/parse.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace swhca {
namespace {

using prm::CtrlSegment;
using prm::DataSegment;
using prm::EthSegment;
using prm::InlineSegment;
using prm::Opcode;
using prm::Syndrome;

constexpr unsigned ds_per_wqebb = prm::wqebb_bytes / prm::ds_bytes;
constexpr unsigned data_ds = 2;          ///< DS before the data: control and Ethernet segment
constexpr unsigned datagram_data_ds = 4; ///< control and datagram segment
constexpr unsigned underlay_eth_ds = 5;  ///< control, datagram segment and pad before the Ethernet segment
constexpr std::uint32_t max_underlay_inline_bytes = 224, min_underlay_inline_bytes = 4;
constexpr std::uint64_t byte_count_of_zero = std::uint64_t{1} << 31;

constexpr GatherFault operation_fault(Rule rule) noexcept { return {rule, Syndrome::local_qp_operation}; }

constexpr unsigned ds_of(std::uint32_t bytes) noexcept { return (bytes + prm::ds_bytes - 1) / prm::ds_bytes; }

/// One WQE in the ring, and the frame being made of it.
class WqeReader {
  public:
    WqeReader(const Qp& qp, std::uint16_t index, GatherBatch& batch) noexcept
        : qp_{qp}
        , mrs_{qp.context->device->mrs}
        , batch_{batch}
        , ring_bytes_{qp.sq.size.entries() * prm::wqebb_bytes}
        , start_{qp.sq.size.slot(index) * prm::wqebb_bytes} {}

    /// Segments may wrap at the ring's end between two DS.
    const std::byte* ds(unsigned number) const noexcept {
        return qp_.sq.ring + ((start_ + number * prm::ds_bytes) & (ring_bytes_ - 1));
    }
    unsigned ds_count() const noexcept { return CtrlSegment::ds::get(ds(0)); }

    GatherFault read_send() noexcept;
    GatherFault read_datagram(bool has_immediate) noexcept;
    /// `skip` frames of the WQE left before; takes `budget` more at most; `whole` tells if that was all.
    GatherFault read_enhanced_mpsw(unsigned skip, unsigned budget, bool& whole) noexcept;
    GatherFault read_tso(unsigned skip, unsigned budget, bool& whole) noexcept;

  private:
    GatherFault read_eth_segment(unsigned number = 1) noexcept;
    GatherFault read_underlay_header(unsigned& number) noexcept;
    void begin_frame() noexcept { pieces_ = 0, length_ = 0; }
    void add(const std::byte* data, std::uint32_t bytes) noexcept {
        batch_.segments[batch_.segment_count + 1 + pieces_++] = {data, bytes};
        length_ += bytes;
    }
    void add_from_ring(std::uint32_t offset, std::uint32_t bytes) noexcept;
    GatherFault add_data_segment(unsigned& number) noexcept;
    GatherFault check_length() const noexcept;
    GatherFault end_frame() noexcept;
    void add_slice(std::span<const Segment> payload, std::uint64_t offset, std::uint64_t bytes) noexcept;
    GatherFault end_tso_frame(const TsoSegment& segment) noexcept;

    const Qp& qp_;
    const MrTable& mrs_;
    GatherBatch& batch_;
    std::uint32_t ring_bytes_, start_;
    SendOffloads offloads_{};
    std::uint32_t inline_header_bytes_{};
    unsigned pieces_{};
    std::uint64_t length_{};
};

/// Bytes inlined into the WQE, from `offset` of it on; two pieces if they run over the ring's end.
void WqeReader::add_from_ring(std::uint32_t offset, std::uint32_t bytes) noexcept {
    const std::uint32_t at = (start_ + offset) & (ring_bytes_ - 1);
    const std::uint32_t first = std::min(bytes, ring_bytes_ - at);
    add(qp_.sq.ring + at, first);
    if (first != bytes) add(qp_.sq.ring, bytes - first);
}

GatherFault WqeReader::read_eth_segment(unsigned number) noexcept {
    if (ds_count() <= number) return operation_fault(Rule::ds_limit);
    const std::byte* eth = ds(number);
    if (EthSegment::reserved_checksum::get(eth) != 0 || EthSegment::reserved_mss::get(eth) != 0 ||
        EthSegment::l3_inner_checksum::get(eth) != 0 || EthSegment::l4_inner_checksum::get(eth) != 0 ||
        EthSegment::parsing_flags::get(eth) != 0 || EthSegment::parsing_offsets::get(eth) != 0)
        return operation_fault(Rule::reserved_bits);
    offloads_.l3_checksum = EthSegment::l3_checksum::get(eth) != 0;
    offloads_.l4_checksum = EthSegment::l4_checksum::get(eth) != 0;
    offloads_.insert_vlan = EthSegment::insert_vlan::get(eth) != 0;
    if (offloads_.insert_vlan) {
        offloads_.insert_svlan = EthSegment::insert_svlan::get(eth) != 0;
        offloads_.vlan_tci = static_cast<std::uint16_t>(EthSegment::vlan_tci::get(eth));
    } else {
        inline_header_bytes_ = EthSegment::inline_header_bytes::get(eth);
    }
    return {};
}

/// Adds what DS `number` points at or holds, and moves `number` behind it.
GatherFault WqeReader::add_data_segment(unsigned& number) noexcept {
    const std::byte* segment = ds(number);
    if (DataSegment::inlined::get(segment) != 0) {
        const std::uint32_t bytes = InlineSegment::byte_count::get(segment);
        const unsigned used = ds_of(InlineSegment::header_bytes + bytes);
        if (InlineSegment::reserved::get(segment) != 0) return operation_fault(Rule::reserved_bits);
        if (bytes == 0 || number + used > ds_count()) return operation_fault(Rule::ds_layout);
        add_from_ring(number * prm::ds_bytes + InlineSegment::header_bytes, bytes);
        number += used;
        return {};
    }
    const std::uint32_t count = DataSegment::byte_count::get(segment);
    const std::uint64_t bytes = count == 0 ? byte_count_of_zero : count;
    const DmaAnswer answer =
        dma(mrs_, qp_.pd, {Lkey{DataSegment::lkey::get(segment)}, DataSegment::address::get(segment), bytes},
            Access::read);
    if (answer.data == nullptr) return {answer.broken, Syndrome::local_protection};
    prefetch_read(answer.data);
    add(answer.data, static_cast<std::uint32_t>(bytes));
    ++number;
    return {};
}

GatherFault WqeReader::check_length() const noexcept {
    if (length_ >= ethernet_header_bytes && length_ <= qp_.port->max_frame_bytes) return {};
    return {Rule::frame_length, Syndrome::local_length};
}

/// The pieces since begin_frame are a frame: checks it, applies offloads, adds it to the batch.
GatherFault WqeReader::end_frame() noexcept {
    if (const GatherFault fault = check_length()) return fault;
    Segment* const pieces = &batch_.segments[batch_.segment_count];
    const std::uint32_t length = static_cast<std::uint32_t>(length_);
    Frame& frame = batch_.frames[batch_.frame_count];
    if (!offloads_.any() && pieces[1].length_bytes >= std::min(length, header_bytes)) [[likely]] {
        frame = {{pieces + 1, pieces_}, length};
    } else {
        std::byte* const scratch = batch_.scratch[batch_.frame_count].data();
        frame = rebuild_header(scratch, pieces, pieces_, offloads_);
        if (offloads_.l3_checksum || offloads_.l4_checksum) insert_checksums(scratch, frame, offloads_);
    }
    batch_.segment_count += pieces_ + 1;
    ++batch_.frame_count;
    return {};
}

GatherFault WqeReader::read_send() noexcept {
    if (const GatherFault fault = read_eth_segment()) return fault;
    begin_frame();
    unsigned number = data_ds;
    if (inline_header_bytes_ > EthSegment::inline_start_bytes)
        number += ds_of(inline_header_bytes_ - EthSegment::inline_start_bytes);
    if (number > ds_count()) return operation_fault(Rule::ds_layout);
    if (inline_header_bytes_ < qp_.sq.min_inline_bytes) return operation_fault(Rule::inline_header);
    if (inline_header_bytes_ != 0)
        add_from_ring(CtrlSegment::bytes + EthSegment::inline_start, inline_header_bytes_);
    while (number < ds_count()) {
        if (const GatherFault fault = add_data_segment(number)) return fault;
    }
    return pieces_ == 0 ? operation_fault(Rule::ds_limit) : end_frame();
}

/// Ethernet segment of a SOURCE_QPN QP: checksums to insert, and the IPoIB header (and more) inlined.
GatherFault WqeReader::read_underlay_header(unsigned& number) noexcept {
    if (const GatherFault fault = read_eth_segment(underlay_eth_ds)) return fault;
    if (offloads_.insert_vlan) return operation_fault(Rule::reserved_bits);
    if (inline_header_bytes_ < min_underlay_inline_bytes || inline_header_bytes_ > max_underlay_inline_bytes)
        return operation_fault(Rule::inline_header);
    number = underlay_eth_ds + 1 + ds_of(inline_header_bytes_ - EthSegment::inline_start_bytes);
    if (number > ds_count()) return operation_fault(Rule::ds_layout);
    add_from_ring(underlay_eth_ds * prm::ds_bytes + EthSegment::inline_start, inline_header_bytes_);
    return {};
}

GatherFault WqeReader::read_datagram(bool has_immediate) noexcept {
    if (ds_count() < datagram_data_ds) return operation_fault(Rule::ds_limit);
    std::array<std::byte, prm::DatagramSegment::bytes> address;
    for (unsigned i = 0; i < address.size() / prm::ds_bytes; ++i)
        std::memcpy(address.data() + i * prm::ds_bytes, ds(1 + i), prm::ds_bytes);
    begin_frame();
    unsigned number = datagram_data_ds;
    if (qp_.source_qpn != 0) {
        if (has_immediate) return operation_fault(Rule::unknown_opcode);
        if (const GatherFault fault = read_underlay_header(number)) return fault;
    }
    while (number < ds_count()) {
        if (const GatherFault fault = add_data_segment(number)) return fault;
    }
    DatagramRequest request;
    request.address = address.data();
    request.has_immediate = has_immediate;
    request.solicited = CtrlSegment::solicited::get(ds(0)) != 0;
    request.immediate = be32{CtrlSegment::immediate::get(ds(0))};
    request.offloads = offloads_;
    return end_datagram(qp_, request, pieces_, batch_);
}

GatherFault WqeReader::read_enhanced_mpsw(unsigned skip, unsigned budget, bool& whole) noexcept {
    if (const GatherFault fault = read_eth_segment()) return fault;
    if (inline_header_bytes_ != 0) return operation_fault(Rule::inline_header);
    if (ds_count() == data_ds) return operation_fault(Rule::ds_limit);
    unsigned taken = 0;
    unsigned frame_number = 0;
    for (unsigned number = data_ds; number < ds_count(); ++frame_number) {
        whole = taken < budget && batch_.has_room();
        if (!whole) return {};
        const bool inlined = DataSegment::inlined::get(ds(number)) != 0;
        if (!inlined && qp_.sq.min_inline_bytes != 0) return operation_fault(Rule::inline_header);
        begin_frame();
        if (const GatherFault fault = add_data_segment(number)) return fault;
        if (frame_number < skip) continue;
        if (const GatherFault fault = end_frame()) return fault;
        ++taken;
    }
    return {};
}

/// Adds the part of the payload from `offset` on.
void WqeReader::add_slice(std::span<const Segment> payload, std::uint64_t offset,
                          std::uint64_t bytes) noexcept {
    for (const Segment& segment : payload) {
        if (offset >= segment.length_bytes) {
            offset -= segment.length_bytes;
            continue;
        }
        const std::uint64_t some = std::min(bytes, segment.length_bytes - offset);
        add(segment.data + offset, static_cast<std::uint32_t>(some));
        bytes -= some;
        offset = 0;
        if (bytes == 0) return;
    }
}

GatherFault WqeReader::end_tso_frame(const TsoSegment& segment) noexcept {
    if (const GatherFault fault = check_length()) return fault;
    std::byte* const scratch = batch_.scratch[batch_.frame_count].data();
    Frame& frame = batch_.frames[batch_.frame_count];
    frame = rebuild_header(scratch, &batch_.segments[batch_.segment_count], pieces_, offloads_);
    if (!make_tso_header(scratch, frame, segment, offloads_)) return operation_fault(Rule::tso_header);
    insert_checksums(scratch, frame, offloads_);
    batch_.segment_count += pieces_ + 1;
    ++batch_.frame_count;
    return {};
}

GatherFault WqeReader::read_tso(unsigned skip, unsigned budget, bool& whole) noexcept {
    if (const GatherFault fault = read_eth_segment()) return fault;
    const std::uint32_t mss = EthSegment::mss::get(ds(1));
    if (mss == 0) return operation_fault(Rule::tso_mss);
    if (inline_header_bytes_ == 0 || inline_header_bytes_ > header_bytes)
        return operation_fault(Rule::tso_header);
    unsigned number = data_ds + ds_of(inline_header_bytes_ -
                                      std::min(inline_header_bytes_, EthSegment::inline_start_bytes));
    if (number > ds_count()) return operation_fault(Rule::ds_layout);
    // The payload's pieces are collected where a frame's would be, then moved aside.
    begin_frame();
    while (number < ds_count()) {
        if (const GatherFault fault = add_data_segment(number)) return fault;
    }
    const std::uint64_t payload_bytes = length_;
    if (payload_bytes == 0) return operation_fault(Rule::ds_limit);
    if (payload_bytes > qp_.context->device->caps.max_tso_bytes)
        return {Rule::frame_length, Syndrome::local_length};
    std::array<Segment, 2 * prm::max_ds> kept;
    std::copy_n(&batch_.segments[batch_.segment_count + 1], pieces_, kept.begin());
    const std::span<const Segment> payload{kept.data(), pieces_};
    const std::uint32_t frames = static_cast<std::uint32_t>((payload_bytes + mss - 1) / mss);
    for (std::uint32_t i = skip; i < frames; ++i) {
        whole = i - skip < budget && batch_.has_room();
        if (!whole) return {};
        const std::uint64_t offset = std::uint64_t{i} * mss;
        begin_frame();
        add_from_ring(CtrlSegment::bytes + EthSegment::inline_start, inline_header_bytes_);
        add_slice(payload, offset, std::min<std::uint64_t>(mss, payload_bytes - offset));
        const TsoSegment segment{i, mss, inline_header_bytes_, i + 1 == frames};
        if (const GatherFault fault = end_tso_frame(segment)) return fault;
    }
    return {};
}

/// What must hold for any WQE. `posted`: WQEBBs up to the producer index.
GatherFault check_ctrl(const Qp& qp, const std::byte* ctrl, std::uint16_t index, unsigned posted) noexcept {
    if (CtrlSegment::wqe_index::get(ctrl) != index) return operation_fault(Rule::wqe_index);
    if (CtrlSegment::qpn::get(ctrl) != qp.qpn.value) return operation_fault(Rule::wqe_qpn);
    const unsigned ds = CtrlSegment::ds::get(ctrl);
    if (CtrlSegment::reserved_ds::get(ctrl) != 0 || ds == 0) return operation_fault(Rule::ds_limit);
    if ((ds + ds_per_wqebb - 1) / ds_per_wqebb > posted) return operation_fault(Rule::ds_layout);
    if (CtrlSegment::reserved_flag4::get(ctrl) != 0 || CtrlSegment::reserved_flag0::get(ctrl) != 0 ||
        CtrlSegment::stream_channel::get(ctrl) != 0)
        return operation_fault(Rule::reserved_bits);
    return {};
}

GatherFault read_datagram_wqe(WqeReader& reader, const GatheredWqe& wqe) noexcept {
    switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
        return {};
    case Opcode::send:
    case Opcode::send_immediate:
        return reader.read_datagram(static_cast<Opcode>(wqe.opcode) == Opcode::send_immediate);
    default:
        return operation_fault(Rule::unknown_opcode);
    }
}

GatherFault read_wqe(WqeReader& reader, unsigned skip, unsigned budget, GatheredWqe& wqe) noexcept {
    switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
        return {};
    case Opcode::send_immediate: // a RAW_PACKET frame has no place for it
        break;
    case Opcode::send:
        return reader.read_send();
    case Opcode::enhanced_mpsw:
        return reader.read_enhanced_mpsw(skip, budget, wqe.whole);
    case Opcode::tso:
        return reader.read_tso(skip, budget, wqe.whole);
    }
    return operation_fault(Rule::unknown_opcode);
}

/// The WQEs ahead were last written by another core.
void prefetch_ahead(const Sq& sq, std::uint16_t index) noexcept {
    constexpr std::uint16_t ahead = 4;
    if (static_cast<std::uint16_t>(sq.pi - index) > ahead)
        prefetch_read(sq_wqebb(sq, static_cast<std::uint16_t>(index + ahead)));
}

} // namespace

void gather(const Qp& qp, unsigned budget, GatherBatch& batch) noexcept {
    const Sq& sq = qp.sq;
    std::uint16_t index = sq.ci;
    unsigned skip = sq.frames_done;
    while (index != sq.pi && batch.frame_count < budget && batch.has_room() &&
           batch.wqe_count < GatherBatch::max_wqes) {
        prefetch_ahead(sq, index);
        WqeReader reader{qp, index, batch};
        const std::byte* ctrl = reader.ds(0);
        const unsigned first_frame = batch.frame_count;
        const unsigned first_segment = batch.segment_count;
        GatheredWqe& wqe = batch.wqes[batch.wqe_count];
        wqe.index = index;
        wqe.opcode = static_cast<std::uint8_t>(CtrlSegment::opcode::get(ctrl));
        wqe.whole = true;
        wqe.completion = CtrlSegment::completion_event::get(ctrl) >= 2;
        wqe.solicited = CtrlSegment::solicited::get(ctrl) != 0;
        batch.fault = check_ctrl(qp, ctrl, index, static_cast<std::uint16_t>(sq.pi - index));
        if (!batch.fault) {
            batch.fault = qp.type == QpType::ud ? read_datagram_wqe(reader, wqe)
                                                : read_wqe(reader, skip, budget - first_frame, wqe);
        }
        if (batch.fault) {
            batch.frame_count = first_frame;
            batch.segment_count = first_segment;
            return;
        }
        wqe.wqebbs = static_cast<std::uint16_t>((reader.ds_count() + ds_per_wqebb - 1) / ds_per_wqebb);
        wqe.first_frame = static_cast<std::uint16_t>(first_frame);
        wqe.frames = static_cast<std::uint16_t>(batch.frame_count - first_frame);
        ++batch.wqe_count;
        if (!wqe.whole) return;
        index = static_cast<std::uint16_t>(index + wqe.wqebbs);
        skip = 0;
    }
}

} // namespace swhca
