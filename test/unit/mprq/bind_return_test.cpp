// SPDX-License-Identifier: BSD-3-Clause
/// How mbufs of a bound pool go back to it when their queue stops and is destroyed.
#include "bind_fixture.hpp"

#include <rte_lcore.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

namespace stride::mprq::test {
namespace {

TEST_F(BindPoolTest, MempoolIsWholeAgainWhenTheQueueIsGone) {
    for (int round = 0; round < 20; ++round) {
        set_up(bound());
        EXPECT_LT(rte_mempool_avail_count(pool), setup.mbufs);
        for (std::uint32_t n = 0; n < 40; ++n)
            ASSERT_TRUE(send(n, 700));
        std::vector<rte_mbuf*> packets = burst();
        free_all(packets);
        stop_and_destroy();
        EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
        EXPECT_EQ(rte_mempool_obj_iter(
                      pool, [](rte_mempool*, void*, void*, unsigned) {}, nullptr),
                  setup.mbufs);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(BindPoolTest, MempoolIsWholeWithMbufsInTheCachesOfLcores) {
    for (const std::uint32_t packets : {1U, 20U, 63U, 400U, 1000U}) {
        QueueSetup wanted = bound();
        wanted.cache = 64;
        set_up(wanted);
        for (std::uint32_t n = 0; n < packets; ++n) {
            ASSERT_TRUE(send(n, n % 7 == 0 ? 5000 : 700)); // some too long
            std::vector<rte_mbuf*> received = burst();
            free_all(received);
        }
        ASSERT_TRUE(send(0, 5000)); // nobody looks at it
        stop_and_destroy();
        expect_whole();
        TearDown();
        pool = nullptr;
    }
}

TEST_F(BindPoolTest, MbufsThatNothingRanOverComeBackWithTheirPrivateAreas) {
    QueueSetup wanted = bound();
    wanted.private_bytes = 64;
    wanted.data_room_bytes = 1728;
    set_up(wanted);
    stop_and_destroy();
    const auto fill = [](rte_mempool*, void*, void* m, unsigned) {
        std::memset(rte_mbuf_to_priv(static_cast<rte_mbuf*>(m)), 0x77, 64);
    };
    rte_mempool_obj_iter(pool, fill, nullptr);
    hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
    Result<RxQueuePtr> made = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
    ASSERT_TRUE(made.ok());
    queue = std::move(made).value();
    EXPECT_STREQ(queue->policy(), "bind");
    stop_and_destroy();
    expect_whole();
    std::uint32_t changed = 0;
    const auto count = [](rte_mempool*, void* changes, void* m, unsigned) {
        const auto* area = static_cast<const std::uint8_t*>(rte_mbuf_to_priv(static_cast<rte_mbuf*>(m)));
        if (area[0] != 0x77 || area[63] != 0x77) ++*static_cast<std::uint32_t*>(changes);
    };
    rte_mempool_obj_iter(pool, count, &changed);
    EXPECT_EQ(changed, 0U);
}

TEST_F(BindPoolTest, PacketsHeldOutliveTheQueueAndTheirNeighboursAreBackAtOnce) {
    set_up(bound());
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 40; ++n)
        ASSERT_TRUE(send(n, 800));
    held = burst();
    ASSERT_EQ(held.size(), 40U);
    for (std::uint32_t n = 0; n < 40; ++n)
        if (n != 20) rte_pktmbuf_free(held[n]);
    stop_and_destroy();
    EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs - 1);
    EXPECT_EQ(StridePool::alive(), 1U);
    std::vector<rte_mbuf*> others;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) {
        EXPECT_TRUE(is_bound(m));
        std::memset(m->buf_addr, 0xee, m->buf_len);
        others.push_back(m);
    }
    EXPECT_EQ(others.size(), setup.mbufs - 1);
    expect_packet(held[20], 20, 800);
    others.push_back(held[20]); // freed together with its neighbours, which are another's now
    free_all(others);
    EXPECT_EQ(StridePool::alive(), 0U);
    expect_whole();
}

TEST_F(BindPoolTest, BuffersSplitUpAreClaimedAgainWhilePacketsOfTheOldOnesComeBack) {
    QueueSetup wanted = bound();
    wanted.cache = 32;
    set_up(wanted);
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 12; ++n) {
        ASSERT_TRUE(send(n, 700));
        held.push_back(burst().at(0));
    }
    for (std::uint32_t n = 0; n < 6; ++n)
        rte_pktmbuf_free(held[n]); // into the cache; claims flush it
    held.erase(held.begin(), held.begin() + 6);
    stop_and_destroy();
    hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
    Result<RxQueuePtr> made = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
    ASSERT_TRUE(made.ok());
    queue = std::move(made).value();
    EXPECT_STREQ(queue->policy(), "bind");
    ASSERT_TRUE(queue->start().ok());
    for (std::uint32_t n = 0; n < 500; ++n) {
        ASSERT_TRUE(send(n, 800));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 800);
        if (n % 80 == 40) {
            expect_packet(held.back(), 6 + static_cast<std::uint32_t>(held.size()) - 1, 700);
            packets.push_back(held.back()); // old and new ones mixed
            held.pop_back();
        }
        rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
    }
    EXPECT_TRUE(held.empty());
    stop_and_destroy();
    expect_whole();
    EXPECT_EQ(StridePool::alive(), 0U);
}

