// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/parse.hpp"

#include "base/be.hpp"
#include "swhca/engine/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using prm::L4Type;
using stride::be16;
using stride::be32;

constexpr std::uint8_t ip_proto_hop_by_hop = 0;
constexpr std::uint8_t ip_proto_routing = 43;
constexpr std::uint8_t ip_proto_fragment = 44;
constexpr std::uint8_t ip_proto_destination_options = 60;
constexpr std::uint8_t tcp_flag_ack = 0x10;
constexpr std::uint16_t ipv4_fragment_mask = 0x3fff; ///< more-fragments bit and offset

/// The bytes a parser may look at.
struct View {
    const std::byte* data;
    std::uint32_t length;

    bool has(std::uint32_t offset, std::uint32_t bytes) const noexcept { return offset + bytes <= length; }
    std::uint8_t u8(std::uint32_t offset) const noexcept { return static_cast<std::uint8_t>(data[offset]); }
    std::uint16_t u16(std::uint32_t offset) const noexcept {
        be16 value;
        std::memcpy(&value, data + offset, sizeof value);
        return value;
    }
};

bool is_extension(std::uint8_t proto) noexcept {
    return proto == ip_proto_hop_by_hop || proto == ip_proto_routing || proto == ip_proto_fragment ||
           proto == ip_proto_destination_options;
}

/// TCP types tell acknowledgments with and without payload apart.
L4Type tcp_type(const View& view, std::uint32_t l4, std::uint32_t l4_bytes) noexcept {
    const std::uint32_t header = (view.u8(l4 + 12) >> 4) * 4U;
    if ((view.u8(l4 + 13) & tcp_flag_ack) == 0) return L4Type::tcp;
    return l4_bytes <= header ? L4Type::tcp_empty_ack : L4Type::tcp_ack;
}

void parse_l4(const View& view, PacketInfo& info) noexcept {
    const std::uint32_t l4 = info.l4_offset;
    if (info.ip_proto == ip_proto_tcp && view.has(l4, tcp_header_bytes)) {
        info.l4_type = tcp_type(view, l4, info.l4_bytes);
    } else if (info.ip_proto == ip_proto_udp && view.has(l4, udp_header_bytes)) {
        info.l4_type = L4Type::udp;
    } else {
        return;
    }
    info.src_port = view.u16(l4);
    info.dst_port = view.u16(l4 + 2);
}

void parse_ipv4(const View& view, std::uint32_t frame_bytes, PacketInfo& info) noexcept {
    const std::uint32_t l3 = info.l3_offset;
    if (!view.has(l3, ipv4_header_bytes)) return;
    const std::uint32_t header = (view.u8(l3) & 0xfU) * 4U;
    const std::uint32_t total = view.u16(l3 + 2);
    if (view.u8(l3) >> 4 != 4 || header < ipv4_header_bytes || total < header || !view.has(l3, header))
        return;
    info.ip_version = 4;
    info.ip_options = header != ipv4_header_bytes;
    info.ip_proto = view.u8(l3 + 9);
    info.fragment = (view.u16(l3 + 6) & ipv4_fragment_mask) != 0;
    info.l4_offset = static_cast<std::uint16_t>(l3 + header);
    info.l4_bytes = total - header;
    info.complete = l3 + total <= frame_bytes;
    if (!info.fragment) parse_l4(view, info);
}

void parse_ipv6(const View& view, std::uint32_t frame_bytes, PacketInfo& info) noexcept {
    const std::uint32_t l3 = info.l3_offset;
    if (!view.has(l3, ipv6_header_bytes) || view.u8(l3) >> 4 != 6) return;
    info.ip_version = 6;
    std::uint8_t proto = view.u8(l3 + 6);
    std::uint32_t offset = l3 + ipv6_header_bytes;
    const std::uint32_t end = offset + view.u16(l3 + 4);
    while (is_extension(proto) && view.has(offset, 8) && offset + 8 <= end) {
        info.ip_options = true;
        if (proto == ip_proto_fragment) info.fragment = true;
        const std::uint32_t bytes = proto == ip_proto_fragment ? 8 : (view.u8(offset + 1) + 1U) * 8U;
        proto = view.u8(offset);
        offset += bytes;
    }
    // Headers that say they end behind the packet, or behind what the parser looks at: no L4 header is found.
    offset = std::min({offset, end, view.length});
    info.ip_proto = proto;
    info.l4_offset = static_cast<std::uint16_t>(offset);
    info.l4_bytes = end - offset;
    info.complete = end <= frame_bytes;
    if (!info.fragment && !is_extension(proto)) parse_l4(view, info);
}

} // namespace

