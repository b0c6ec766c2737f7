// SPDX-License-Identifier: BSD-3-Clause
/// From what a CQE says of a packet to what its mbuf says.
#pragma once

#include "mlx5/receive_cqe.hpp"
#include "mprq/rx_queue.hpp"

#include <rte_mbuf.h>
#include <rte_mbuf_ptype.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace stride::mprq {

/// The four fields a receiver sets at once: data_off, refcnt, nb_segs, port.
struct Rearm {
    std::uint16_t data_off;
    std::uint16_t refcnt;
    std::uint16_t nb_segs;
    std::uint16_t port;
};
static_assert(sizeof(Rearm) == 8 && offsetof(Rearm, data_off) == 0);
static_assert(offsetof(rte_mbuf, refcnt) == offsetof(rte_mbuf, data_off) + offsetof(Rearm, refcnt));
static_assert(offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, data_off) + offsetof(Rearm, nb_segs));
static_assert(offsetof(rte_mbuf, port) == offsetof(rte_mbuf, data_off) + offsetof(Rearm, port));

inline void rearm_mbuf(rte_mbuf* m, Rearm value) noexcept {
    std::memcpy(reinterpret_cast<std::byte*>(m) + offsetof(rte_mbuf, data_off), &value, sizeof value);
}

inline std::uint64_t word_of(Rearm value) noexcept { return std::bit_cast<std::uint64_t>(value); }

/// Packet type by mlx5::packet_type_index.
using PacketTypes = std::array<std::uint32_t, 256>;

namespace detail {

enum : unsigned { l3_ipv6 = MLX5_CQE_L3_HDR_TYPE_IPV6, l3_ipv4 = MLX5_CQE_L3_HDR_TYPE_IPV4 };
/// L4 types of the CQE (PRM l4_hdr_type): TCP without data or acknowledgement, UDP, TCP with an empty
/// acknowledgement, TCP with an acknowledgement.
enum : unsigned { l4_tcp = 1, l4_udp = 2, l4_tcp_empty_ack = 3, l4_tcp_ack = 4 };

constexpr std::uint32_t l4_of(unsigned l4, bool fragment, bool inner) noexcept {
    if (fragment) return inner ? RTE_PTYPE_INNER_L4_FRAG : RTE_PTYPE_L4_FRAG;
    if (l4 == l4_udp) return inner ? RTE_PTYPE_INNER_L4_UDP : RTE_PTYPE_L4_UDP;
    if (l4 == l4_tcp || l4 == l4_tcp_empty_ack || l4 == l4_tcp_ack)
        return inner ? RTE_PTYPE_INNER_L4_TCP : RTE_PTYPE_L4_TCP;
    return inner ? RTE_PTYPE_INNER_L4_NONFRAG : RTE_PTYPE_L4_NONFRAG;
}

/// A tunnelled packet's parsed types are those of its inner headers.
constexpr std::uint32_t packet_type_of(unsigned index) noexcept {
    const unsigned l3 = index & 3U;
    const unsigned l4 = (index >> 2) & 7U;
    const bool fragment = (index & 0x20U) != 0;
    const bool tunnelled = (index & 0x40U) != 0;
    const bool outer_ipv6 = (index & 0x80U) != 0;
    std::uint32_t type = RTE_PTYPE_L2_ETHER;
    if (tunnelled) type |= outer_ipv6 ? RTE_PTYPE_L3_IPV6_EXT_UNKNOWN : RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
    if (l3 != l3_ipv4 && l3 != l3_ipv6) return type;
    if (tunnelled)
        type |= l3 == l3_ipv6 ? RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN : RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN;
    else
        type |= l3 == l3_ipv6 ? RTE_PTYPE_L3_IPV6_EXT_UNKNOWN : RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
    return type | l4_of(l4, fragment, tunnelled);
}

constexpr PacketTypes make_packet_types() noexcept {
    PacketTypes types{};
    for (unsigned index = 0; index < types.size(); ++index)
        types[index] = packet_type_of(index);
    return types;
}

} // namespace detail

inline constexpr PacketTypes packet_types = detail::make_packet_types();

/// L3_OK and L4_OK are bits 1 and 2; "good" for IP and L4 are flags 7 and 8. Not OK means unknown: the HCA
/// says so for fragments and protocols it does not know, too.
inline std::uint64_t checksum_flags(const mlx5_cqe64& cqe) noexcept {
    constexpr unsigned shift = 6;
    static_assert(MLX5_CQE_L3_OK << shift == RTE_MBUF_F_RX_IP_CKSUM_GOOD);
    static_assert(MLX5_CQE_L4_OK << shift == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    return static_cast<std::uint64_t>(mlx5::checksum_bits(cqe)) << shift;
}

/// What an application's mark is as a flow tag: 0 is no mark, and one value is a flag without a number (so
/// does net/mlx5, mlx5_flow_mark_set).
struct MarkTag {
    static constexpr std::uint32_t flag = 0xffffff;
    static constexpr std::uint32_t max_mark = flag - 2;
    static constexpr std::uint32_t of(std::uint32_t mark) noexcept { return mark + 1; }
};

/// Who sent a datagram, as a burst leaves it in an mbuf's tx_offload for whoever takes the GRH area off (and
/// zeroes the field again).
struct DatagramSource {
    std::uint32_t qpn{}; ///< 24 bits
    std::uint16_t lid{};
    std::uint16_t grh{}; ///< not 0: the GRH area holds a GRH

    static DatagramSource of(const mlx5_cqe64& cqe) noexcept {
        const std::uint32_t flags = mlx5::flags_rqpn(cqe);
        return {flags & 0xffffffU, mlx5::slid(cqe), static_cast<std::uint16_t>(flags >> 28 & 3U)};
    }
    std::uint64_t packed() const noexcept {
        return std::uint64_t{grh} << 48 | std::uint64_t{lid} << 32 | qpn;
    }
    static DatagramSource unpacked(std::uint64_t word) noexcept {
        return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
                static_cast<std::uint16_t>(word >> 48)};
    }
};

