// SPDX-License-Identifier: BSD-3-Clause
/// Who holds a buffer: packets that the application keeps, empty pools, queues that go away first.
#include "lcore_of_thread.hpp"
#include "rx_fixture.hpp"

#include <rte_lcore.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

namespace stride::mprq::test {
namespace {

class Ownership : public RxFixture {};

TEST_F(Ownership, PacketsHeldOutliveStopAndDestruction) {
    set_up({});
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 10; ++n) {
        ASSERT_TRUE(send(n, 900));
        for (rte_mbuf* m : burst())
            held.push_back(m);
    }
    std::weak_ptr<const void> device = hca->keeper;
    hca->reset();
    queue->stop();
    queue.reset();
    hca.reset();
    EXPECT_EQ(StridePool::alive(), 1U);
    EXPECT_FALSE(device.expired());
    for (std::uint32_t n = 0; n < held.size(); ++n) {
        EXPECT_FALSE(device.expired());
        expect_packet(held[n], n, 900);
        rte_pktmbuf_free(held[n]);
    }
    EXPECT_EQ(StridePool::alive(), 0U);
    EXPECT_TRUE(device.expired());
}

TEST_F(Ownership, StopLeavesNoMbufOfThePoolBehind) {
    set_up({});
    for (std::uint32_t n = 0; n < 6; ++n)
        ASSERT_TRUE(send(n, 500));
    std::vector<rte_mbuf*> packets = burst(3);
    free_all(packets);
    hca->reset();
    queue->stop();
    EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
    EXPECT_EQ(queue->stats().discarded_at_stop, 3U);
    expect_sums_up(6);
}

TEST_F(Ownership, RestartInTheMiddleOfAWqeWithStridesHeldLosesNothing) {
    set_up({.spare_wqes = 1});
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    std::uint32_t n = 0;
    for (int restart = 0; restart < 100; ++restart) {
        for (int packet = 0; packet < 3 + restart % 20; ++packet, ++n) {
            ASSERT_TRUE(send(n, 600));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U);
            expect_packet(packets[0], n, 600);
            if (packet % 3 == 0)
                held.emplace_back(packets[0], n);
            else
                rte_pktmbuf_free(packets[0]);
        }
        hca->reset();
        queue->stop();
        ASSERT_TRUE(queue->start().ok()) << restart;
        hca->ready = true;
        if (restart % 7 != 6) continue;
        for (const auto& [m, number] : held) {
            expect_packet(m, number, 600);
            rte_pktmbuf_free(m);
        }
        held.clear();
    }
    for (const auto& [m, number] : held)
        rte_pktmbuf_free(m);
}

TEST_F(Ownership, StopAtAndAroundAWqeBoundaryFreesEachBufferOnce) {
    for (std::uint32_t packets_sent = 14; packets_sent <= 18; ++packets_sent) {
        set_up({});
        for (std::uint32_t n = 0; n < packets_sent; ++n)
            ASSERT_TRUE(send(n, 200));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), packets_sent);
        hca->reset();
        queue->stop();
        queue->stop();
        free_all(packets);
        EXPECT_EQ(queue->stats().buffers_held, 0U);
        EXPECT_EQ(queue->stats().buffers_spare, shape.buffers());
        TearDown();
        pool = nullptr;
    }
}

