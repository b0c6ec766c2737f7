// SPDX-License-Identifier: BSD-3-Clause
/// The fields of an Ethernet frame that choose its way: protocol, priority, flow.
#pragma once

#include "base/be.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

using Mac = std::array<std::uint8_t, 6>;

inline constexpr std::uint32_t mac_bytes = 6;
inline constexpr std::uint32_t ethernet_header_bytes = 14;
inline constexpr std::uint32_t vlan_tag_bytes = 4;
/// Smallest frame without FCS (the kernel's ETH_ZLEN): 64 bytes on the wire.
inline constexpr std::uint32_t smallest_frame_bytes = 60;

namespace ether_type {
inline constexpr std::uint16_t ipv4 = 0x0800;
inline constexpr std::uint16_t arp = 0x0806;
inline constexpr std::uint16_t vlan = 0x8100;
inline constexpr std::uint16_t qinq = 0x88a8;
inline constexpr std::uint16_t ipv6 = 0x86dd;
} // namespace ether_type

namespace ip_protocol {
inline constexpr std::uint8_t tcp = 6;
inline constexpr std::uint8_t udp = 17;
inline constexpr std::uint8_t icmpv6 = 58;
inline constexpr std::uint8_t sctp = 132;
} // namespace ip_protocol

/// An unaligned load of T (a Be, or bytes) at `at`.
template <class T>
inline T load_at(const std::byte* at) noexcept {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
template <class T>
inline void store_at(std::byte* at, const T& value) noexcept {
    std::memcpy(at, &value, sizeof value);
}

inline bool is_group(const std::byte* mac) noexcept { return (mac[0] & std::byte{1}) != std::byte{0}; }
inline bool is_locally_administered(const std::byte* mac) noexcept {
    return (mac[0] & std::byte{2}) != std::byte{0};
}

struct FrameFields {
    std::uint16_t ether_type{}; ///< behind one VLAN tag
    std::uint16_t tci{};        ///< of that tag
    bool tagged{};              ///< the frame itself has one
    std::uint8_t ip_protocol{}; ///< IPv4 protocol or first IPv6 next header; 0 for anything else
    std::uint32_t flow_hash{};  ///< the same for all packets of a flow, and for all fragments of a datagram
};

/// Bytes of a frame that parse_frame looks at, at most: tag, IPv4 header with all options, ports.
inline constexpr std::uint32_t frame_fields_bytes = ethernet_header_bytes + vlan_tag_bytes + 60 + 4;

namespace detail {

constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t word) noexcept {
    const std::uint64_t product = (seed ^ word) * 0x9e3779b97f4a7c15ULL;
    return product ^ product >> 32;
}

inline std::uint64_t hash_ipv4(const std::byte* ip, std::uint32_t bytes, FrameFields& fields) noexcept {
    fields.ip_protocol = std::to_integer<std::uint8_t>(ip[9]);
    std::uint64_t hash = mix(fields.ip_protocol, load_at<std::uint64_t>(ip + 12));
    const std::uint32_t header_bytes = (std::to_integer<std::uint32_t>(ip[0]) & 0xf) * 4;
    // Only the first fragment has ports; to keep a datagram in one flow none is looked at in any.
    const bool fragment = (load_at<be16>(ip + 6).host() & 0x3fff) != 0;
    const bool ports = fields.ip_protocol == ip_protocol::tcp || fields.ip_protocol == ip_protocol::udp ||
                       fields.ip_protocol == ip_protocol::sctp;
    if (ports && !fragment && header_bytes >= 20 && header_bytes + 4 <= bytes)
        hash = mix(hash, load_at<std::uint32_t>(ip + header_bytes));
    return hash;
}

inline std::uint64_t hash_ipv6(const std::byte* ip, std::uint32_t bytes, FrameFields& fields) noexcept {
    fields.ip_protocol = std::to_integer<std::uint8_t>(ip[6]);
    std::uint64_t hash = fields.ip_protocol;
    for (std::uint32_t at = 8; at < 40; at += 8)
        hash = mix(hash, load_at<std::uint64_t>(ip + at));
    const bool ports = fields.ip_protocol == ip_protocol::tcp || fields.ip_protocol == ip_protocol::udp ||
                       fields.ip_protocol == ip_protocol::sctp;
    if (ports && bytes >= 44) hash = mix(hash, load_at<std::uint32_t>(ip + 40));
    return hash;
}

} // namespace detail

/// `frame`: the first min(frame length, frame_fields_bytes) bytes, at least 14; truncated headers are not IP.
inline FrameFields parse_frame(const std::byte* frame, std::uint32_t bytes) noexcept {
    FrameFields fields;
    std::uint32_t at = ethernet_header_bytes;
    fields.ether_type = load_at<be16>(frame + 12).host();
    const bool tag = fields.ether_type == ether_type::vlan || fields.ether_type == ether_type::qinq;
    if (tag && bytes >= at + vlan_tag_bytes) {
        fields.tagged = true;
        fields.tci = load_at<be16>(frame + at).host();
        fields.ether_type = load_at<be16>(frame + at + 2).host();
        at += vlan_tag_bytes;
    }
    const std::uint32_t left = bytes - at;
    std::uint64_t hash;
    if (fields.ether_type == ether_type::ipv4 && left >= 20) {
        hash = detail::hash_ipv4(frame + at, left, fields);
    } else if (fields.ether_type == ether_type::ipv6 && left >= 40) {
        hash = detail::hash_ipv6(frame + at, left, fields);
    } else {
        hash = detail::mix(load_at<std::uint64_t>(frame), load_at<std::uint32_t>(frame + 8));
    }
    // Products carry upwards only: what the last word's high bits did is brought down and spread once more.
    fields.flow_hash = static_cast<std::uint32_t>(detail::mix(0, std::rotl(hash, 32)) >> 32);
    return fields;
}

} // namespace stride::mbufqp
