// SPDX-License-Identifier: BSD-3-Clause
/// TCP segmentation by the HCA: it cuts the payload behind the inlined headers into pieces of `tso_segsz`.
#pragma once

#include "base/be.hpp"
#include "mbufqp/encap/frame.hpp"
#include "mbufqp/tx_stats.hpp"
#include "mlx5/wqe.hpp"

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

/// Ethernet with two tags, IPv6 with extensions, TCP with all its options, generously.
inline constexpr std::uint32_t max_tso_header_bytes = 128;

/// Of the packet itself, an inserted tag not counted.
inline std::uint32_t tso_header_bytes(const rte_mbuf& mbuf) noexcept {
    return static_cast<std::uint32_t>(mbuf.l2_len) + static_cast<std::uint32_t>(mbuf.l3_len) +
           static_cast<std::uint32_t>(mbuf.l4_len);
}

struct TsoLimits {
    std::uint32_t max_frame_bytes{};   ///< of each segment, an inserted tag not counted
    std::uint32_t max_payload_bytes{}; ///< of the packet
};

/// What is wrong with a packet that asks for segmentation; `count`: nothing.
inline TxRefusal check_tso(const rte_mbuf& mbuf, const TsoLimits& limits) noexcept {
    constexpr std::uint32_t min_l2_bytes = 14, min_ipv4_bytes = 20, min_ipv6_bytes = 40, min_tcp_bytes = 20;
    const bool ipv6 = (mbuf.ol_flags & RTE_MBUF_F_TX_IPV6) != 0;
    const bool ipv4 = (mbuf.ol_flags & RTE_MBUF_F_TX_IPV4) != 0;
    const std::uint32_t header_bytes = tso_header_bytes(mbuf);
    if (ipv4 == ipv6 || mbuf.l2_len < min_l2_bytes || mbuf.l4_len < min_tcp_bytes ||
        mbuf.l3_len < (ipv6 ? min_ipv6_bytes : min_ipv4_bytes) || header_bytes > max_tso_header_bytes ||
        mbuf.tso_segsz == 0)
        return TxRefusal::bad_tso;
    if (mbuf.pkt_len <= header_bytes) return TxRefusal::too_short;
    const std::uint32_t payload_bytes = mbuf.pkt_len - header_bytes;
    const std::uint32_t longest = payload_bytes < mbuf.tso_segsz ? payload_bytes : mbuf.tso_segsz;
    if (payload_bytes > limits.max_payload_bytes || header_bytes + longest > limits.max_frame_bytes)
        return TxRefusal::too_long;
    return TxRefusal::count;
}

/// DS before the payload's.
inline std::uint32_t tso_head_ds(std::uint32_t inlined_bytes) noexcept {
    return 1 + mlx5::eth_segment_ds(inlined_bytes);
}

/// Copies the first `bytes` of a chain, which has them, with a tag of `tci` behind the addresses if `tag`;
/// returns the bytes written.
inline std::uint32_t copy_tso_header(const rte_mbuf& mbuf, std::uint32_t bytes, bool tag,
                                     std::byte* out) noexcept {
    constexpr std::uint32_t addresses_bytes = 12;
    std::byte* const to = tag ? out + vlan_tag_bytes : out;
    const void* const from = rte_pktmbuf_read(&mbuf, 0, bytes, to);
    if (from != to) std::memcpy(to, from, bytes);
    if (!tag) return bytes;
    std::memmove(out, to, addresses_bytes);
    const be32 inserted{std::uint32_t{0x8100} << 16 | mbuf.vlan_tci};
    std::memcpy(out + addresses_bytes, &inserted, sizeof inserted);
    return bytes + vlan_tag_bytes;
}

} // namespace stride::mbufqp
