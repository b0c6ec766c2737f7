// SPDX-License-Identifier: BSD-3-Clause
#include "ethdev_fixture.hpp"

namespace stride::test {
namespace {

class EthdevQueueState : public EthdevTest {
  protected:
    std::vector<rte_mbuf*> frames(std::uint64_t first, std::uint32_t count, std::uint32_t bytes) {
        std::vector<rte_mbuf*> made;
        for (std::uint64_t i = first; i < first + count; ++i)
            made.push_back(frame({.number = i, .bytes = bytes}));
        return made;
    }
    /// Received, dropped and discarded by port a.
    static std::uint64_t accounted() {
        std::uint64_t sum = 0;
        for (const char* name :
             {"rx_good_packets", "rx_dropped_no_mbuf", "rx_dropped_oversize", "rx_dropped_no_room",
              "rx_dropped_error", "rx_dropped_bad_cqe", "rx_discarded_at_stop"})
            sum += xstat(0, name);
        return sum;
    }
    void SetUp() override {
        EthdevTest::SetUp();
        ASSERT_EQ(a_, 0);
    }
    static std::uint8_t rx_state(std::uint16_t port) {
        rte_eth_rxq_info info{};
        return rte_eth_rx_queue_info_get(port, 0, &info) == 0 ? info.queue_state : std::uint8_t{0xff};
    }
};

TEST_F(EthdevQueueState, ReceiveQueueStoppedWithPacketsHeldAndWaitingLosesNothingUncounted) {
    bring_up(a_);
    bring_up(b_);
    std::uint64_t sent = 0;
    std::vector<rte_mbuf*> held;
    for (std::uint32_t round = 0; round < 30; ++round) {
        send(b_, frames(sent, 5 + round, 700));
        std::vector<rte_mbuf*> got = receive(a_, 3);
        ASSERT_GE(got.size(), 3U);
        EXPECT_TRUE(is_intact(got[2], {.number = sent + 2, .bytes = 700}));
        sent += 5 + round;
        held.push_back(got[0]);
        rte_pktmbuf_free_bulk(got.data() + 1, static_cast<unsigned>(got.size() - 1));
        (void)receive(a_, 0);
        ASSERT_EQ(rte_eth_dev_rx_queue_stop(a_, 0), 0);
        EXPECT_EQ(rx_state(a_), RTE_ETH_QUEUE_STATE_STOPPED);
        rte_mbuf* none[4];
        EXPECT_EQ(rte_eth_rx_burst(a_, 0, none, 4), 0);
        ASSERT_EQ(rte_eth_dev_rx_queue_start(a_, 0), 0);
        EXPECT_EQ(rx_state(a_), RTE_ETH_QUEUE_STATE_STARTED);
    }
    EXPECT_GT(xstat(a_, "rx_discarded_at_stop"), 0U) << "some frames were to wait at a stop";
    EXPECT_EQ(accounted(), sent);
    expect_traffic(5000, 10000, 700);
    rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
}

TEST_F(EthdevQueueState, StoppedReceiveQueueLeavesTheOthersAlone) {
    const PortSetup setup{.rx_queues = 2, .hash_types = RTE_ETH_RSS_NONFRAG_IPV4_UDP};
    bring_up(a_, setup);
    bring_up(b_);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(a_, 1), 0);
    std::vector<rte_mbuf*> many;
    for (std::uint16_t i = 0; i < 64; ++i)
        many.push_back(
            frame({.number = i, .bytes = 300, .udp_source = static_cast<std::uint16_t>(1000 + i)}));
    send(b_, many);
    std::vector<rte_mbuf*> got = receive(a_, 64, 0);
    EXPECT_GT(got.size(), 0U);
    EXPECT_LT(got.size(), 64U) << "no flow went to the stopped queue";
    EXPECT_EQ(receive(a_, 1, 1).size(), 0U);
    rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
    ASSERT_EQ(rte_eth_dev_rx_queue_start(a_, 1), 0);
    many.clear();
    for (std::uint16_t i = 0; i < 64; ++i)
        many.push_back(
            frame({.number = i, .bytes = 300, .udp_source = static_cast<std::uint16_t>(1000 + i)}));
    send(b_, many);
    const std::size_t first = got.size();
    got = receive(a_, 64, 0);
    EXPECT_EQ(got.size(), first);
    std::vector<rte_mbuf*> other = receive(a_, 64, 1);
    EXPECT_EQ(got.size() + other.size(), 64U);
    rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
    rte_pktmbuf_free_bulk(other.data(), static_cast<unsigned>(other.size()));
}

TEST_F(EthdevQueueState, StoppedSendQueueTakesNothingUntilItIsStarted) {
    bring_up(a_);
    bring_up(b_);
    expect_traffic(0, 100);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(b_, 0), 0);
    rte_mbuf* one = frame({.number = 1});
    for (unsigned tries = 0; tries < 5000; ++tries)
        ASSERT_EQ(rte_eth_tx_burst(b_, 0, &one, 1), 0);
    rte_pktmbuf_free(one);
    ASSERT_EQ(rte_eth_dev_tx_queue_start(b_, 0), 0);
    expect_traffic(1000, 5000);
    EXPECT_EQ(xstat(b_, "tx_recoveries"), 0U);
}

TEST_F(EthdevQueueState, DeferredQueuesStartWhenToldTo) {
    bring_up(b_);
    rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(a_, 1, 1, &conf), 0);
    rte_eth_rxconf rx{};
    rx.rx_deferred_start = 1;
    rte_eth_txconf tx{};
    tx.tx_deferred_start = 1;
    ASSERT_EQ(rte_eth_rx_queue_setup(a_, 0, 512, 0, &rx, pool_), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(a_, 0, 512, 0, &tx), 0);
    for (unsigned round = 0; round < 2; ++round) {
        ASSERT_EQ(rte_eth_dev_start(a_), 0);
        EXPECT_EQ(rx_state(a_), RTE_ETH_QUEUE_STATE_STOPPED);
        rte_mbuf* one = frame({.number = 1});
        EXPECT_EQ(rte_eth_tx_burst(a_, 0, &one, 1), 0);
        send(b_, {one});
        EXPECT_EQ(receive(a_, 1).size(), 0U);
        ASSERT_EQ(rte_eth_dev_rx_queue_start(a_, 0), 0);
        ASSERT_EQ(rte_eth_dev_tx_queue_start(a_, 0), 0);
        expect_traffic(10, 1000);
        send(a_, {frame({.number = 2})});
        std::vector<rte_mbuf*> back = receive(b_, 1);
        ASSERT_EQ(back.size(), 1U);
        rte_pktmbuf_free(back[0]);
        ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    }
}

} // namespace
} // namespace stride::test
