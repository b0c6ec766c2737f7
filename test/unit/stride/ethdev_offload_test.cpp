// SPDX-License-Identifier: BSD-3-Clause
// Every offload that dev_info offers is asked for and seen to work.
#include "ethdev_fixture.hpp"

#include <rte_ip.h>
#include <rte_mbuf_dyn.h>
#include <rte_udp.h>

#include <cstring>
#include <set>

namespace stride::test {
namespace {

class EthdevOffload : public EthdevTest {
  protected:
    /// Sends one frame from b and returns what arrives at a; nullptr if not exactly one does.
    rte_mbuf* pass(rte_mbuf* mbuf) {
        send(b_, {mbuf});
        std::vector<rte_mbuf*> got = receive(a_, 1);
        return got.size() == 1 ? got[0] : nullptr;
    }
};

/// CRC-32 of IEEE 802.3, bit by bit.
std::uint32_t fcs_of(const std::uint8_t* data, std::uint32_t bytes) {
    std::uint32_t crc = ~0U;
    for (std::uint32_t at = 0; at < bytes; ++at) {
        crc ^= data[at];
        for (unsigned bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
    }
    return ~crc;
}

constexpr std::uint32_t l3 = sizeof(rte_ether_hdr), l4 = l3 + sizeof(rte_ipv4_hdr);

TEST_F(EthdevOffload, ReceiveChecksumsTellGoodFromBad) {
    bring_up(a_, {.rx_offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    bring_up(b_);
    rte_mbuf* good = frame({.bytes = 300});
    auto* const udp = rte_pktmbuf_mtod_offset(good, rte_udp_hdr*, l4);
    udp->dgram_cksum = 0;
    udp->dgram_cksum = rte_ipv4_udptcp_cksum(rte_pktmbuf_mtod_offset(good, rte_ipv4_hdr*, l3), udp);
    rte_mbuf* bad = rte_pktmbuf_copy(good, pool_, 0, UINT32_MAX);
    rte_pktmbuf_mtod_offset(bad, rte_ipv4_hdr*, l3)->hdr_checksum ^= 0x1111;

    rte_mbuf* got = pass(good);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
    EXPECT_EQ(got->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    EXPECT_EQ(got->packet_type & RTE_PTYPE_L3_MASK, unsigned{RTE_PTYPE_L3_IPV4_EXT_UNKNOWN});
    EXPECT_EQ(got->packet_type & RTE_PTYPE_L4_MASK, unsigned{RTE_PTYPE_L4_UDP});
    rte_pktmbuf_free(got);
    got = pass(bad);
    ASSERT_NE(got, nullptr);
    EXPECT_NE(got->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
    rte_pktmbuf_free(got);
}

TEST_F(EthdevOffload, TimestampsAreOfTheDeviceClockAndNeverGoBack) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(a_, &info), 0);
    ASSERT_NE(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP, 0U);
    bring_up(a_, {.rx_offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP});
    bring_up(b_);
    int offset = 0;
    std::uint64_t flag = 0, clock = 0, last = 0;
    ASSERT_EQ(rte_mbuf_dyn_rx_timestamp_register(&offset, &flag), 0);
    for (std::uint32_t n = 0; n < 200; ++n) {
        ASSERT_EQ(rte_eth_read_clock(a_, &clock), 0);
        rte_mbuf* got = pass(frame({.number = n, .bytes = n % 2 == 0 ? 100U : 1000U}));
        ASSERT_NE(got, nullptr);
        EXPECT_NE(got->ol_flags & flag, 0U);
        const std::uint64_t stamp = *RTE_MBUF_DYNFIELD(got, offset, std::uint64_t*);
        EXPECT_LE(clock, stamp);
        EXPECT_LT(last, stamp);
        last = stamp;
        rte_pktmbuf_free(got);
    }
    // What the clock shows is behind at times; it gets there.
    for (unsigned reads = 0; clock < last && reads < 1000000; ++reads)
        ASSERT_EQ(rte_eth_read_clock(a_, &clock), 0);
    EXPECT_GE(clock, last);
}

TEST_F(EthdevOffload, PacketTypesNobodyWantsAreLeftOut) {
    bring_up(b_);
    for (const std::uint32_t mask : {0U, unsigned{RTE_PTYPE_ALL_MASK}}) {
        ASSERT_EQ(configure(a_, {}), 0);
        ASSERT_EQ(rte_eth_dev_set_ptypes(a_, mask, nullptr, 0), 0);
        ASSERT_EQ(rte_eth_dev_start(a_), 0);
        rte_mbuf* got = pass(frame({.bytes = 300}));
        ASSERT_NE(got, nullptr);
        EXPECT_EQ(got->packet_type != 0, mask != 0);
        rte_pktmbuf_free(got);
        ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    }
}

TEST_F(EthdevOffload, RssHashDiffersByFlowAndIsTheSameForOne) {
    bring_up(a_, {.rx_queues = 1,
                  .rx_offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH,
                  .hash_types = RTE_ETH_RSS_NONFRAG_IPV4_UDP});
    bring_up(b_);
    std::set<std::uint32_t> hashes;
    for (std::uint16_t n = 0; n < 16; ++n) {
        rte_mbuf* got = pass(frame({.bytes = 200, .udp_source = static_cast<std::uint16_t>(100 + n / 2)}));
        ASSERT_NE(got, nullptr);
        EXPECT_NE(got->ol_flags & RTE_MBUF_F_RX_RSS_HASH, 0U);
        hashes.insert(got->hash.rss);
        rte_pktmbuf_free(got);
    }
    EXPECT_EQ(hashes.size(), 8U);
}

TEST_F(EthdevOffload, TagInsertedBySendingIsStrippedByReceiving) {
    bring_up(a_, {.rx_offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    bring_up(b_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    for (const std::uint32_t bytes : {80U, 400U}) { // copied and attached
        rte_mbuf* tagged = frame({.number = 9, .bytes = bytes});
        tagged->ol_flags |= RTE_MBUF_F_TX_VLAN;
        tagged->vlan_tci = 0x6123;
        rte_mbuf* got = pass(tagged);
        ASSERT_NE(got, nullptr);
        EXPECT_TRUE(is_intact(got, {.number = 9, .bytes = bytes}));
        constexpr std::uint64_t flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
        EXPECT_EQ(got->ol_flags & flags, flags);
        EXPECT_EQ(got->vlan_tci, 0x6123);
        rte_pktmbuf_free(got);
    }
}

TEST_F(EthdevOffload, TagStaysInTheFrameWithoutStripping) {
    bring_up(a_);
    bring_up(b_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    rte_mbuf* tagged = frame({.number = 9, .bytes = 400});
    tagged->ol_flags |= RTE_MBUF_F_TX_VLAN;
    tagged->vlan_tci = 0x0123;
    rte_mbuf* got = pass(tagged);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->pkt_len, 404U);
    EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod_offset(got, char*, 12), "\x81\x00\x01\x23", 4), 0);
    rte_pktmbuf_free(got);
}

TEST_F(EthdevOffload, FcsStaysBehindTheFrameIfKept) {
    bring_up(a_, {.rx_offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC});
    bring_up(b_);
    for (std::uint32_t bytes = 250; bytes < 260; ++bytes) {
        rte_mbuf* got = pass(frame({.number = bytes, .bytes = bytes}));
        ASSERT_NE(got, nullptr);
        EXPECT_TRUE(is_intact(got, {.number = bytes, .bytes = bytes})) << bytes;
        std::uint32_t fcs = 0;
        std::memcpy(&fcs, rte_pktmbuf_mtod_offset(got, char*, bytes), sizeof fcs);
        EXPECT_EQ(fcs, fcs_of(rte_pktmbuf_mtod(got, std::uint8_t*), bytes)) << bytes;
        rte_pktmbuf_free(got);
    }
}

TEST_F(EthdevOffload, SendChecksumsAreThoseOfSoftware) {
    bring_up(a_);
    bring_up(b_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    rte_mbuf* mbuf = frame({.bytes = 333});
    auto* const ip = rte_pktmbuf_mtod_offset(mbuf, rte_ipv4_hdr*, l3);
    auto* const udp = rte_pktmbuf_mtod_offset(mbuf, rte_udp_hdr*, l4);
    const std::uint16_t ip_sum = ip->hdr_checksum;
    udp->dgram_cksum = 0;
    const std::uint16_t udp_sum = rte_ipv4_udptcp_cksum(ip, udp);
    mbuf->l2_len = sizeof(rte_ether_hdr);
    mbuf->l3_len = sizeof(rte_ipv4_hdr);
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    ip->hdr_checksum = 0;
    udp->dgram_cksum = rte_ipv4_phdr_cksum(ip, mbuf->ol_flags);
    rte_mbuf* got = pass(mbuf);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(rte_pktmbuf_mtod_offset(got, rte_ipv4_hdr*, l3)->hdr_checksum, ip_sum);
    EXPECT_EQ(rte_pktmbuf_mtod_offset(got, rte_udp_hdr*, l4)->dgram_cksum, udp_sum);
    rte_pktmbuf_free(got);
}

TEST_F(EthdevOffload, ChainsOfSegmentsArriveInOnePiece) {
    bring_up(a_);
    bring_up(b_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
    const FrameSpec spec{.number = 3, .bytes = 1200};
    rte_mbuf* whole = frame(spec);
    rte_mbuf* head = rte_pktmbuf_copy(whole, pool_, 0, 100);
    for (std::uint32_t at = 100; at < spec.bytes; at += 100)
        ASSERT_EQ(rte_pktmbuf_chain(head, rte_pktmbuf_copy(whole, pool_, at, 100)), 0);
    rte_pktmbuf_free(whole);
    rte_mbuf* got = pass(head);
    ASSERT_NE(got, nullptr);
    EXPECT_TRUE(is_intact(got, spec));
    rte_pktmbuf_free(got);
}

TEST_F(EthdevOffload, FrameLongerThanAnMbufIsScatteredWhenItMustBeCopied) {
    unplug(a_);
    a_ = plug("net_stride_a", "ibdev=mlx5_0,copy_threshold_bytes=65535");
    ASSERT_NE(a_, no_port);
    bring_up(a_, {.rx_descriptors = 128, .mtu = 9000, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER});
    bring_up(b_, {.rx_descriptors = 128,
                  .mtu = 9000,
                  .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER,
                  .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
    const FrameSpec part{.number = 4, .bytes = 2000};
    rte_mbuf* head = frame(part);
    for (unsigned n = 0; n < 3; ++n)
        ASSERT_EQ(rte_pktmbuf_chain(head, frame(part)), 0);
    rte_mbuf* got = pass(head);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->pkt_len, 8000U);
    EXPECT_GT(got->nb_segs, 1);
    rte_pktmbuf_free(got);
}

} // namespace
} // namespace stride::test
