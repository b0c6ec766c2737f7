// SPDX-License-Identifier: BSD-3-Clause
#include "ethdev_fixture.hpp"

#include <rte_bus_vdev.h>

#include <set>

namespace stride::test {
namespace {

class EthdevLifecycle : public EthdevTest {};

TEST_F(EthdevLifecycle, PacketsHeldAreIntactAfterStopAndCloseUntilFreed) {
    bring_up(a_);
    bring_up(b_);
    if (!attaches(a_)) GTEST_SKIP() << "the device has no striding RQ";
    constexpr std::uint32_t held = 10, bytes = 900;
    std::vector<rte_mbuf*> frames;
    for (std::uint64_t i = 0; i < held; ++i)
        frames.push_back(frame({.number = i, .bytes = bytes}));
    send(b_, frames);
    std::vector<rte_mbuf*> got = receive(a_, held);
    ASSERT_EQ(got.size(), held);
    EXPECT_EQ(xstat(a_, "rx_attached"), held) << "the test is about packets in the device's buffers";
    unplug(a_);
    for (std::uint64_t i = 0; i < held; ++i)
        EXPECT_TRUE(is_intact(got[i], {.number = i, .bytes = bytes})) << i;
    rte_pktmbuf_free_bulk(got.data(), held);
}

TEST_F(EthdevLifecycle, NoMbufOfThePoolIsOutAfterStop) {
    bring_up(a_);
    bring_up(b_);
    for (unsigned round = 0; round < 20; ++round) {
        expect_traffic(round * 100, 70);
        ASSERT_EQ(rte_eth_dev_stop(a_), 0);
        ASSERT_EQ(rte_eth_dev_stop(b_), 0);
        ASSERT_EQ(in_use(), 0U) << "round " << round;
        ASSERT_EQ(rte_eth_dev_start(a_), 0);
        ASSERT_EQ(rte_eth_dev_start(b_), 0);
    }
}

TEST_F(EthdevLifecycle, StopInTheMiddleOfAWqeWithStridesHeldThenTenThousandFramesAreCorrect) {
    bring_up(a_);
    bring_up(b_);
    std::vector<rte_mbuf*> frames;
    for (std::uint64_t i = 0; i < 3; ++i)
        frames.push_back(frame({.number = i, .bytes = 700}));
    send(b_, frames);
    std::vector<rte_mbuf*> held = receive(a_, 3);
    ASSERT_EQ(held.size(), 3U);
    ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
    expect_traffic(1000, 10000, 700);
    for (std::uint64_t i = 0; i < 3; ++i)
        EXPECT_TRUE(is_intact(held[i], {.number = i, .bytes = 700}));
    rte_pktmbuf_free_bulk(held.data(), 3);
}

TEST_F(EthdevLifecycle, StartThatFailsLeavesNothingAndTheNextSucceeds) {
    PortSetup setup{.rx_queues = 2, .hash_types = RTE_ETH_RSS_IPV4};
    rte_eth_conf conf{};
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = setup.hash_types;
    ASSERT_EQ(rte_eth_dev_configure(a_, 2, 1, &conf), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(a_, 0, 512, 0, nullptr, pool_), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(a_, 0, 512, 0, nullptr), 0);
    EXPECT_LT(rte_eth_dev_start(a_), 0) << "receive queue 1 is not set up";
    EXPECT_EQ(in_use(), 0U);
    ASSERT_EQ(rte_eth_rx_queue_setup(a_, 1, 512, 0, nullptr, pool_), 0);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
}

TEST_F(EthdevLifecycle, StatisticsOutliveAStopAndGoWithAReset) {
    bring_up(a_);
    bring_up(b_);
    expect_traffic(0, 100);
    rte_eth_stats stats{};
    ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    ASSERT_EQ(rte_eth_stats_get(a_, &stats), 0);
    EXPECT_EQ(stats.ipackets, 100U);
    EXPECT_EQ(stats.ibytes, 100U * 200);
    EXPECT_EQ(stats.q_ipackets[0], 100U);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
    expect_traffic(100, 50);
    ASSERT_EQ(rte_eth_stats_get(a_, &stats), 0);
    EXPECT_EQ(stats.ipackets, 150U);
    ASSERT_EQ(rte_eth_stats_get(b_, &stats), 0);
    EXPECT_EQ(stats.opackets, 150U);
    ASSERT_EQ(rte_eth_stats_reset(a_), 0);
    ASSERT_EQ(rte_eth_stats_get(a_, &stats), 0);
    EXPECT_EQ(stats.ipackets, 0U);
    EXPECT_EQ(stats.imissed, 0U);
}

TEST_F(EthdevLifecycle, EveryReceivedFrameIsAttachedCopiedOrDropped) {
    bring_up(a_);
    bring_up(b_);
    expect_traffic(0, 64, 60);
    expect_traffic(64, 64, 1000);
    std::uint64_t sum = 0;
    for (const char* name :
         {"rx_attached", "rx_direct", "rx_copied_short", "rx_copied_no_spare", "rx_copied_no_headroom",
          "rx_copied_asked", "rx_dropped_no_mbuf", "rx_dropped_oversize", "rx_dropped_no_room",
          "rx_dropped_error", "rx_dropped_bad_cqe"})
        sum += xstat(a_, name);
    EXPECT_EQ(sum, 128U);
    EXPECT_EQ(xstat(a_, "rx_q0_attached"), xstat(a_, "rx_attached"));
}

TEST_F(EthdevLifecycle, XstatNamesAreUniqueAndAsManyAsValues) {
    bring_up(a_, {.rx_queues = 3, .tx_queues = 2, .hash_types = RTE_ETH_RSS_IPV4});
    const int count = rte_eth_xstats_get_names(a_, nullptr, 0);
    ASSERT_GT(count, 0);
    std::vector<rte_eth_xstat_name> names(static_cast<std::size_t>(count));
    std::vector<rte_eth_xstat> values(static_cast<std::size_t>(count));
    ASSERT_EQ(rte_eth_xstats_get_names(a_, names.data(), static_cast<unsigned>(count)), count);
    ASSERT_EQ(rte_eth_xstats_get(a_, values.data(), static_cast<unsigned>(count)), count);
    std::set<std::string> seen;
    for (const auto& name : names)
        EXPECT_TRUE(seen.insert(name.name).second) << name.name;
}

TEST_F(EthdevLifecycle, MtuIsTakenFromItsLeastToItsMostAndNotWhileStarted) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(a_, &info), 0);
    ASSERT_EQ(configure(a_, {}), 0);
    EXPECT_EQ(rte_eth_dev_set_mtu(a_, info.min_mtu), 0);
    EXPECT_EQ(rte_eth_dev_set_mtu(a_, info.max_mtu), 0);
    EXPECT_LT(rte_eth_dev_set_mtu(a_, static_cast<std::uint16_t>(info.min_mtu - 1)), 0);
    EXPECT_LT(rte_eth_dev_set_mtu(a_, static_cast<std::uint16_t>(info.max_mtu + 1)), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(a_, 1600), 0);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
    EXPECT_EQ(rte_eth_dev_set_mtu(a_, 1500), -EBUSY);
    std::uint16_t mtu = 0;
    ASSERT_EQ(rte_eth_dev_get_mtu(a_, &mtu), 0);
    EXPECT_EQ(mtu, 1600);
}