TEST_F(Ownership, WithoutASparePacketsAreCopiedAndAttachedAgainWhenBuffersComeHome) {
    set_up({.spare_wqes = 2, .mbufs = 511});
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    std::uint32_t n = 0;
    // Hold one packet of every WQE: 4 packets of 900 bytes fill one.
    for (; n < 80; ++n) {
        ASSERT_TRUE(send(n, 900)) << "stalled at " << n;
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 900);
        if (n % 4 == 1)
            held.emplace_back(packets[0], n);
        else
            rte_pktmbuf_free(packets[0]);
    }
    RxStats stats = queue->stats();
    EXPECT_EQ(stats.attached, 8U);
    EXPECT_EQ(stats.copied_no_spare, 72U);
    EXPECT_EQ(stats.buffers_held, 2U);
    EXPECT_EQ(stats.buffers_spare, 0U);
    for (const auto& [m, number] : held) {
        expect_packet(m, number, 900);
        rte_pktmbuf_free(m);
    }
    queue->reset_stats();
    for (; n < 88; ++n) {
        ASSERT_TRUE(send(n, 900));
        std::vector<rte_mbuf*> packets = burst();
        free_all(packets);
    }
    stats = queue->stats();
    EXPECT_EQ(stats.attached, 8U);
    EXPECT_EQ(stats.buffers_spare, 2U);
}

TEST_F(Ownership, BufferThatComesHomeInTheMiddleOfAWqeLetsTheRestBeAttached) {
    set_up({.spare_wqes = 1});
    for (std::uint32_t n = 0; n < 5; ++n)
        ASSERT_TRUE(send(n, 900));
    std::vector<rte_mbuf*> first = burst(); // 4 of the first WQE, 1 of the second
    EXPECT_EQ(queue->stats().copied_no_spare, 1U);
    free_all(first);
    ASSERT_TRUE(send(5, 900));
    std::vector<rte_mbuf*> second = burst();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_TRUE(is_attached(second[0]));
    free_all(second);
}

TEST_F(Ownership, WithoutAnySpareBufferEverythingIsCopiedAndNothingStalls) {
    set_up({.spare_wqes = 0});
    for (std::uint32_t n = 0; n < 100; ++n) {
        ASSERT_TRUE(send(n, 1000));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 1000);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().copied_no_spare, 100U);
}

