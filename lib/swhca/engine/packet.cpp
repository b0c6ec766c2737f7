// SPDX-License-Identifier: BSD-3-Clause
/// How a received packet looks in memory and in its CQE, whatever queue it goes to.
#include "swhca/engine/receive.hpp"

#include "swhca/engine/crc32.hpp"

#include <algorithm>

namespace swhca {
namespace {

using prm::Cqe;
using prm::L3Type;

constexpr std::uint32_t addresses_bytes = 12; ///< what stays before a stripped tag
constexpr std::uint32_t fcs_bytes = 4;

bool strips(const Rq& rq, const Arrival& arrival) noexcept {
    return rq.vlan_strip && arrival.info.vlan_tags != 0 && arrival.datagram == nullptr;
}

/// A writer over contiguous memory.
struct Line {
    std::byte* to;
    void put(const std::byte* from, std::uint32_t bytes) noexcept {
        std::memcpy(to, from, bytes);
        to += bytes;
    }
};

/// A writer over a list of parts.
struct Parts {
    std::span<const MemoryPart> parts;
    std::uint32_t offset; ///< in the first part

    void put(const std::byte* from, std::uint32_t bytes) noexcept {
        while (bytes != 0 && !parts.empty()) {
            const MemoryPart& part = parts.front();
            if (offset >= part.length_bytes) {
                offset -= part.length_bytes;
                parts = parts.subspan(1);
                continue;
            }
            const std::uint32_t some = std::min(bytes, part.length_bytes - offset);
            std::memcpy(part.data + offset, from, some);
            offset += some;
            from += some;
            bytes -= some;
        }
    }
};

/// Puts the frame's bytes from `skip` to the end, segment by segment.
template <class Writer>
void put_from(Writer& writer, const Frame& frame, std::uint32_t skip) noexcept {
    for (const Segment& segment : frame.segments) {
        if (skip >= segment.length_bytes) {
            skip -= segment.length_bytes;
            continue;
        }
        writer.put(segment.data + skip, segment.length_bytes - skip);
        skip = 0;
    }
}

template <class Writer>
void put_frame(Writer& writer, const Rq& rq, const Arrival& arrival) noexcept {
    const Frame& frame = *arrival.content;
    if (strips(rq, arrival)) {
        writer.put(frame.segments.front().data, addresses_bytes);
        put_from(writer, frame, addresses_bytes + vlan_tag_bytes);
    } else {
        put_from(writer, frame, 0);
    }
    if (!rq.scatter_fcs) return;
    const std::uint32_t fcs = frame_check_sequence(frame);
    std::array<std::byte, fcs_bytes> bytes;
    std::memcpy(bytes.data(), &fcs, bytes.size());
    writer.put(bytes.data(), fcs_bytes);
}

L3Type l3_type(const PacketInfo& info) noexcept {
    if (info.ip_version == 4) return L3Type::ipv4;
    return info.ip_version == 6 ? L3Type::ipv6 : L3Type::none;
}

} // namespace

std::uint32_t received_bytes(const Rq& rq, const Arrival& arrival) noexcept {
    std::uint32_t bytes = arrival.content->length_bytes;
    if (strips(rq, arrival)) bytes -= vlan_tag_bytes;
    if (rq.scatter_fcs) bytes += fcs_bytes;
    return bytes;
}

void copy_frame(std::byte* to, const Rq& rq, const Arrival& arrival) noexcept {
    Line line{to};
    put_frame(line, rq, arrival);
}

void scatter_frame(std::span<const MemoryPart> parts, std::uint32_t offset, const Rq& rq,
                   const Arrival& arrival) noexcept {
    Parts writer{parts, offset};
    put_frame(writer, rq, arrival);
}

void scatter_bytes(std::span<const MemoryPart> parts, std::uint32_t offset, const Segment& bytes) noexcept {
    Parts writer{parts, offset};
    writer.put(bytes.data, bytes.length_bytes);
}

void describe_packet(void* cqe, const Rq& rq, const Arrival& arrival) noexcept {
    const PacketInfo& info = arrival.info;
    const RssResult& rss = arrival.rss;
    const bool strip = strips(rq, arrival);
    stride::set_dword<Cqe::rx_hash_result>(cqe, rss.hash);
    stride::set_dword<Cqe::rx_hash_l4_destination, Cqe::rx_hash_l4_source, Cqe::rx_hash_ip_destination,
                      Cqe::rx_hash_ip_source>(cqe, rss.l4_destination, rss.l4_source, rss.ip_destination,
                                              rss.ip_source);
    stride::set_dword<Cqe::l2_ok, Cqe::l3_ok, Cqe::l4_ok, Cqe::ip_fragment, Cqe::l4_type, Cqe::l3_type,
                      Cqe::ip_options, Cqe::vlan_stripped, Cqe::vlan_tci>(
        cqe, 1, l3_checksum_ok(*arrival.frame, info), l4_checksum_ok(*arrival.frame, info), info.fragment,
        info.l4_type, l3_type(info), info.ip_options, strip, strip ? info.vlan_tci : 0);
    if (rq.cq != nullptr && rq.cq->mini_cqe >= MiniCqeFormat::csum) [[unlikely]] {
        const std::uint32_t length = arrival.frame->length_bytes;
        const std::uint32_t from = std::min<std::uint32_t>(info.l3_offset, length);
        // Sums are of bytes as they lie; the field is read as a big-endian number.
        const stride::be16 sum =
            stride::be16::from_wire(fold_sum(sum_frame(*arrival.frame, from, length - from)));
        Cqe::checksum::set(cqe, sum.host());
    }
    stride::set_dword<Cqe::user_index>(cqe, rq.user_index);
    Cqe::timestamp::set(cqe, arrival.timestamp_ns);
    if (arrival.datagram == nullptr) [[likely]]
        stride::set_dword<Cqe::flow_tag>(cqe, arrival.destination->tag);
    else
        describe_datagram(cqe, arrival);
}

void describe_datagram(void* cqe, const Arrival& arrival) noexcept {
    const Datagram& datagram = *arrival.datagram;
    // Of an Ethernet port's packet the low bits of the SL say what kind of network header came.
    const std::uint32_t level = datagram.service_level | datagram.network_type;
    Cqe::source_lid::set(cqe, datagram.source_lid);
    stride::set_dword<Cqe::grh, Cqe::service_level, Cqe::source_qpn>(cqe, datagram.has_grh ? 1 : 0, level,
                                                                     datagram.source.value);
    stride::set_dword<Cqe::metadata>(cqe, datagram.has_immediate ? datagram.immediate.host() : datagram.pkey);
    const Destination* rule = arrival.destination;
    const bool tagged = rule != nullptr && rule->tag != 0;
    stride::set_dword<Cqe::qpn>(cqe, tagged ? rule->tag : datagram.destination.value);
}

} // namespace swhca
