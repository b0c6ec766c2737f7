// SPDX-License-Identifier: BSD-3-Clause
#include "ethdev_fixture.hpp"

#include <rte_epoll.h>
#include <rte_interrupts.h>

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace stride::test {
namespace {

constexpr int long_enough_ms = 10000;

template <class Function>
Function swhca(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

class EthdevInterrupt : public EthdevTest {
  protected:
    /// Brings port a up with interrupts as asked for.
    void bring_up_asking(bool link, bool receive) {
        rte_eth_conf conf{};
        conf.intr_conf.lsc = link;
        conf.intr_conf.rmv = link;
        conf.intr_conf.rxq = receive;
        ASSERT_EQ(rte_eth_dev_configure(a_, 1, 1, &conf), 0);
        ASSERT_EQ(rte_eth_rx_queue_setup(a_, 0, 512, 0, nullptr, pool_), 0);
        ASSERT_EQ(rte_eth_tx_queue_setup(a_, 0, 512, 0, nullptr), 0);
        ASSERT_EQ(rte_eth_dev_start(a_), 0);
    }
    static int count(std::uint16_t, rte_eth_event_type, void* context, void*) {
        ++*static_cast<std::atomic<unsigned>*>(context);
        return 0;
    }
    /// Counts events of port a from now until the test's end.
    void listen(rte_eth_event_type type) {
        ASSERT_EQ(rte_eth_dev_callback_register(a_, type, count, &events_), 0);
        type_ = type;
    }
    bool wait_for_events(unsigned wanted) const {
        const auto begun = std::chrono::steady_clock::now();
        while (events_ < wanted) {
            if (std::chrono::steady_clock::now() - begun > std::chrono::milliseconds{long_enough_ms})
                return false;
            std::this_thread::yield();
        }
        return true;
    }
    void TearDown() override {
        if (type_ != RTE_ETH_EVENT_UNKNOWN) rte_eth_dev_callback_unregister(a_, type_, count, &events_);
        EthdevTest::TearDown();
    }
    static bool is_up(std::uint16_t port) {
        rte_eth_link link{};
        return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
    }

    std::atomic<unsigned> events_{};
    rte_eth_event_type type_{RTE_ETH_EVENT_UNKNOWN};
};

TEST_F(EthdevInterrupt, SleeperIsWokenForEachFrameAndAtOnceIfOneIsThereAlready) {
    bring_up_asking(false, true);
    bring_up(b_);
    int mark = 0;
    ASSERT_EQ(rte_eth_dev_rx_intr_ctl(a_, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, &mark), 0);
    for (std::uint64_t round = 0; round < 200; ++round) {
        const bool early = round % 2 == 0;
        if (early) send(b_, {frame({.number = round, .bytes = 300})});
        if (early && round % 4 == 0)
            while (rte_eth_rx_queue_count(a_, 0) == 0)
                rte_pause();
        ASSERT_EQ(rte_eth_dev_rx_intr_enable(a_, 0), 0);
        if (!early) send(b_, {frame({.number = round, .bytes = 300})});
        rte_epoll_event event{};
        ASSERT_EQ(rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, long_enough_ms), 1) << "round " << round;
        EXPECT_EQ(event.epdata.data, &mark);
        ASSERT_EQ(rte_eth_dev_rx_intr_disable(a_, 0), 0);
        std::vector<rte_mbuf*> got = receive(a_, 1);
        ASSERT_EQ(got.size(), 1U);
        EXPECT_TRUE(is_intact(got[0], {.number = round, .bytes = 300}));
        rte_pktmbuf_free(got[0]);
    }
    rte_epoll_event event{};
    ASSERT_EQ(rte_eth_dev_rx_intr_enable(a_, 0), 0);
    EXPECT_EQ(rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, 0), 0) << "woken for nothing";
}

TEST_F(EthdevInterrupt, StoppedWithAnInterruptArmedAndStartedAgainTheSleeperIsWoken) {
    bring_up(b_);
    for (unsigned round = 0; round < 3; ++round) {
        bring_up_asking(false, true);
        ASSERT_EQ(rte_eth_dev_rx_intr_ctl_q(a_, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr), 0);
        ASSERT_EQ(rte_eth_dev_rx_intr_enable(a_, 0), 0);
        send(b_, {frame({.number = round})});
        rte_epoll_event event{};
        EXPECT_EQ(rte_epoll_wait(RTE_EPOLL_PER_THREAD, &event, 1, long_enough_ms), 1);
        ASSERT_EQ(rte_eth_dev_rx_intr_enable(a_, 0), 0);
        ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    }
}

TEST_F(EthdevInterrupt, ReceiveInterruptNobodyAskedForIsRefused) {
    bring_up(a_);
    EXPECT_EQ(rte_eth_dev_rx_intr_enable(a_, 0), -ENOTSUP);
    EXPECT_LT(rte_eth_dev_rx_intr_ctl(a_, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr), 0);
}

TEST_F(EthdevInterrupt, LinkThatGoesDownAndUpIsToldOfTwice) {
    const auto set_link = swhca<int (*)(const char*, int)>("swhca_set_link");
    ASSERT_NE(set_link, nullptr);
    bring_up_asking(true, false);
    bring_up(b_);
    listen(RTE_ETH_EVENT_INTR_LSC);
    EXPECT_TRUE(is_up(a_));
    ASSERT_EQ(set_link("mlx5_0", 0), 0);
    EXPECT_TRUE(wait_for_events(1));
    EXPECT_FALSE(is_up(a_));
    ASSERT_EQ(set_link("mlx5_0", 1), 0);
    EXPECT_TRUE(wait_for_events(2));
    EXPECT_TRUE(is_up(a_));
    expect_traffic(0, 100);
}

/// The device stays away: in a process of its own.
class EthdevRemoval : public EthdevInterrupt {};

TEST_F(EthdevRemoval, DeviceThatIsRemovedIsToldOf) {
    const auto fault = swhca<int (*)(const char*)>("swhca_fault");
    ASSERT_NE(fault, nullptr);
    bring_up_asking(true, false);
    listen(RTE_ETH_EVENT_INTR_RMV);
    ASSERT_EQ(fault("mlx5_0 remove"), 0);
    EXPECT_TRUE(wait_for_events(1));
    EXPECT_EQ(rte_eth_dev_is_removed(a_), 1);
}

TEST_F(EthdevInterrupt, ApplicationThatHoldsPacketsIsToldBeforeTheyAreCopied) {
    bring_up(a_);
    bring_up(b_);
    if (!attaches(a_)) {
        EXPECT_EQ(rte_eth_rx_avail_thresh_set(a_, 0, 50), -ENOTSUP);
        GTEST_SKIP() << "the device has no striding RQ";
    }
    listen(RTE_ETH_EVENT_RX_AVAIL_THRESH);
    for (unsigned round = 0; round < 2; ++round) {
        ASSERT_EQ(rte_eth_rx_avail_thresh_set(a_, 0, 50), 0);
        const std::uint64_t copied = xstat(a_, "rx_copied_no_spare");
        std::vector<rte_mbuf*> held;
        std::uint16_t queue = 0;
        std::uint8_t percent = 0;
        int found = 0;
        while (found == 0 && held.size() < 4000) {
            send(b_, {frame({.bytes = 900})});
            std::vector<rte_mbuf*> got = receive(a_, 1);
            held.insert(held.end(), got.begin(), got.end());
            found = rte_eth_rx_avail_thresh_query(a_, &queue, &percent);
        }
        EXPECT_EQ(found, 1);
        EXPECT_EQ(queue, 0);
        EXPECT_EQ(percent, 50);
        EXPECT_EQ(xstat(a_, "rx_copied_no_spare"), copied) << "told too late";
        EXPECT_TRUE(wait_for_events(round + 1));
        EXPECT_EQ(rte_eth_rx_avail_thresh_query(a_, &queue, &percent), 0);
        rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
    }
    EXPECT_EQ(events_, 2U);
}

} // namespace
} // namespace stride::test