TEST_F(Ownership, BuffersAreTakenLastInFirstOut) {
    set_up({.spare_wqes = 8});
    std::vector<const void*> seen;
    for (std::uint32_t n = 0; n < 200; ++n) {
        ASSERT_TRUE(send(n, 900));
        std::vector<rte_mbuf*> packets = burst();
        seen.push_back(packets[0]->buf_addr);
        free_all(packets);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_EQ(seen.size(), 4U * 5); // four packets in each of the four posted buffers and one spare, no other
}

/// A thread that frees what it is given.
class Freer {
  public:
    explicit Freer(bool lcore)
        : thread_{[this, lcore] { run(lcore); }} {}
    void give(rte_mbuf* m) {
        const std::scoped_lock guard{lock_};
        box_.push_back(m);
    }
    void finish() {
        done_ = true;
        thread_.join();
    }

  private:
    void run(bool lcore) {
        const LcoreOfThread id{lcore};
        for (bool last = false; !last;) {
            last = done_;
            std::vector<rte_mbuf*> mine;
            {
                const std::scoped_lock guard{lock_};
                mine.swap(box_);
            }
            for (rte_mbuf* m : mine)
                rte_pktmbuf_free(m);
            std::this_thread::yield();
        }
    }
    std::mutex lock_{};
    std::vector<rte_mbuf*> box_{};
    std::atomic<bool> done_{false};
    std::thread thread_;
};

TEST_F(Ownership, PacketsFreedByOtherThreadsBringTheirBuffersHome) {
    set_up({.log_strides = 5, .spare_wqes = 6, .mbufs = 1023});
    Freer freers[3]{Freer{true}, Freer{true}, Freer{false}};
    for (std::uint32_t n = 0; n < 20000; ++n) {
        ASSERT_TRUE(send(n, 200 + n % 1000));
        std::vector<rte_mbuf*> packets = burst();
        for (; packets.empty(); packets = burst()) // the mbuf pool may be empty until the others have run
            std::this_thread::yield();
        expect_packet(packets[0], n, 200 + n % 1000);
        rte_mbuf* const clone = n % 4 == 0 ? rte_pktmbuf_clone(packets[0], pool) : nullptr;
        if (clone != nullptr) freers[n / 4 % 3].give(clone);
        if (n % 7 == 0)
            free_all(packets);
        else
            freers[n % 3].give(packets[0]);
        if (n % 5000 == 4999) {
            hca->reset();
            queue->stop();
            ASSERT_TRUE(queue->start().ok());
            hca->ready = true;
        }
    }
    for (Freer& freer : freers)
        freer.finish();
    hca->reset();
    queue->stop();
    EXPECT_GT(queue->stats().attached, 0U);
    EXPECT_EQ(queue->stats().buffers_held, 0U);
    EXPECT_EQ(queue->stats().buffers_spare, shape.buffers());
}

TEST_F(Ownership, OtherThreadsFreeWhileTheQueueGoes) {
    for (int round = 0; round < 100; ++round) {
        set_up({});
        std::vector<rte_mbuf*> packets;
        for (std::uint32_t n = 0; n < 12; ++n)
            ASSERT_TRUE(send(n, 900));
        packets = burst();
        Freer first{true}, second{false};
        for (std::size_t n = 0; n < packets.size(); ++n)
            (n % 2 == 0 ? first : second).give(packets[n]);
        hca->reset();
        queue->stop();
        queue.reset();
        first.finish();
        second.finish();
        EXPECT_EQ(StridePool::alive(), 0U);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(Ownership, BuffersFreedAfterTheQueueIsGoneAreLetGoOfThoughNobodyAsks) {
    set_up({});
    ASSERT_TRUE(send(0, 900));
    std::vector<rte_mbuf*> packets = burst();
    std::weak_ptr<const void> device = hca->keeper;
    hca->reset();
    queue->stop();
    queue.reset();
    hca.reset();
    EXPECT_FALSE(device.expired());
    free_all(packets);
    while (!device.expired()) // the alarm comes, or the test never ends
        std::this_thread::yield();
}

TEST_F(Ownership, BuffersThatCameHomeUnnoticedAreNotHeld) {
    set_up({.spare_wqes = 6});
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 20; ++n) { // five WQEs of four
        ASSERT_TRUE(send(n, 900));
        for (rte_mbuf* m : burst())
            held.push_back(m);
    }
    EXPECT_EQ(queue->stats().buffers_held, 5U);
    for (std::size_t n = 4; n < 16; ++n)
        rte_pktmbuf_free(held[n]);
    EXPECT_EQ(queue->stats().buffers_held, 2U);
    EXPECT_EQ(queue->stats().buffers_spare, 4U);
    held.erase(held.begin() + 4, held.begin() + 16);
    free_all(held);
    EXPECT_EQ(queue->stats().buffers_held, 0U);
}

TEST_F(Ownership, SpareBuffersAreLowOnlyIfAllThatCameHomeAreCounted) {
    setup = {.spare_wqes = 40, .mbufs = 511};
    make_pool();
    shape = {
        .log_stride_bytes = 8, .log_strides = 4, .log_wqes = 2, .spare_wqes = 40, .max_frame_bytes = 2000};
    hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
    static int told;
    told = 0;
    RxQueueConfig wanted = config();
    wanted.owner.spare_low = [](void*) noexcept { ++told; };
    Result<RxQueuePtr> made = RxQueue::create_striding(wanted, shape, hca->cq_ring, hca->rq_ring);
    ASSERT_TRUE(made.ok());
    queue = std::move(made).value();
    ASSERT_TRUE(queue->start().ok());
    std::vector<rte_mbuf*> held;
    const auto receive_wqes = [&](int wqes) {
        for (int n = 0; n < 4 * wqes; ++n) {
            ASSERT_TRUE(send(0, 900));
            for (rte_mbuf* m : burst())
                held.push_back(m);
        }
    };
    receive_wqes(30);
    for (int n = 20; n < 100; ++n) // those in the middle come home
        rte_pktmbuf_free(held[static_cast<std::size_t>(n)]);
    held.erase(held.begin() + 20, held.begin() + 100);
    queue->watch_spare(50);
    receive_wqes(5);
    EXPECT_EQ(told, 0) << "20 of 40 came home, 15 are held";
    receive_wqes(15);
    EXPECT_EQ(told, 1);
    free_all(held);
}

TEST_F(Ownership, CloneOutlivesPacketQueueAndTheMbufThatPointedAtTheBuffer) {
    set_up({});
    ASSERT_TRUE(send(0, 900));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    rte_mbuf* const first = rte_pktmbuf_clone(packets[0], pool);
    rte_mbuf* const second = rte_pktmbuf_clone(first, pool);
    ASSERT_NE(second, nullptr);
    free_all(packets);
    hca->reset();
    queue->stop();
    queue.reset();
    hca.reset();
    // Whoever takes the mbuf now writes over all of it.
    std::vector<rte_mbuf*> others;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) {
        std::memset(m->buf_addr, 0x5a, m->buf_len);
        others.push_back(m);
    }
    free_all(others);
    expect_packet(first, 0, 900);
    rte_pktmbuf_free(first);
    EXPECT_EQ(StridePool::alive(), 1U) << "another clone is out";
    expect_packet(second, 0, 900);
    rte_pktmbuf_free(second);
    EXPECT_EQ(StridePool::alive(), 0U);
}

TEST_F(Ownership, ClonesCountOnceAtTheEnd) {
    set_up({.spare_wqes = 1});
    ASSERT_TRUE(send(0, 900));
    std::vector<rte_mbuf*> packets = burst();
    rte_mbuf* clone = rte_pktmbuf_clone(packets[0], pool);
    ASSERT_NE(clone, nullptr);
    free_all(packets);
    expect_packet(clone, 0, 900);
    rte_pktmbuf_free(clone);
    hca->reset();
    queue->stop();
    EXPECT_EQ(queue->stats().buffers_held, 0U);
}

TEST_F(Ownership, EmptyPoolLeavesPacketsInTheCqAndLosesNone) {
    set_up({.log_strides = 5, .mbufs = 15});
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 40; ++n)
        ASSERT_TRUE(send(n, 300));
    for (rte_mbuf* m : burst())
        held.push_back(m);
    ASSERT_EQ(held.size(), 15U);
    EXPECT_TRUE(burst().empty());
    EXPECT_GE(queue->stats().mbuf_shortages, 1U);
    EXPECT_EQ(queue->ready_packets(), 25U);
    std::uint32_t n = 0;
    while (n < 40) {
        for (rte_mbuf* m : held)
            expect_packet(m, n++, 300);
        free_all(held);
        held = burst();
    }
    EXPECT_EQ(queue->stats().dropped(), 0U);
    expect_sums_up(40);
}

TEST_F(Ownership, HoldingEverythingStopsAtThePoolAndGoesOnAfterwards) {
    set_up({.log_strides = 5, .spare_wqes = 2, .mbufs = 200});
    std::vector<rte_mbuf*> held;
    std::uint32_t sent = 0;
    std::uint32_t next = 0;
    for (int round = 0; round < 400; ++round) {
        if (send(sent, 500)) ++sent;
        for (rte_mbuf* m : burst())
            held.push_back(m);
    }
    EXPECT_EQ(held.size(), 200U);
    for (int rest = 0; rest < 10 || !held.empty(); ++rest) {
        for (rte_mbuf* m : held)
            expect_packet(m, next++, 500);
        free_all(held);
        held = burst();
    }
    EXPECT_EQ(next, sent);
    expect_sums_up(sent);
}

TEST_F(Ownership, FailedRegistrationLeavesNothing) {
    set_up({});
    hca->fail_registration = true;
    Result<RxQueuePtr> second = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ENOMEM);
    EXPECT_EQ(StridePool::alive(), 1U);
}

} // namespace
} // namespace stride::mprq::test
