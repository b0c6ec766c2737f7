// SPDX-License-Identifier: BSD-3-Clause
/// The set of send queues: selection, water marks, what open refuses.
#include "mbufqp/queue_set.hpp"
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stride::test {
namespace {

using mbufqp::QueueSet;

class QueueSetTest : public TxFixture {
  protected:
    /// A set of `count` queues of 64 packets, each on its own HCA side.
    Result<QueueSet> open_set(std::size_t count, std::uint32_t stop_below = 0, std::uint32_t wake_at = 0) {
        hcas_.clear();
        std::vector<mbufqp::TxQueueConfig> configs;
        for (std::size_t i = 0; i < count; ++i) {
            hcas_.push_back(std::make_unique<FakeHca>(8, 6));
            hcas_.back()->add_key(nullptr, SIZE_MAX / 2);
            mbufqp::TxQueueConfig config;
            config.sq = hcas_.back()->sq();
            config.cq = hcas_.back()->cq();
            config.mbufs = 64;
            config.features = TxFeature::multi_packet;
            config.keys = {&any_key, nullptr, nullptr};
            config.recovery = {[](void*) noexcept { return false; }, nullptr};
            configs.push_back(config);
        }
        return QueueSet::open({.queues = configs,
                               .burst = mbufqp::ethernet_burst(TxFeature::multi_packet),
                               .stop_below = stop_below,
                               .wake_at = wake_at});
    }
    static bool any_key(void*, std::uintptr_t, ibv::KeyEntry& entry) noexcept {
        entry = {{0, SIZE_MAX / 2}, be32{0x1001}};
        return true;
    }

    std::vector<std::unique_ptr<FakeHca>> hcas_{};
};

TEST_F(QueueSetTest, FlowStaysOnItsQueueAndFlowsSpread) {
    auto set = open_set(5);
    ASSERT_TRUE(set.ok()) << set.error().what;
    std::vector<unsigned> hits(5);
    for (std::uint32_t flow = 0; flow < 5000; ++flow) {
        const std::size_t queue = set->select_queue(flow);
        ASSERT_LT(queue, 5U);
        ASSERT_EQ(queue, set->select_queue(flow));
        ++hits[queue];
    }
    for (const unsigned count : hits) {
        EXPECT_GT(count, 800U);
        EXPECT_LT(count, 1200U);
    }
    hits.assign(5, 0);
    for (std::uint32_t flow = 0; flow < 5000; ++flow)
        ++hits[set->select_queue(flow << 16)];
    for (const unsigned count : hits)
        EXPECT_GT(count, 800U) << "entropy in the high bits";
}

TEST_F(QueueSetTest, PutGoesToTheQueueThatIsNamed) {
    auto set = open_set(3);
    ASSERT_TRUE(set.ok());
    auto mbufs = packets(6);
    for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(set->put(i, mbufs.data() + 2 * i, 2), 2U);
    for (std::size_t i = 0; i < 3; ++i) {
        hcas_[i]->execute();
        ASSERT_EQ(hcas_[i]->frames().size(), 2U);
        EXPECT_EQ(hcas_[i]->frames()[0].bytes, content(64, static_cast<std::uint8_t>(2 * i)));
        EXPECT_EQ(set->stats(i).packets, 2U);
        EXPECT_EQ(hcas_[i]->broken(), "");
    }
}

TEST_F(QueueSetTest, FullQueueStopsAtHighWaterAndWakesAtLow) {
    auto set = open_set(1, 8, 32);
    ASSERT_TRUE(set.ok()) << set.error().what;
    EXPECT_EQ(set->write_avail(0), 64U);
    for (unsigned i = 0; i < 56; ++i) {
        rte_mbuf* mbuf = packet(64);
        ASSERT_EQ(set->put(0, &mbuf, 1), 1U);
    }
    EXPECT_EQ(set->write_avail(0), 8U);
    rte_mbuf* mbuf = packet(64);
    ASSERT_EQ(set->put(0, &mbuf, 1), 1U);
    EXPECT_EQ(set->write_avail(0), 0U) << "7 are left";
    hcas_[0]->execute(17); // the first WQE and then each 16th ask for a CQE
    EXPECT_EQ(set->write_avail(0), 0U) << "room for 24 is below low water";
    hcas_[0]->execute(16);
    EXPECT_EQ(set->write_avail(0), 40U);
}

TEST_F(QueueSetTest, IdleHcaAlwaysBringsAStoppedQueueBack) {
    auto set = open_set(1, 32, 32);
    ASSERT_TRUE(set.ok());
    for (unsigned round = 0; round < 10000; ++round) {
        while (set->write_avail(0) != 0) {
            rte_mbuf* mbuf = packet(64);
            ASSERT_EQ(set->put(0, &mbuf, 1), 1U);
        }
        hcas_[0]->execute();
        hcas_[0]->frames().clear();
        ASSERT_NE(set->write_avail(0), 0U) << "round " << round;
    }
}

TEST_F(QueueSetTest, MarksThatCannotBeReachedAreRefused) {
    EXPECT_FALSE(open_set(0).ok());
    EXPECT_FALSE(open_set(1, 10, 5).ok());
    auto set = open_set(1, 8, 33);
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.error().code, EINVAL);
    EXPECT_NE(set.error().what.find("wake at 33 of 64"), std::string::npos) << set.error().what;
}

} // namespace
} // namespace stride::test
