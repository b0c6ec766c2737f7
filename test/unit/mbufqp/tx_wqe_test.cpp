// SPDX-License-Identifier: BSD-3-Clause
/// The bytes of WQEs: what the HCA reads is what the application sent.
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace stride::test {
namespace {

constexpr unsigned send_opcode = MLX5_OPCODE_SEND;
constexpr unsigned session_opcode = 0x29;

class TxWqe : public TxFixture {
  protected:
    /// Sends packets of one WQEBB until the next WQE starts at `offset`.
    void advance_to(unsigned offset, unsigned mask) {
        while ((queue_->hot().pi & mask) != offset) {
            ASSERT_EQ(put({packet(1000)}), 1U); // too long to be inlined
            finish();
        }
        hca_->frames().clear();
    }
    void send_and_compare(std::uint32_t bytes, std::uint32_t segments, const Bytes& expected) {
        ASSERT_EQ(put({packet(bytes, 1, segments)}), 1U) << segments << " segments";
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "");
        ASSERT_EQ(hca_->frames().size(), 1U);
        ASSERT_EQ(hca_->frames()[0].bytes, expected) << bytes << " bytes in " << segments;
        finish();
        hca_->frames().clear();
    }
};

struct Mode {
    const char* name;
    TxFeatures features;
    std::uint32_t min_inline_bytes;
    std::uint32_t inline_max_bytes;
};

class EveryOffset : public TxWqe, public ::testing::WithParamInterface<Mode> {};

TEST_P(EveryOffset, TakesChainsOfOneToSixtySegments) {
    const Mode& mode = GetParam();
    open({.features = mode.features | TxFeature::multi_segment,
          .min_inline_bytes = mode.min_inline_bytes,
          .inline_max_bytes = mode.inline_max_bytes});
    for (unsigned offset = 0; offset < 64; ++offset) {
        for (std::uint32_t segments = 1; segments <= 60; ++segments) {
            advance_to(offset, 63);
            const std::uint32_t bytes = 60 + segments * 3;
            ASSERT_NO_FATAL_FAILURE(send_and_compare(bytes, segments, content(bytes)));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    TxWqe, EveryOffset,
    ::testing::Values(Mode{"plain", {}, 0, 0}, Mode{"mpw", {TxFeature::multi_packet}, 0, 0},
                      Mode{"inline_frames", {TxFeature::multi_packet, TxFeature::inline_frames}, 0, 256},
                      Mode{"min_inline", {}, 18, 0}, Mode{"vlan", {TxFeature::vlan_insert}, 0, 0}),
    [](const auto& param) { return std::string{param.param.name}; });

TEST_F(TxWqe, InlineFramesOfEveryLengthAreExactAtEveryRingOffset) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames}, .inline_max_bytes = 900});
    for (unsigned offset = 0; offset < 64; offset += 3) {
        for (std::uint32_t bytes = 14; bytes <= 1024; bytes += 13) {
            advance_to(offset, 63);
            ASSERT_NO_FATAL_FAILURE(send_and_compare(bytes, 1, content(bytes)));
        }
    }
    EXPECT_GT(queue_->stats().inlined, 500U);
}

/// What the HCA has sent, in order, is `mbufs`' content by length and place.
class InlineBursts : public TxWqe {
  protected:
    void expect_sent(const std::vector<std::uint32_t>& lengths) {
        std::vector<rte_mbuf*> mbufs;
        for (std::size_t i = 0; i < lengths.size(); ++i)
            mbufs.push_back(packet(lengths[i], static_cast<std::uint8_t>(i)));
        ASSERT_EQ(put(mbufs), lengths.size());
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "");
        ASSERT_EQ(hca_->frames().size(), lengths.size());
        for (std::size_t i = 0; i < lengths.size(); ++i)
            ASSERT_EQ(hca_->frames()[i].bytes, content(lengths[i], static_cast<std::uint8_t>(i)))
                << "frame " << i << " of " << lengths[i];
        finish();
        hca_->frames().clear();
        expect_pool_full();
    }
};

TEST_F(InlineBursts, OfOneLengthAreExactAtEveryRingOffset) {
    for (const TxFeatures more : {TxFeatures{}, TxFeatures{TxFeature::fast_free},
                                  TxFeatures{TxFeature::checksum}, TxFeatures{TxFeature::multi_segment}}) {
        open({.features = more | TxFeatures{TxFeature::multi_packet, TxFeature::inline_frames},
              .log_wqebbs = 7,
              .inline_max_bytes = 64});
        for (unsigned offset = 0; offset < 128; offset += 3)
            for (const std::uint32_t bytes : {31U, 32U, 36U, 44U, 45U, 59U, 60U, 61U, 64U, 65U}) {
                advance_to(offset, 127);
                const std::size_t count = 1 + (offset + bytes) % 33;
                ASSERT_NO_FATAL_FAILURE(expect_sent(std::vector<std::uint32_t>(count, bytes))) << offset;
            }
    }
}

