// SPDX-License-Identifier: BSD-3-Clause
/// Packets that the HCA cuts: headers inlined whole, the payload pointed to, at every place of the ring.
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stride::test {
namespace {

using mbufqp::TxRefusal;

class TxTso : public TxFixture {
  protected:
    static constexpr std::uint32_t header_bytes = 54;

    rte_mbuf* tso(std::uint32_t bytes, std::uint32_t segments = 1) {
        rte_mbuf* mbuf = packet(bytes, 1, std::max(segments, bytes / 1900 + 1)); // as mbufs are large
        mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_SEG;
        mbuf->l2_len = 14;
        mbuf->l3_len = 20;
        mbuf->l4_len = 20;
        mbuf->tso_segsz = 1000;
        return mbuf;
    }
    void advance_to(unsigned offset) {
        while ((queue_->hot().pi & 63U) != offset) {
            ASSERT_EQ(put({packet(1000)}), 1U);
            finish();
        }
        hca_->frames().clear();
    }
    void expect_refused(rte_mbuf* mbuf, TxRefusal reason) {
        const auto count = [&] { return queue_->stats().refused[static_cast<std::size_t>(reason)]; };
        const std::uint64_t before = count();
        EXPECT_EQ(put({mbuf}), 0U);
        EXPECT_EQ(count(), before + 1);
        TxRefusal said{};
        EXPECT_EQ(queue_->prepare(&mbuf, 1, said), 0U);
        EXPECT_EQ(said, reason);
        rte_pktmbuf_free(mbuf);
    }
};

TEST_F(TxTso, HeaderIsInlinedAndPayloadFollowsAtEveryRingOffset) {
    open({.features = {TxFeature::tso, TxFeature::vlan_insert, TxFeature::multi_packet}});
    for (unsigned offset = 0; offset < 64; ++offset) {
        for (const std::uint32_t segments : {1U, 2U, 7U, 30U, 55U}) {
            for (const bool tag : {false, true}) {
                ASSERT_NO_FATAL_FAILURE(advance_to(offset));
                rte_mbuf* mbuf = tso(4000, segments);
                Bytes expected = content(4000);
                if (tag) {
                    mbuf->ol_flags |= RTE_MBUF_F_TX_VLAN;
                    mbuf->vlan_tci = 0x6123;
                    const Bytes bytes{0x81, 0x00, 0x61, 0x23};
                    expected.insert(expected.begin() + 12, bytes.begin(), bytes.end());
                }
                ASSERT_EQ(put({mbuf}), 1U);
                hca_->execute();
                ASSERT_EQ(hca_->broken(), "") << offset << ", " << segments;
                ASSERT_EQ(hca_->frames().size(), 1U);
                const SentFrame& sent = hca_->frames()[0];
                ASSERT_EQ(sent.bytes, expected) << offset << ", " << segments;
                EXPECT_EQ(sent.opcode, unsigned{MLX5_OPCODE_TSO});
                EXPECT_EQ(sent.mss, 1000U);
                EXPECT_EQ(sent.header_bytes, header_bytes + (tag ? 4 : 0));
                EXPECT_EQ(sent.cs_flags, unsigned{MLX5_ETH_WQE_L3_CSUM} | unsigned{MLX5_ETH_WQE_L4_CSUM});
                finish();
            }
        }
    }
}

TEST_F(TxTso, HeadersOfEveryLengthUpToTheLimit) {
    open({.features = TxFeature::tso});
    for (std::uint32_t l4 = 20; l4 <= 60; l4 += 4) {
        for (const std::uint32_t l3 : {40U, 48U, 56U}) {
            rte_mbuf* mbuf = tso(3000);
            mbuf->ol_flags = RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_SEG;
            mbuf->l3_len = l3 & 0x1ffU;
            mbuf->l4_len = l4 & 0xffU;
            if (14 + l3 + l4 > 128) {
                expect_refused(mbuf, TxRefusal::bad_tso);
                continue;
            }
            ASSERT_EQ(put({mbuf}), 1U);
            hca_->execute();
            ASSERT_EQ(hca_->frames().size(), 1U);
            EXPECT_EQ(hca_->frames()[0].bytes, content(3000));
            EXPECT_EQ(hca_->frames()[0].header_bytes, 14 + l3 + l4);
            EXPECT_EQ(hca_->frames()[0].cs_flags, unsigned{MLX5_ETH_WQE_L4_CSUM});
            finish();
            hca_->frames().clear();
        }
    }
}

TEST_F(TxTso, HeaderSpreadOverTinySegmentsIsGathered) {
    open({.features = TxFeature::tso});
    ASSERT_EQ(put({tso(100, 20)}), 1U); // 5 bytes each
    hca_->execute();
    EXPECT_EQ(hca_->frames().at(0).bytes, content(100));
    finish();
}

TEST_F(TxTso, ChainOfTheDsLimitIsSentAndOneMoreIsRefused) {
    open({.features = TxFeature::tso});
    // Control segment, Ethernet segment with 54 bytes (5 DS), 57 of payload; the first mbuf has the header.
    const auto chain = [&](std::uint32_t payload_segments) {
        rte_mbuf* head = tso(header_bytes);
        for (std::uint32_t i = 0; i < payload_segments; ++i) {
            rte_mbuf* more = packet(50);
            rte_pktmbuf_chain(head, more);
        }
        return head;
    };
    // write_segments takes no DS for the header's own mbuf.
    ASSERT_EQ(put({chain(57)}), 1U);
    finish();
    EXPECT_EQ(put({chain(56)}), 1U);
    finish();
    rte_mbuf* more = chain(58);
    EXPECT_EQ(put({more}), 0U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(TxRefusal::too_many_segments)], 1U);
    rte_pktmbuf_free(more);
}

TEST_F(TxTso, SenselessPacketsAreRefusedByPutAndPrepareAlike) {
    open({.features = TxFeature::tso, .max_frame_bytes = 1518, .max_tso_bytes = 8000});
    rte_mbuf* mbuf = tso(4000);
    mbuf->tso_segsz = 0;
    expect_refused(mbuf, TxRefusal::bad_tso);
    mbuf = tso(4000);
    mbuf->l4_len = 16;
    expect_refused(mbuf, TxRefusal::bad_tso);
    mbuf = tso(4000);
    mbuf->ol_flags &= ~RTE_MBUF_F_TX_IPV4;
    expect_refused(mbuf, TxRefusal::bad_tso);
    expect_refused(tso(header_bytes), TxRefusal::too_short);
    mbuf = tso(4000);
    mbuf->tso_segsz = 1518 - header_bytes + 1;
    expect_refused(mbuf, TxRefusal::too_long);
    expect_refused(tso(8000 + header_bytes + 1, 8), TxRefusal::too_long);
    mbuf = tso(4000, 2);
    mbuf->pkt_len = 3000;
    EXPECT_EQ(put({mbuf}), 0U);
    mbuf->pkt_len = 5000;
    EXPECT_EQ(put({mbuf}), 0U);
    rte_pktmbuf_free(mbuf);
    mbuf = tso(8000 + header_bytes, 8);
    EXPECT_EQ(put({mbuf}), 1U);
    finish();
}

TEST_F(TxTso, PlainPacketsAroundItKeepTheirOrderAndShareWqes) {
    open({.features = {TxFeature::tso, TxFeature::multi_packet, TxFeature::inline_frames},
          .inline_max_bytes = 64});
    ASSERT_EQ(put({packet(64), packet(100), tso(3000, 3), packet(64), packet(64)}), 5U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 5U);
    EXPECT_EQ(hca_->wqes(), 3U);
    EXPECT_EQ(hca_->frames()[2].bytes, content(3000));
    finish();
}

} // namespace
} // namespace stride::test
