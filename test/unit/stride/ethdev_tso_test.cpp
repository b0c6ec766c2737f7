// SPDX-License-Identifier: BSD-3-Clause
// TCP segmentation through two ports: what arrives is what software would have cut.
#include "ethdev_fixture.hpp"

#include <rte_ip.h>
#include <rte_tcp.h>

#include <cstring>

namespace stride::test {
namespace {

struct Headers {
    bool ipv6{};
    bool tag_in_frame{}, tag_inserted{};
    std::uint32_t ip_options_bytes{}, tcp_options_bytes{};

    std::uint32_t l2() const { return tag_in_frame ? 18 : 14; }
    std::uint32_t l3() const { return (ipv6 ? 40 : 20) + ip_options_bytes; }
    std::uint32_t l4() const { return 20 + tcp_options_bytes; }
    std::uint32_t all() const { return l2() + l3() + l4(); }
};

constexpr std::uint32_t first_sequence = 0xfffffe00; // goes over 0
constexpr std::uint16_t tci = 0x2064;

std::uint8_t payload_at(std::uint32_t at) { return static_cast<std::uint8_t>(at * 13 + (at >> 8)); }

class EthdevTso : public EthdevTest {
  protected:
    /// Headers and `payload_bytes` bytes, `bytes_per_mbuf` in each mbuf.
    rte_mbuf* packet(const Headers& headers, std::uint32_t payload_bytes, std::uint32_t bytes_per_mbuf) {
        std::vector<std::uint8_t> bytes(headers.all() + payload_bytes);
        write_headers(headers, bytes.data());
        for (std::uint32_t at = 0; at < payload_bytes; ++at)
            bytes[headers.all() + at] = payload_at(at);
        rte_mbuf* head = nullptr;
        for (std::size_t at = 0; at < bytes.size(); at += bytes_per_mbuf) {
            rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
            const auto some =
                static_cast<std::uint16_t>(std::min<std::size_t>(bytes_per_mbuf, bytes.size() - at));
            std::memcpy(rte_pktmbuf_append(mbuf, some), &bytes[at], some);
            if (head == nullptr)
                head = mbuf;
            else
                EXPECT_EQ(rte_pktmbuf_chain(head, mbuf), 0);
        }
        head->ol_flags = RTE_MBUF_F_TX_TCP_SEG;
        head->ol_flags |= headers.ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        if (headers.tag_inserted) {
            head->ol_flags |= RTE_MBUF_F_TX_VLAN;
            head->vlan_tci = tci;
        }
        head->l2_len = headers.l2() & 0x7fU;
        head->l3_len = headers.l3() & 0x1ffU;
        head->l4_len = headers.l4() & 0xffU;
        return head;
    }

    static void write_headers(const Headers& headers, std::uint8_t* to) {
        std::memset(to, 0xff, 6); // a broadcast
        to[6] = 2;
        if (headers.tag_in_frame) std::memcpy(to + 12, "\x81\x00\x20\x64", 4);
        std::memcpy(to + headers.l2() - 2, headers.ipv6 ? "\x86\xdd" : "\x08\x00", 2);
        std::uint8_t* const ip = to + headers.l2();
        if (headers.ipv6) {
            ip[0] = 0x60;
            ip[6] = 6;
            ip[7] = 64;
            ip[8] = ip[24] = 0xfd;
            ip[39] = 1;
        } else {
            ip[0] = static_cast<std::uint8_t>(0x40 | headers.l3() / 4);
            ip[5] = 7; // identification
            ip[8] = 64;
            ip[9] = 6;
            ip[12] = ip[16] = 10;
            std::memset(ip + 20, 1, headers.ip_options_bytes); // no operation
        }
        std::uint8_t* const tcp = ip + headers.l3();
        tcp[1] = 80;
        tcp[3] = 81;
        const rte_be32_t sequence = rte_cpu_to_be_32(first_sequence);
        std::memcpy(tcp + 4, &sequence, 4);
        tcp[12] = static_cast<std::uint8_t>(headers.l4() / 4 << 4);
        tcp[13] = RTE_TCP_ACK_FLAG | RTE_TCP_PSH_FLAG;
        std::memset(tcp + 20, 1, headers.tcp_options_bytes);
    }

