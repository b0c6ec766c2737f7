// SPDX-License-Identifier: BSD-3-Clause
/// Error completions and senseless ones: the queue comes back, every mbuf comes home once, counters say what
/// was lost.
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <rte_mbuf.h>

#include <cstdint>
#include <vector>

namespace stride::test {
namespace {

class TxError : public TxFixture {
  protected:
    /// Fails the `nth` WQE from now, once.
    void fail_after(unsigned nth) {
        hca_->fail_wqe = [nth](std::uint16_t) mutable { return nth-- == 0; };
    }
    void traffic_is_back() {
        hca_->fail_wqe = nullptr;
        finish();
        hca_->frames().clear();
        for (unsigned round = 0; round < 20; ++round) {
            ASSERT_EQ(put(packets(40)), 40U);
            hca_->execute();
        }
        ASSERT_EQ(hca_->frames().size(), 800U);
        ASSERT_EQ(hca_->broken(), "");
        finish();
    }
};

TEST_F(TxError, ErrorAtAnyWqeLosesItAndThoseAfterItOnly) {
    for (unsigned nth = 0; nth < 40; ++nth) {
        open({.features = {}});
        ASSERT_EQ(put(packets(40)), 40U);
        fail_after(nth);
        hca_->execute();
        ASSERT_TRUE(hca_->failed());
        EXPECT_EQ(hca_->frames().size(), nth);
        ASSERT_EQ(put({packet(64)}), 1U) << "the burst that finds the error recovers and goes on";
        const auto stats = queue_->stats();
        EXPECT_EQ(stats.errors, 40U - nth);
        EXPECT_EQ(stats.error_cqes, 1U);
        EXPECT_EQ(stats.recoveries, 1U);
        ASSERT_NO_FATAL_FAILURE(traffic_is_back());
        EXPECT_EQ(queue_->stats().errors, 40U - nth);
        expect_pool_full();
    }
}

TEST_F(TxError, ErrorInASessionLosesAllItsPackets) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(10)), 10U);
    ASSERT_EQ(put(packets(20)), 20U);
    ASSERT_EQ(put(packets(5)), 5U);
    fail_after(1);
    hca_->execute();
    EXPECT_EQ(queue_->done_cleanup(0), 35U);
    EXPECT_EQ(queue_->stats().errors, 25U);
    expect_pool_full();
    traffic_is_back();
}

TEST_F(TxError, RecoveryThatFailsIsTriedAgainAndFreesNothingBefore) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(10)), 10U);
    fail_after(0);
    hca_->execute();
    recovery_fails_ = true;
    auto waiting = packets(1);
    for (unsigned i = 0; i < 1000; ++i)
        ASSERT_EQ(put(waiting), 0U);
    EXPECT_EQ(held(), 11U) << "the HCA may still read them";
    EXPECT_EQ(queue_->write_avail(), 0U);
    EXPECT_GE(recoveries_tried_, 3U);
    EXPECT_LE(recoveries_tried_, 10U);
    recovery_fails_ = false;
    hca_->fail_wqe = nullptr;
    unsigned tries = 0;
    while (put(waiting) == 0 && tries < 1000)
        ++tries;
    EXPECT_LT(tries, 300U);
    EXPECT_EQ(queue_->stats().errors, 10U);
    EXPECT_EQ(queue_->stats().error_cqes, 1U);
    traffic_is_back();
}

TEST_F(TxError, QueueThatCouldNotBeRecoveredIsFreedByReset) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(10)), 10U);
    fail_after(0);
    hca_->execute();
    recovery_fails_ = true;
    rte_mbuf* waiting = packet(64);
    ASSERT_EQ(put({waiting}), 0U);
    rte_pktmbuf_free(waiting);
    hca_->reset();
    queue_->reset();
    expect_pool_full();
    traffic_is_back();
}

TEST_F(TxError, CqeOfAWqeThatIsNotInFlightIsNotBelieved) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(10)), 10U);
    hca_->forge_cqe(MLX5_CQE_REQ, 40);
    hca_->execute(0);
    ASSERT_EQ(put({packet(64)}), 1U);
    EXPECT_EQ(queue_->stats().recoveries, 1U);
    traffic_is_back();
}

TEST_F(TxError, CqeInTheMiddleOfAWqeIsNotBelieved) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(30)), 30U);
    hca_->forge_cqe(MLX5_CQE_REQ, 3);
    ASSERT_EQ(put({packet(64)}), 1U);
    EXPECT_EQ(queue_->stats().recoveries, 1U);
    traffic_is_back();
}

TEST_F(TxError, CqeThatNobodyAskedForIsNotBelieved) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(3)), 3U);
    hca_->execute();
    hca_->forge_cqe(MLX5_CQE_REQ, 0);
    ASSERT_EQ(put({packet(64)}), 1U);
    EXPECT_EQ(queue_->stats().recoveries, 1U);
    traffic_is_back();
}

TEST_F(TxError, CompressedOrReceiveCqeInASendQueueIsNotBelieved) {
    for (const std::uint8_t opcode : {MLX5_CQE_RESP_SEND, MLX5_CQE_RESP_ERR, MLX5_CQE_NO_PACKET}) {
        open({.features = TxFeature::multi_packet});
        ASSERT_EQ(put(packets(10)), 10U);
        hca_->forge_cqe(opcode, 0);
        ASSERT_EQ(put({packet(64)}), 1U);
        EXPECT_EQ(queue_->stats().recoveries, 1U);
        ASSERT_NO_FATAL_FAILURE(traffic_is_back());
    }
}

TEST_F(TxError, ThousandErrorsLoseNoMbuf) {
    open({.features = {TxFeature::multi_packet, TxFeature::multi_segment}, .log_cqes = 4});
    std::uint64_t offered = 0;
    for (unsigned round = 0; round < 1000; ++round) {
        fail_after(round % 7);
        for (unsigned burst = 0; burst < 4; ++burst) {
            std::vector<rte_mbuf*> mbufs{packet(64), packet(900, 1, 9), packet(64)};
            const unsigned done = put(mbufs);
            offered += done;
            for (unsigned i = done; i < 3; ++i)
                rte_pktmbuf_free(mbufs[i]);
            hca_->execute();
        }
    }
    hca_->fail_wqe = nullptr;
    queue_->done_cleanup(0);
    finish();
    const auto stats = queue_->stats();
    EXPECT_EQ(stats.packets, offered);
    EXPECT_EQ(hca_->frames().size() + stats.errors, offered);
    EXPECT_GT(stats.recoveries, 500U);
    expect_pool_full();
}

} // namespace
} // namespace stride::test