TEST_F(EthdevLifecycle, FrameAboveTheMtuIsDroppedAndCountedAndItsNeighboursAreIntact) {
    bring_up(a_, {.mtu = 1500});
    bring_up(b_, {.mtu = 1900});
    send(b_, {frame({.number = 1, .bytes = 1000}), frame({.number = 2, .bytes = 1700}),
              frame({.number = 3, .bytes = 1000})});
    std::vector<rte_mbuf*> got = receive(a_, 3);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_TRUE(is_intact(got[0], {.number = 1, .bytes = 1000}));
    EXPECT_TRUE(is_intact(got[1], {.number = 3, .bytes = 1000}));
    EXPECT_EQ(xstat(a_, "rx_dropped_oversize"), 1U);
    rte_eth_stats stats{};
    ASSERT_EQ(rte_eth_stats_get(a_, &stats), 0);
    EXPECT_EQ(stats.ierrors, 1U);
    rte_pktmbuf_free_bulk(got.data(), 2);
}

TEST_F(EthdevLifecycle, QueuesOfTheFewestAndTheMostDescriptorsWork) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(a_, &info), 0);
    bring_up(a_);
    // A ring of single-packet WQEs takes an mbuf for each.
    const std::uint16_t most = attaches(a_) ? info.rx_desc_lim.nb_max : std::uint16_t{2048};
    ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    for (const std::uint16_t descriptors : {info.rx_desc_lim.nb_min, most}) {
        bring_up(a_, {.rx_descriptors = descriptors, .tx_descriptors = info.tx_desc_lim.nb_min});
        bring_up(b_, {.tx_descriptors = info.tx_desc_lim.nb_max});
        expect_traffic(0, 3000, 300, 4); // what the smallest ring holds
        ASSERT_EQ(rte_eth_dev_stop(a_), 0);
        ASSERT_EQ(rte_eth_dev_stop(b_), 0);
    }
    ASSERT_EQ(configure(a_, {}), 0);
    EXPECT_LT(rte_eth_rx_queue_setup(a_, 0, static_cast<std::uint16_t>(info.rx_desc_lim.nb_max + 1), 0,
                                     nullptr, pool_),
              0);
}