TEST_F(InlineBursts, OneFrameOfAnotherLengthMayBeAnywhere) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames},
          .log_wqebbs = 7,
          .inline_max_bytes = 128});
    for (const std::uint32_t other : {14U, 63U, 65U, 128U, 200U})
        for (std::size_t place = 0; place < 32; ++place) {
            std::vector<std::uint32_t> lengths(32, 64);
            lengths[place] = other;
            ASSERT_NO_FATAL_FAILURE(expect_sent(lengths)) << other << " at " << place;
        }
}

TEST_F(InlineBursts, OfOneLengthAreSplitWhereFlagsDiffer) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames, TxFeature::checksum},
          .log_wqebbs = 7,
          .inline_max_bytes = 64});
    for (std::size_t place = 0; place < 16; ++place) {
        std::vector<rte_mbuf*> mbufs = packets(16);
        mbufs[place]->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        ASSERT_EQ(put(mbufs), 16U);
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "");
        for (std::size_t i = 0; i < 16; ++i)
            ASSERT_EQ(hca_->frames().at(i).cs_flags != 0, i == place) << i << " of " << place;
        finish();
        hca_->frames().clear();
    }
}

TEST_F(InlineBursts, AskForACompletionByTheRingTheyFill) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames},
          .log_wqebbs = 9,
          .mbufs = 512,
          .inline_max_bytes = 64});
    for (unsigned i = 0; i < 8; ++i)
        ASSERT_EQ(put(packets(32)), 32U);
    hca_->execute();
    // 43 WQEBBs a burst: one at the start, then one for each 128.
    EXPECT_EQ(hca_->cqes_written(), 3U);
    EXPECT_FALSE(queue_->drain(1)) << "the last ones are not known to be sent";
    hca_->execute();
    EXPECT_TRUE(queue_->drain(1)) << "a NOP has asked";
}

TEST_F(TxWqe, ChainOfTheDsLimitIsSentAndOneMoreIsRefused) {
    open({.features = TxFeature::multi_segment});
    for (const std::uint32_t segments : {60U, 61U}) {
        ASSERT_NO_FATAL_FAILURE(send_and_compare(500, segments, content(500)));
    }
    rte_mbuf* good = packet(64);
    rte_mbuf* too_many = packet(500, 1, 62);
    EXPECT_EQ(put({good, too_many}), 1U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(mbufqp::TxRefusal::too_many_segments)], 1U);
    rte_pktmbuf_free(too_many);
    finish();
}

TEST_F(TxWqe, EmptySegmentsOfAChainAreSkipped) {
    open({.features = TxFeature::multi_segment});
    rte_mbuf* chain = packet(100, 1, 2);
    rte_mbuf* empty = packet(0);
    empty->next = chain->next;
    chain->next = empty;
    chain->nb_segs = 3;
    ASSERT_EQ(put({chain}), 1U);
    hca_->execute();
    EXPECT_EQ(hca_->frames().at(0).bytes, content(100));
    finish();
}

TEST_F(TxWqe, HeaderThatTheDeviceDemandsInlineMayBeSpreadOverTinySegments) {
    open({.features = TxFeature::multi_segment, .min_inline_bytes = 18});
    ASSERT_NO_FATAL_FAILURE(send_and_compare(64, 30, content(64)));
    ASSERT_NO_FATAL_FAILURE(send_and_compare(18, 9, content(18)));
    ASSERT_NO_FATAL_FAILURE(send_and_compare(14, 1, content(14)));
}

TEST_F(TxWqe, RunOfPlainPacketsSharesOneWqeUpToTheDsLimit) {
    open({.features = TxFeature::multi_packet, .log_wqebbs = 8, .mbufs = 512});
    auto mbufs = packets(62);
    ASSERT_EQ(put(mbufs), 62U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 62U);
    EXPECT_EQ(hca_->wqes(), 2U) << "61 data segments beside control and Ethernet segment";
    EXPECT_EQ(hca_->frames()[60].in_wqe, 60U);
    EXPECT_EQ(hca_->frames()[61].in_wqe, 0U);
    for (std::size_t i = 0; i < 62; ++i)
        ASSERT_EQ(hca_->frames()[i].bytes, content(64, static_cast<std::uint8_t>(i)));
    EXPECT_EQ(queue_->stats().doorbells, 1U);
    finish();
}

