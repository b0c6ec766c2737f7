// SPDX-License-Identifier: BSD-3-Clause
/// The queue for devices without striding.
#include "rx_fixture.hpp"

#include <bit>

namespace stride::mprq::test {
namespace {

class SinglePacketQueue : public RxFixture {
  protected:
    void set_up_single(const QueueSetup& wanted) {
        setup = wanted;
        make_pool();
        sges = 1;
        hca = std::make_unique<FakeHca>(4, 4, 4);
        if (setup.scatter) {
            Result<std::uint32_t> needed = RxQueue::single_packet_sges(config());
            ASSERT_TRUE(needed.ok());
            sges = needed.value();
            hca = std::make_unique<FakeHca>(4, 4 + static_cast<std::uint32_t>(std::countr_zero(sges)), 4);
        }
        Result<RxQueuePtr> made = RxQueue::create_single_packet(config(), hca->cq_ring, hca->rq_ring);
        ASSERT_TRUE(made.ok()) << made.error().what;
        queue = std::move(made).value();
        ASSERT_TRUE(queue->start().ok());
    }
    bool send_single(std::uint32_t n, std::uint32_t bytes) {
        return hca->receive_single(frame_of(n, bytes), sges);
    }

    std::uint32_t sges{1};
};

TEST_F(SinglePacketQueue, PacketsArriveOverManyRounds) {
    set_up_single({});
    for (std::uint32_t n = 0; n < 300; ++n) {
        ASSERT_TRUE(send_single(n, 60 + n * 6));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 60 + n * 6);
        free_all(packets);
    }
    expect_sums_up(300);
    EXPECT_EQ(queue->stats().direct, 300U);
}

TEST_F(SinglePacketQueue, LongPacketsAreChained) {
    set_up_single({.max_frame_bytes = 9022, .scatter = true});
    for (std::uint32_t n = 0; n < 100; ++n) {
        ASSERT_TRUE(send_single(n, 60 + n * 89));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 60 + n * 89);
        EXPECT_EQ(packets[0]->nb_segs, (60 + n * 89 + 2047) / 2048);
        free_all(packets);
    }
}

TEST_F(SinglePacketQueue, EmptyPoolLeavesPacketsInTheCq) {
    for (const bool scatter : {false, true}) {
        set_up_single(
            {.max_frame_bytes = scatter ? 4000U : 2000U, .mbufs = scatter ? 36U : 20U, .scatter = scatter});
        const std::uint32_t bytes = scatter ? 4000 : 500;
        std::vector<rte_mbuf*> held;
        for (std::uint32_t n = 0; n < 16; ++n)
            ASSERT_TRUE(send_single(n, bytes));
        for (std::vector<rte_mbuf*> packets = burst(); !packets.empty(); packets = burst())
            held.insert(held.end(), packets.begin(), packets.end());
        EXPECT_EQ(held.size(), scatter ? 2U : 4U);
        std::uint32_t n = 0;
        while (!held.empty()) {
            for (rte_mbuf* m : held)
                expect_packet(m, n++, bytes);
            free_all(held);
            held = burst();
        }
        EXPECT_EQ(n, 16U);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(SinglePacketQueue, RestartAHundredTimesLeavesThePoolAsItWas) {
    set_up_single({});
    for (std::uint32_t n = 0; n < 100; ++n) {
        ASSERT_TRUE(send_single(n, 500));
        if (n % 2 == 0) {
            std::vector<rte_mbuf*> packets = burst();
            free_all(packets);
        }
        hca->reset();
        queue->stop();
        ASSERT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
        ASSERT_TRUE(queue->start().ok());
        hca->ready = true;
    }
}

TEST_F(SinglePacketQueue, MissingKeyIsCountedAndThePacketWaits) {
    set_up_single({});
    ASSERT_TRUE(send_single(0, 700));
    hca->no_keys = true;
    EXPECT_TRUE(burst().empty());
    EXPECT_EQ(queue->stats().key_misses, 2U); // of the new mbuf, and of the old one, put back as it was
    hca->no_keys = false;
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    expect_packet(packets[0], 0, 700);
    free_all(packets);
}

TEST_F(SinglePacketQueue, QueueInErrorIsRecoveredAndFailedRecoveryTriedAgain) {
    for (const bool fails : {false, true}) {
        set_up_single({});
        ASSERT_TRUE(send_single(0, 700));
        std::vector<rte_mbuf*> held = burst();
        hca->fail_reset = fails;
        hca->error(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
        for (int poll = 0; poll < 2000; ++poll)
            ASSERT_TRUE(burst().empty());
        hca->fail_reset = false;
        for (int poll = 0; poll < 5000; ++poll)
            ASSERT_TRUE(burst().empty());
        EXPECT_EQ(queue->stats().failed_recoveries != 0, fails);
        for (std::uint32_t n = 0; n < 100; ++n) {
            ASSERT_TRUE(send_single(n, 600));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U);
            expect_packet(packets[0], n, 600);
            free_all(packets);
        }
        expect_packet(held[0], 0, 700);
        free_all(held);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(SinglePacketQueue, PoolTooSmallForTheRingIsAClearError) {
    set_up_single({.mbufs = 16});
    hca->reset();
    queue->stop();
    rte_mbuf* taken = rte_pktmbuf_alloc(pool);
    const Status status = queue->start();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ENOMEM);
    rte_pktmbuf_free(taken);
}

TEST_F(SinglePacketQueue, FrameLongerThanAnMbufNeedsScatter) {
    set_up_single({});
    RxQueueConfig wanted = config();
    wanted.max_frame_bytes = 2049;
    EXPECT_FALSE(RxQueue::single_packet_sges(wanted).ok());
    wanted.scatter = true;
    EXPECT_EQ(RxQueue::single_packet_sges(wanted).value(), 2U);
}

} // namespace
} // namespace stride::mprq::test
