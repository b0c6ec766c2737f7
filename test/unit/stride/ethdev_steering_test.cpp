// SPDX-License-Identifier: BSD-3-Clause
#include "ethdev_fixture.hpp"

#include <cstring>

namespace stride::test {
namespace {

class EthdevSteering : public EthdevTest {
  protected:
    /// How many of one frame to `dst` arrive.
    std::size_t arrivals(const rte_ether_addr& dst) {
        send(b_, {frame({.number = 5, .dst = dst})});
        std::vector<rte_mbuf*> got = receive(a_, 2);
        rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
        return got.size();
    }
    rte_ether_addr own() const {
        rte_ether_addr mac{};
        rte_eth_macaddr_get(a_, &mac);
        return mac;
    }
    /// Frames of `flows` UDP flows by receive queue.
    std::vector<std::size_t> spread(std::uint16_t queues, std::uint16_t flows) {
        std::vector<rte_mbuf*> frames;
        for (std::uint16_t flow = 0; flow < flows; ++flow)
            frames.push_back(
                frame({.number = flow, .bytes = 100, .udp_source = static_cast<std::uint16_t>(1000 + flow)}));
        send(b_, frames);
        std::vector<std::size_t> counts;
        for (std::uint16_t queue = 0; queue < queues; ++queue) {
            std::vector<rte_mbuf*> got = receive(a_, flows, queue);
            counts.push_back(got.size());
            rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
        }
        return counts;
    }
};

constexpr rte_ether_addr stranger{{0x02, 0x77, 0x77, 0x77, 0x77, 0x77}};
constexpr rte_ether_addr group{{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}};
constexpr rte_ether_addr other_group{{0x01, 0x00, 0x5e, 0x09, 0x09, 0x09}};
constexpr rte_ether_addr broadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

TEST_F(EthdevSteering, OwnAddressAndBroadcastArriveOnceAndNothingElse) {
    bring_up(a_);
    bring_up(b_);
    EXPECT_EQ(arrivals(own()), 1U);
    EXPECT_EQ(arrivals(broadcast), 1U);
    EXPECT_EQ(arrivals(stranger), 0U);
    EXPECT_EQ(arrivals(group), 0U);
}

TEST_F(EthdevSteering, ModesOpenAndCloseWhileThePortRuns) {
    bring_up(a_);
    bring_up(b_);
    ASSERT_EQ(rte_eth_allmulticast_enable(a_), 0);
    EXPECT_EQ(arrivals(group), 1U);
    EXPECT_EQ(arrivals(broadcast), 1U);
    EXPECT_EQ(arrivals(stranger), 0U);
    ASSERT_EQ(rte_eth_promiscuous_enable(a_), 0);
    EXPECT_EQ(arrivals(stranger), 1U);
    EXPECT_EQ(arrivals(group), 1U);
    ASSERT_EQ(rte_eth_allmulticast_disable(a_), 0);
    ASSERT_EQ(rte_eth_promiscuous_disable(a_), 0);
    EXPECT_EQ(arrivals(stranger), 0U);
    EXPECT_EQ(arrivals(group), 0U);
    EXPECT_EQ(arrivals(own()), 1U);
}

TEST_F(EthdevSteering, AddressesAddedRemovedAndReplacedAreFollowed) {
    bring_up(a_);
    bring_up(b_);
    rte_ether_addr added = stranger;
    ASSERT_EQ(rte_eth_dev_mac_addr_add(a_, &added, 0), 0);
    EXPECT_EQ(arrivals(stranger), 1U);
    ASSERT_EQ(rte_eth_dev_mac_addr_remove(a_, &added), 0);
    EXPECT_EQ(arrivals(stranger), 0U);
    const rte_ether_addr old = own();
    ASSERT_EQ(rte_eth_dev_default_mac_addr_set(a_, &added), 0);
    EXPECT_EQ(arrivals(stranger), 1U);
    EXPECT_EQ(arrivals(old), 0U);
}

TEST_F(EthdevSteering, MulticastListIsExactAndOutlivesARestart) {
    bring_up(a_);
    bring_up(b_);
    rte_ether_addr list[] = {group};
    ASSERT_EQ(rte_eth_dev_set_mc_addr_list(a_, list, 1), 0);
    EXPECT_EQ(arrivals(group), 1U);
    EXPECT_EQ(arrivals(other_group), 0U);
    ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
    EXPECT_EQ(arrivals(group), 1U);
    rte_ether_addr wrong[] = {stranger};
    EXPECT_LT(rte_eth_dev_set_mc_addr_list(a_, wrong, 1), 0);
    EXPECT_EQ(arrivals(group), 1U) << "a refused list changes nothing";
}

TEST_F(EthdevSteering, FlowsSpreadOverTheQueuesAndTheRetaMovesThem) {
    bring_up(a_, {.rx_queues = 4, .hash_types = RTE_ETH_RSS_NONFRAG_IPV4_UDP});
    bring_up(b_);
    std::vector<std::size_t> counts = spread(4, 200);
    EXPECT_EQ(counts[0] + counts[1] + counts[2] + counts[3], 200U);
    for (const std::size_t count : counts)
        EXPECT_GT(count, 20U);

    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(a_, &info), 0);
    std::vector<rte_eth_rss_reta_entry64> reta((info.reta_size + RTE_ETH_RETA_GROUP_SIZE - 1) /
                                               RTE_ETH_RETA_GROUP_SIZE);
    for (auto& entry : reta) {
        entry.mask = ~0ULL;
        for (auto& queue : entry.reta)
            queue = 2;
    }
    ASSERT_EQ(rte_eth_dev_rss_reta_update(a_, reta.data(), info.reta_size), 0);
    counts = spread(4, 200);
    EXPECT_EQ(counts[2], 200U);
    reta[0].reta[3] = 4;
    EXPECT_LT(rte_eth_dev_rss_reta_update(a_, reta.data(), info.reta_size), 0) << "there is no queue 4";
}

TEST_F(EthdevSteering, WhatIsNotHashedGoesToTheFirstQueueOfTheTable) {
    bring_up(a_, {.rx_queues = 2, .hash_types = RTE_ETH_RSS_NONFRAG_IPV4_TCP});
    bring_up(b_);
    const std::vector<std::size_t> counts = spread(2, 50);
    EXPECT_EQ(counts[0], 50U);
    EXPECT_EQ(counts[1], 0U);
}

TEST_F(EthdevSteering, HashConfigurationReadsBackAsSet) {
    bring_up(a_, {.rx_queues = 2, .hash_types = RTE_ETH_RSS_IPV4});
    std::uint8_t key[40];
    for (std::uint8_t i = 0; i < sizeof key; ++i)
        key[i] = static_cast<std::uint8_t>(3 * i + 1);
    rte_eth_rss_conf conf{};
    conf.rss_key = key;
    conf.rss_key_len = sizeof key;
    conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    ASSERT_EQ(rte_eth_dev_rss_hash_update(a_, &conf), 0);
    std::uint8_t read[40] = {};
    rte_eth_rss_conf back{};
    back.rss_key = read;
    back.rss_key_len = sizeof read;
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(a_, &back), 0);
    EXPECT_EQ(back.rss_hf, std::uint64_t{RTE_ETH_RSS_NONFRAG_IPV4_UDP});
    EXPECT_EQ(std::memcmp(key, read, sizeof key), 0);
    conf.rss_key_len = 39;
    EXPECT_LT(rte_eth_dev_rss_hash_update(a_, &conf), 0);
}

} // namespace
} // namespace stride::test