/// An mbuf's first cache line from data_off to hash, written in four stores: whatever was there is gone.
/// packet_type and pkt_len are one word, data_len, vlan_tci and hash.rss another.
inline void fill_mbuf(rte_mbuf* m, std::uint64_t rearm, std::uint64_t flags, std::uint64_t type_and_length,
                      std::uint64_t length_tag_hash) noexcept {
    static_assert(offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, data_off) + 8);
    static_assert(offsetof(rte_mbuf, packet_type) == offsetof(rte_mbuf, ol_flags) + 8);
    static_assert(offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4);
    static_assert(offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8);
    static_assert(offsetof(rte_mbuf, vlan_tci) == offsetof(rte_mbuf, data_len) + 2);
    static_assert(offsetof(rte_mbuf, hash) == offsetof(rte_mbuf, data_len) + 4);
    std::byte* const at = reinterpret_cast<std::byte*>(m) + offsetof(rte_mbuf, data_off);
    std::memcpy(at, &rearm, sizeof rearm);
    std::memcpy(at + 8, &flags, sizeof flags);
    std::memcpy(at + 16, &type_and_length, sizeof type_and_length);
    std::memcpy(at + 24, &length_tag_hash, sizeof length_tag_hash);
}

/// Fills all that a packet in one mbuf says of itself: what the offloads ask for, and zeroes what they don't.
/// `flags`: those of the buffer (external). `bytes`: of the packet, trailer not counted.
template <RxOffloads::Bits Offloads>
[[gnu::always_inline]] inline void describe(rte_mbuf* m, const mlx5_cqe64& cqe, std::uint64_t rearm,
                                            std::uint64_t flags, std::uint32_t bytes) noexcept {
    constexpr RxOffloads on = RxOffloads::from_bits(Offloads);
    std::uint64_t type_and_length = std::uint64_t{bytes} << 32;
    std::uint64_t length_tag_hash = bytes;
    if constexpr (on.has(RxOffload::packet_type))
        type_and_length |= packet_types[mlx5::packet_type_index(cqe)];
    if constexpr (on.has(RxOffload::checksum)) flags |= checksum_flags(cqe);
    if constexpr (on.has(RxOffload::rss_hash)) {
        length_tag_hash |= std::uint64_t{mlx5::rx_hash_result(cqe)} << 32;
        if (mlx5::rx_hash_type(cqe) != 0) flags |= RTE_MBUF_F_RX_RSS_HASH;
    }
    if constexpr (on.has(RxOffload::vlan_strip)) {
        length_tag_hash |= std::uint64_t{mlx5::vlan_tci(cqe)} << 16;
        if (mlx5::vlan_stripped(cqe)) flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
    }
    if constexpr (on.has(RxOffload::datagram)) m->tx_offload = DatagramSource::of(cqe).packed();
    if constexpr (on.has(RxOffload::mark)) {
        const std::uint32_t tag = mlx5::flow_tag(cqe);
        m->hash.fdir.hi = tag - 1;
        if (tag != 0) flags |= RTE_MBUF_F_RX_FDIR;
        if (tag != 0 && tag != MarkTag::flag) flags |= RTE_MBUF_F_RX_FDIR_ID;
    }
    fill_mbuf(m, rearm, flags, type_and_length, length_tag_hash);
}

/// The same for a packet whose mbufs have been chained: lengths and segments stay.
template <RxOffloads::Bits Offloads>
inline void describe_chain(rte_mbuf* m, const mlx5_cqe64& cqe, std::uint64_t flags) noexcept {
    const std::uint16_t first_bytes = m->data_len;
    std::uint64_t rearm;
    std::memcpy(&rearm, reinterpret_cast<const std::byte*>(m) + offsetof(rte_mbuf, data_off), sizeof rearm);
    describe<Offloads>(m, cqe, rearm, flags, m->pkt_len);
    m->data_len = first_bytes;
}

/// The time of arrival, in ticks of the device's clock, where the application looks for it.
template <RxOffloads::Bits Offloads>
[[gnu::always_inline]] inline void stamp(const RxQueueConfig& config, rte_mbuf* m,
                                         const mlx5_cqe64& cqe) noexcept {
    if constexpr (RxOffloads::from_bits(Offloads).has(RxOffload::timestamp)) {
        const std::uint64_t ticks = mlx5::timestamp(cqe);
        std::memcpy(reinterpret_cast<std::byte*>(m) + config.timestamp_offset, &ticks, sizeof ticks);
        m->ol_flags |= config.timestamp_flag;
    }
}

/// Bytes at the end of what the HCA wrote that are not part of the packet.
template <RxOffloads::Bits Offloads>
inline constexpr std::uint32_t trailer_bytes = RxOffloads::from_bits(Offloads).has(RxOffload::keep_crc) ? 4
                                                                                                        : 0;

} // namespace stride::mprq