TEST_F(BindPoolTest, OtherThreadsFreeWhileTheQueueGoes) {
    for (int round = 0; round < 200; ++round) {
        set_up(bound());
        std::vector<rte_mbuf*> halves[2];
        for (std::uint32_t n = 0; n < 60; ++n) {
            ASSERT_TRUE(send(n, 700));
            halves[n % 2].push_back(burst().at(0));
        }
        std::atomic<int> ready{0};
        const auto work = [&](std::vector<rte_mbuf*>& mine) {
            for (++ready; ready != 3;)
                std::this_thread::yield();
            for (rte_mbuf* m : mine)
                rte_pktmbuf_free(m);
        };
        std::thread first{work, std::ref(halves[0])}, second{work, std::ref(halves[1])};
        hca->reset();
        for (++ready; ready != 3;)
            std::this_thread::yield();
        queue->stop();
        queue.reset();
        first.join();
        second.join();
        EXPECT_EQ(StridePool::alive(), 0U);
        expect_whole();
        TearDown();
        pool = nullptr;
    }
}

TEST_F(BindPoolTest, MempoolMayBeFreedWhilePacketsAreStillOut) {
    set_up(bound());
    ASSERT_TRUE(send(0, 800));
    std::vector<rte_mbuf*> held = burst();
    std::weak_ptr<const void> device = hca->keeper;
    stop_and_destroy();
    hca.reset();
    EXPECT_FALSE(device.expired());
    rte_mempool_free(std::exchange(pool, nullptr));
    EXPECT_TRUE(device.expired());
}

TEST_F(BindPoolTest, LongFramesThatNobodyPolledLeaveWholeMbufsAtStop) {
    set_up(bound());
    for (int n = 0; n < 10; ++n)
        ASSERT_TRUE(send(1000, 5000));
    stop_and_destroy();
    std::vector<rte_mbuf*> all;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool))
        all.push_back(m);
    EXPECT_EQ(all.size(), setup.mbufs);
    for (rte_mbuf* m : all)
        EXPECT_TRUE(is_bound(m));
    free_all(all);
}

TEST_F(BindPoolTest, LongFramesThatNobodyPolledAreNoPacketsHeadersAfterARestart) {
    set_up(bound());
    std::vector<rte_mbuf*> held;
    for (std::uint32_t round = 0; round < 60; ++round) {
        for (std::uint32_t n = 0; n < 3; ++n)
            ASSERT_TRUE(send(n, 700));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 3U);
        held.push_back(packets[round % 3]);
        packets.erase(packets.begin() + round % 3);
        free_all(packets);
        for (std::uint32_t n = 0; n < round % 12; ++n)
            hca->receive(frame_of(77, 5000)); // nobody looks at it
        hca->reset();
        queue->stop();
        ASSERT_TRUE(queue->start().ok());
        hca->ready = true;
        for (std::uint32_t n = 0; n < 16; ++n)
            ASSERT_TRUE(send(n, 700));
        packets = burst();
        ASSERT_EQ(packets.size(), 16U);
        for (std::uint32_t n = 0; n < 16; ++n)
            expect_packet(packets[n], n, 700);
        free_all(packets);
        if (held.size() == 7) free_all(held);
    }
    free_all(held);
    stop_and_destroy();
    expect_whole();
}

TEST_F(BindPoolTest, RestartsWithPacketsHeldBindAgain) {
    set_up(bound());
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    std::uint32_t n = 0;
    for (int restart = 0; restart < 60; ++restart) {
        for (int packet = 0; packet < 3 + restart % 20; ++packet, ++n) {
            ASSERT_TRUE(send(n, 600));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U);
            if (packet == 0 && restart % 4 == 0)
                held.emplace_back(packets[0], n);
            else
                free_all(packets);
        }
        stop_and_destroy();
        hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
        Result<RxQueuePtr> made = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
        ASSERT_TRUE(made.ok());
        queue = std::move(made).value();
        EXPECT_STREQ(queue->policy(), "bind");
        ASSERT_TRUE(queue->start().ok());
        if (held.size() < 4) continue;
        for (const auto& [m, number] : held) {
            expect_packet(m, number, 600);
            rte_pktmbuf_free(m);
        }
        held.clear();
    }
    for (const auto& [m, number] : held)
        rte_pktmbuf_free(m);
}

TEST_F(BindPoolTest, FailedRegistrationGivesTheMbufsBack) {
    setup = bound();
    make_pool();
    setup.log_stride_bytes = 11;
    shape = {
        .log_stride_bytes = 11, .log_strides = 4, .log_wqes = 2, .spare_wqes = 4, .max_frame_bytes = 1522};
    hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
    hca->fail_registration = true;
    EXPECT_FALSE(RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring).ok());
    EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
}

} // namespace
} // namespace stride::mprq::test
