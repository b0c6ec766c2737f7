// SPDX-License-Identifier: BSD-3-Clause
/// What the HCA's parser sees in a frame: layers, offsets, types.
#pragma once

#include "swhca/engine/checksum.hpp"
#include "swhca/prm/cqe.hpp"
#include "swhca/wire/wire.hpp"

#include <cstddef>
#include <cstdint>

namespace swhca {

constexpr std::uint32_t ethernet_header_bytes = 14;
constexpr std::uint32_t vlan_tag_bytes = 4;
constexpr std::uint32_t ipv4_header_bytes = 20; ///< without options
constexpr std::uint32_t ipv6_header_bytes = 40;
constexpr std::uint32_t tcp_header_bytes = 20; ///< without options
constexpr std::uint32_t udp_header_bytes = 8;
constexpr std::uint32_t udp_checksum_offset = 6;
constexpr std::uint16_t ether_type_ipv4 = 0x0800;
constexpr std::uint16_t ether_type_ipv6 = 0x86dd;
constexpr std::uint16_t ether_type_vlan = 0x8100;
constexpr std::uint16_t ether_type_qinq = 0x88a8;
constexpr std::uint8_t ip_proto_tcp = 6;
constexpr std::uint8_t ip_proto_udp = 17;

/// Offsets are from the start of the frame; all lie within the parsed header bytes.
struct PacketInfo {
    std::uint16_t ether_type{}; ///< after the VLAN tags; 802.3 length if below 0x600
    std::uint16_t vlan_tci{};   ///< of the outer tag
    std::uint8_t vlan_tags{};
    std::uint8_t ip_version{};              ///< 4, 6, or 0: no IP header, or a malformed one
    std::uint8_t ip_proto{};                ///< of the layer after IPv6 extension headers
    prm::L4Type l4_type{prm::L4Type::none}; ///< none also for what is not the first fragment
    bool ip_options{};                      ///< IPv4 options or IPv6 extension headers
    bool fragment{};
    bool complete{}; ///< the frame holds all the IP header says
    std::uint16_t l3_offset{};
    std::uint16_t l4_offset{};
    std::uint32_t l4_bytes{}; ///< L4 header and payload, as the IP header says
    std::uint16_t src_port{}, dst_port{};
};

/// Parses the first segment of `frame`; `length` bytes of it at most are looked at.
void parse_into(const Frame& frame, PacketInfo& info) noexcept;
inline PacketInfo parse(const Frame& frame) noexcept {
    PacketInfo info;
    parse_into(frame, info);
    return info;
}

/// Header checksum of IPv4 is right; true for IPv6, false if there is no IP header.
bool l3_checksum_ok(const Frame& frame, const PacketInfo& info) noexcept;

/// TCP or UDP checksum is right, over all segments; false if there is none to check (fragments, other
/// protocols, cut packets). UDP over IPv4 without checksum counts as right.
bool l4_checksum_ok(const Frame& frame, const PacketInfo& info) noexcept;

/// Sum of the pseudo header for `info`, whose L4 part is `l4_bytes` long.
std::uint64_t pseudo_header_sum(const std::byte* frame, const PacketInfo& info,
                                std::uint32_t l4_bytes) noexcept;

/// sum_frame for what is in several segments.
std::uint64_t sum_segments(const Frame& frame, std::uint32_t offset, std::uint32_t length) noexcept;

/// Sum over `length` bytes from `offset` (from the start of the frame), across segments.
inline std::uint64_t sum_frame(const Frame& frame, std::uint32_t offset, std::uint32_t length) noexcept {
    const Segment& first = frame.segments.front();
    if (offset + length <= first.length_bytes) [[likely]]
        return sum_bytes(first.data + offset, length);
    return sum_segments(frame, offset, length);
}

} // namespace swhca