TEST_F(TxWqe, SessionEndsAtTheEndOfTheRing) {
    open({.features = TxFeature::multi_packet});
    advance_to(62, 63); // two WQEBBs left: 6 data segments
    ASSERT_EQ(put(packets(20)), 20U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 20U);
    EXPECT_EQ(hca_->frames()[5].in_wqe, 5U);
    EXPECT_EQ(hca_->frames()[6].in_wqe, 0U);
    finish();
}

TEST_F(TxWqe, SessionHoldsPacketsOfTheSameChecksumFlagsOnly) {
    open({.features = {TxFeature::multi_packet, TxFeature::checksum}});
    auto mbufs = packets(6);
    const std::uint64_t both = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    mbufs[2]->ol_flags = mbufs[3]->ol_flags = both;
    mbufs[4]->ol_flags = RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_CKSUM;
    ASSERT_EQ(put(mbufs), 6U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 6U);
    const std::uint8_t l3 = MLX5_ETH_WQE_L3_CSUM, l4 = MLX5_ETH_WQE_L4_CSUM;
    const std::vector<std::uint8_t> expected{
        0, 0, static_cast<std::uint8_t>(l3 | l4), static_cast<std::uint8_t>(l3 | l4), l4, 0};
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_EQ(hca_->frames()[i].cs_flags, expected[i]) << i;
    EXPECT_EQ(hca_->wqes(), 4U);
    finish();
}

TEST_F(TxWqe, QueueWithoutChecksumFeatureAsksForNone) {
    open({.features = TxFeature::multi_packet});
    rte_mbuf* mbuf = packet(64);
    mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    ASSERT_EQ(put({mbuf}), 1U);
    hca_->execute();
    EXPECT_EQ(hca_->frames().at(0).cs_flags, 0);
    finish();
}

TEST_F(TxWqe, ChainBetweenPlainPacketsKeepsTheOrder) {
    open({.features = {TxFeature::multi_packet, TxFeature::multi_segment}});
    std::vector<rte_mbuf*> mbufs{packet(64, 0), packet(64, 1), packet(3000, 2, 3), packet(64, 3)};
    ASSERT_EQ(put(mbufs), 4U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 4U);
    const std::vector<unsigned> opcodes{session_opcode, session_opcode, send_opcode, session_opcode};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(hca_->frames()[i].opcode, opcodes[i]);
        EXPECT_EQ(hca_->frames()[i].bytes, content(i == 2 ? 3000 : 64, static_cast<std::uint8_t>(i)));
    }
    finish();
}

TEST_F(TxWqe, VlanTagGoesBetweenAddressesAndEtherType) {
    for (const std::uint32_t min_inline : {0U, 18U}) {
        open({.features = {TxFeature::multi_packet, TxFeature::vlan_insert}, .min_inline_bytes = min_inline});
        std::vector<rte_mbuf*> mbufs{packet(64, 0), packet(64, 1), packet(64, 2), packet(14, 3)};
        for (const std::size_t tagged : {1U, 3U}) {
            mbufs[tagged]->ol_flags = RTE_MBUF_F_TX_VLAN;
            mbufs[tagged]->vlan_tci = 0x6123;
        }
        ASSERT_EQ(put(mbufs), 4U);
        hca_->execute();
        ASSERT_EQ(hca_->frames().size(), 4U);
        const Bytes tag{0x81, 0x00, 0x61, 0x23};
        Bytes second = content(64, 1), fourth = content(14, 3);
        second.insert(second.begin() + 12, tag.begin(), tag.end());
        fourth.insert(fourth.begin() + 12, tag.begin(), tag.end());
        EXPECT_EQ(hca_->frames()[0].bytes, content(64, 0));
        EXPECT_EQ(hca_->frames()[1].bytes, second);
        EXPECT_EQ(hca_->frames()[2].bytes, content(64, 2));
        EXPECT_EQ(hca_->frames()[3].bytes, fourth);
        finish();
    }
}

TEST_F(TxWqe, ShortFramesAreInlinedAndLongOnesPointedToInOneSession) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames}, .inline_max_bytes = 128});
    std::vector<rte_mbuf*> mbufs{packet(64, 0), packet(129, 1), packet(128, 2), packet(1500, 3)};
    ASSERT_EQ(put(mbufs), 4U);
    hca_->execute();
    EXPECT_EQ(hca_->wqes(), 1U);
    EXPECT_EQ(queue_->stats().inlined, 2U);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(hca_->frames().at(i).bytes, content(i == 0   ? 64
                                                      : i == 1 ? 129
                                                      : i == 2 ? 128
                                                               : 1500,
                                                      static_cast<std::uint8_t>(i)));
    finish();
}

} // namespace
} // namespace stride::test