TEST_F(EthdevLifecycle, DescriptorsDoneAreAsManyAsFramesThatWait) {
    bring_up(a_, {.rx_descriptors = 1024});
    bring_up(b_);
    std::vector<rte_mbuf*> frames;
    for (std::uint64_t i = 0; i < 100; ++i)
        frames.push_back(frame({.number = i}));
    send(b_, frames);
    for (unsigned polls = 0; polls < 1000000 && rte_eth_rx_queue_count(a_, 0) < 100; ++polls)
        rte_pause();
    EXPECT_EQ(rte_eth_rx_queue_count(a_, 0), 100);
    EXPECT_EQ(rte_eth_rx_descriptor_status(a_, 0, 99), RTE_ETH_RX_DESC_DONE);
    EXPECT_EQ(rte_eth_rx_descriptor_status(a_, 0, 100), RTE_ETH_RX_DESC_AVAIL);
    rte_eth_rxq_info info{};
    ASSERT_EQ(rte_eth_rx_queue_info_get(a_, 0, &info), 0);
    EXPECT_EQ(info.nb_desc, 1024);
    std::vector<rte_mbuf*> got = receive(a_, 100);
    ASSERT_EQ(got.size(), 100U);
    rte_pktmbuf_free_bulk(got.data(), 100);
}

TEST_F(EthdevLifecycle, FramesSentOnGiveTheirBuffersBack) {
    bring_up(a_);
    bring_up(b_);
    if (!attaches(a_)) GTEST_SKIP() << "the device has no striding RQ";
    for (unsigned round = 0; round < 40; ++round) {
        std::vector<rte_mbuf*> frames;
        for (std::uint64_t i = 0; i < 64; ++i)
            frames.push_back(frame({.number = i, .bytes = 1000}));
        send(b_, frames);
        std::vector<rte_mbuf*> got = receive(a_, 64);
        ASSERT_EQ(got.size(), 64U);
        send(a_, got);
        std::vector<rte_mbuf*> back = receive(b_, 64);
        ASSERT_EQ(back.size(), 64U);
        for (std::uint64_t i = 0; i < 64; ++i)
            ASSERT_TRUE(is_intact(back[i], {.number = i, .bytes = 1000}));
        rte_pktmbuf_free_bulk(back.data(), 64);
    }
    EXPECT_EQ(xstat(a_, "rx_attached"), 40U * 64);
    for (unsigned polls = 0; polls < 1000 && xstat(a_, "rx_buffers_held") > 1; ++polls)
        rte_eth_tx_done_cleanup(a_, 0, 0);
    EXPECT_LE(xstat(a_, "rx_buffers_held"), 1U) << "at most the WQE in work";
}

TEST_F(EthdevLifecycle, FastFreeGivesAttachedBuffersBackAllTheSame) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(a_, &info), 0);
    ASSERT_NE(info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, 0U);
    bring_up(a_, {.tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE});
    bring_up(b_);
    for (unsigned round = 0; round < 20; ++round) {
        std::vector<rte_mbuf*> frames;
        for (std::uint64_t i = 0; i < 64; ++i)
            frames.push_back(frame({.number = i, .bytes = i % 2 == 0 ? 64U : 1000U}));
        send(b_, frames);
        std::vector<rte_mbuf*> got = receive(a_, 64);
        ASSERT_EQ(got.size(), 64U);
        send(a_, got);
        std::vector<rte_mbuf*> back = receive(b_, 64);
        ASSERT_EQ(back.size(), 64U);
        rte_pktmbuf_free_bulk(back.data(), 64);
    }
    for (unsigned polls = 0; polls < 1000 && xstat(a_, "rx_buffers_held") > 1; ++polls)
        rte_eth_tx_done_cleanup(a_, 0, 0);
    EXPECT_LE(xstat(a_, "rx_buffers_held"), 1U) << "at most the WQE in work";
}

TEST_F(EthdevLifecycle, AllIsCopiedIfAsked) {
    unplug(a_);
    a_ = plug("net_stride_a", "ibdev=mlx5_0,copy_threshold_bytes=65535");
    ASSERT_NE(a_, no_port);
    bring_up(a_);
    bring_up(b_);
    expect_traffic(0, 1000, 1000);
    if (attaches(b_)) {
        EXPECT_EQ(xstat(a_, "rx_copied_asked"), 1000U);
    }
}

TEST_F(EthdevLifecycle, WrongArgumentsRefuseThePortAndLeaveNothing) {
    EXPECT_EQ(plug("net_stride_c", "ibdev=mlx5_9"), no_port);
    EXPECT_EQ(plug("net_stride_c", "ibdev=mlx5_0,port=7"), no_port);
    EXPECT_EQ(plug("net_stride_c", "ibdev=mlx5_0,log_strides=x"), no_port);
    std::uint16_t again = plug("net_stride_c", "ibdev=mlx5_0");
    EXPECT_NE(again, no_port);
    if (again == no_port) return;
    EXPECT_EQ(rte_eth_dev_close(again), 0);
    rte_vdev_uninit("net_stride_c");
}

} // namespace
} // namespace stride::test