    /// `index`-th of the frames that a packet became.
    static void expect_segment(rte_mbuf* mbuf, const Headers& headers, std::uint32_t index, std::uint32_t mss,
                               std::uint32_t payload_bytes) {
        const std::uint32_t from = index * mss;
        const std::uint32_t bytes = std::min(mss, payload_bytes - from);
        const std::uint32_t l2 = headers.l2() + (headers.tag_inserted ? 4 : 0);
        ASSERT_EQ(mbuf->pkt_len, l2 + headers.l3() + headers.l4() + bytes);
        std::vector<std::uint8_t> copy(mbuf->pkt_len);
        const void* const whole = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, copy.data());
        if (whole != copy.data()) std::memcpy(copy.data(), whole, copy.size());
        if (l2 == 18) {
            EXPECT_EQ(std::memcmp(&copy[12], "\x81\x00\x20\x64", 4), 0);
        }
        std::uint8_t* const l4 = &copy[l2 + headers.l3()];
        if (headers.ipv6) {
            const auto* ip = reinterpret_cast<const rte_ipv6_hdr*>(&copy[l2]);
            EXPECT_EQ(rte_be_to_cpu_16(ip->payload_len), headers.l4() + bytes);
            EXPECT_EQ(rte_ipv6_udptcp_cksum(ip, l4), 0);
        } else {
            const auto* ip = reinterpret_cast<const rte_ipv4_hdr*>(&copy[l2]);
            EXPECT_EQ(rte_be_to_cpu_16(ip->total_length), headers.l3() + headers.l4() + bytes);
            EXPECT_EQ(rte_be_to_cpu_16(ip->packet_id), 7 + index);
            EXPECT_EQ(rte_raw_cksum(ip, headers.l3()), 0xffff);
            EXPECT_EQ(rte_ipv4_udptcp_cksum(ip, l4), 0);
        }
        const auto* tcp = reinterpret_cast<const rte_tcp_hdr*>(l4);
        EXPECT_EQ(rte_be_to_cpu_32(tcp->sent_seq), first_sequence + from);
        EXPECT_EQ((tcp->tcp_flags & RTE_TCP_PSH_FLAG) != 0, from + bytes == payload_bytes);
        for (std::uint32_t at = 0; at < bytes; ++at)
            ASSERT_EQ(l4[headers.l4() + at], payload_at(from + at)) << at;
    }

    void expect_cut(const Headers& headers, std::uint32_t payload_bytes, std::uint32_t mss,
                    std::uint32_t bytes_per_mbuf) {
        rte_mbuf* mbuf = packet(headers, payload_bytes, bytes_per_mbuf);
        mbuf->tso_segsz = mss & 0xffffU;
        ASSERT_EQ(rte_eth_tx_prepare(b_, 0, &mbuf, 1), 1);
        send(b_, {mbuf});
        const std::uint32_t count = (payload_bytes + mss - 1) / mss;
        std::vector<rte_mbuf*> got = receive(a_, count);
        ASSERT_EQ(got.size(), count);
        for (std::uint32_t i = 0; i < count; ++i)
            ASSERT_NO_FATAL_FAILURE(expect_segment(got[i], headers, i, mss, payload_bytes));
        rte_pktmbuf_free_bulk(got.data(), count);
    }
    void bring_up_both() {
        rte_eth_dev_info info{};
        ASSERT_EQ(rte_eth_dev_info_get(b_, &info), 0);
        ASSERT_NE(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_TSO, 0U);
        bring_up(a_);
        bring_up(b_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM |
                                     RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_VLAN_INSERT |
                                     RTE_ETH_TX_OFFLOAD_MULTI_SEGS});
    }
};

TEST_F(EthdevTso, AllHeadersAreCutLikeSoftwareWould) {
    bring_up_both();
    for (const bool ipv6 : {false, true})
        for (const unsigned tag : {0U, 1U, 2U})
            for (const std::uint32_t ip_options : {0U, 8U})
                for (const std::uint32_t tcp_options : {0U, 12U, 40U}) {
                    if (ipv6 && ip_options != 0) continue;
                    const Headers headers{ipv6, tag == 1, tag == 2, ip_options, tcp_options};
                    SCOPED_TRACE(testing::Message() << "IPv6 " << ipv6 << ", tag " << tag << ", options "
                                                    << ip_options << ' ' << tcp_options);
                    for (const std::uint32_t payload : {1U, 999U, 1000U, 1001U, 8000U, 20000U})
                        ASSERT_NO_FATAL_FAILURE(expect_cut(headers, payload, 1000, 2000));
                    ASSERT_NO_FATAL_FAILURE(expect_cut(headers, 5000, 536, 333));
                }
}

TEST_F(EthdevTso, PacketThatTheDeviceCannotCutIsRefusedAndCounted) {
    bring_up_both();
    rte_mbuf* mbuf = packet({}, 4000, 2000);
    mbuf->tso_segsz = 0;
    EXPECT_EQ(rte_eth_tx_prepare(b_, 0, &mbuf, 1), 0);
    EXPECT_EQ(rte_eth_tx_burst(b_, 0, &mbuf, 1), 0);
    EXPECT_EQ(xstat(b_, "tx_refused_bad_tso"), 2U);
    rte_pktmbuf_free(mbuf);
}

} // namespace
} // namespace stride::test