void parse_into(const Frame& frame, PacketInfo& info) noexcept {
    info = PacketInfo{};
    const Segment& first = frame.segments.front();
    const View view{first.data, std::min(std::min(first.length_bytes, frame.length_bytes), header_bytes)};
    if (!view.has(0, ethernet_header_bytes)) return;
    std::uint32_t offset = 12;
    std::uint16_t type = view.u16(offset);
    while ((type == ether_type_vlan || type == ether_type_qinq) && view.has(offset, 6)) {
        if (info.vlan_tags == 0) info.vlan_tci = view.u16(offset + 2);
        ++info.vlan_tags;
        offset += vlan_tag_bytes;
        type = view.u16(offset);
    }
    info.ether_type = type;
    info.l3_offset = static_cast<std::uint16_t>(offset + 2);
    if (type == ether_type_ipv4) parse_ipv4(view, frame.length_bytes, info);
    if (type == ether_type_ipv6) parse_ipv6(view, frame.length_bytes, info);
}

std::uint64_t sum_segments(const Frame& frame, std::uint32_t offset, std::uint32_t length) noexcept {
    std::uint64_t sum = 0;
    std::uint32_t summed = 0;
    for (const Segment& segment : frame.segments) {
        if (offset >= segment.length_bytes) {
            offset -= segment.length_bytes;
            continue;
        }
        const std::uint32_t part = std::min(segment.length_bytes - offset, length - summed);
        const std::uint64_t part_sum = sum_bytes(segment.data + offset, part);
        sum += (summed & 1U) != 0 ? sum_at_odd(part_sum) : part_sum;
        summed += part;
        offset = 0;
        if (summed == length) break;
    }
    return sum;
}

std::uint64_t pseudo_header_sum(const std::byte* frame, const PacketInfo& info,
                                std::uint32_t l4_bytes) noexcept {
    const std::uint64_t length =
        sum_term(static_cast<std::uint16_t>(l4_bytes)) + sum_term(static_cast<std::uint16_t>(l4_bytes >> 16));
    const std::uint64_t rest = length + sum_term(info.ip_proto);
    if (info.ip_version == 4) return rest + sum_fixed<8>(frame + info.l3_offset + 12);
    return rest + sum_fixed<32>(frame + info.l3_offset + 8);
}

bool l3_checksum_ok(const Frame& frame, const PacketInfo& info) noexcept {
    if (info.ip_version == 6) return true;
    if (info.ip_version != 4) return false;
    const std::uint32_t header = static_cast<std::uint32_t>(info.l4_offset - info.l3_offset);
    const std::byte* const l3 = frame.segments.front().data + info.l3_offset;
    if (header == ipv4_header_bytes) [[likely]]
        return fold_sum(sum_fixed<ipv4_header_bytes>(l3)) == 0xffffU;
    return fold_sum(sum_bytes(l3, header)) == 0xffffU;
}

bool l4_checksum_ok(const Frame& frame, const PacketInfo& info) noexcept {
    if (info.l4_type == L4Type::none || !info.complete) return false;
    const std::byte* data = frame.segments.front().data;
    std::uint32_t l4_bytes = info.l4_bytes;
    if (info.l4_type == L4Type::udp) {
        be16 checksum, length;
        std::memcpy(&checksum, data + info.l4_offset + udp_checksum_offset, sizeof checksum);
        std::memcpy(&length, data + info.l4_offset + 4, sizeof length);
        if (checksum == be16{0}) return info.ip_version == 4;
        if (length < udp_header_bytes || length > l4_bytes) return false;
        l4_bytes = length;
    }
    const std::uint64_t sum =
        pseudo_header_sum(data, info, l4_bytes) + sum_frame(frame, info.l4_offset, l4_bytes);
    return fold_sum(sum) == 0xffffU;
}

} // namespace swhca
