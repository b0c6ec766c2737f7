// SPDX-License-Identifier: BSD-3-Clause
/// Mempool ops "stride": an ordinary pool, and one whose mbufs are strides.
#include "bind_fixture.hpp"
#include "lcore_of_thread.hpp"

#include <rte_eal.h>
#include <rte_lcore.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace stride::mprq::test {
namespace {

TEST_F(BindPoolTest, PoolThatNoQueueClaimedIsLikeAnyOther) {
    setup = {.mbufs = 300, .pool_ops = "stride", .private_bytes = 64, .cache = 32};
    make_pool();
    std::set<const rte_mbuf*> seen;
    std::vector<rte_mbuf*> taken;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) {
        EXPECT_TRUE(seen.insert(m).second);
        EXPECT_TRUE(is_bound(m));
        EXPECT_EQ(rte_pktmbuf_tailroom(m), setup.data_room_bytes - RTE_PKTMBUF_HEADROOM);
        std::memset(rte_mbuf_to_priv(m), 0x11, setup.private_bytes);
        std::memset(m->buf_addr, 0x5a, m->buf_len);
        taken.push_back(m);
    }
    EXPECT_EQ(taken.size(), 300U);
    for (const rte_mbuf* m : taken) {
        const char* why = nullptr;
        EXPECT_EQ(rte_mbuf_check(m, 1, &why), 0) << why;
        EXPECT_EQ(*static_cast<const std::uint8_t*>(rte_mbuf_to_priv(const_cast<rte_mbuf*>(m))), 0x11);
    }
    free_all(taken);
    std::uint32_t walked = rte_mempool_obj_iter(
        pool, [](rte_mempool*, void*, void*, unsigned) {}, nullptr);
    EXPECT_EQ(walked, 300U);
}

TEST_F(BindPoolTest, PoolOfExternalBuffersWorksWithTheseOpsAndIsNotBound) {
    std::vector<std::byte> memory(64 * 4096);
    rte_pktmbuf_extmem where{memory.data(), RTE_BAD_IOVA, memory.size(), 2048};
    rte_mempool* pinned = rte_pktmbuf_pool_create_extbuf("pinned", 63, 0, 0, 2048, -1, &where, 1);
    ASSERT_NE(pinned, nullptr);
    EXPECT_EQ(BindPool::of(pinned), nullptr);
    rte_mempool_free(pinned);
}

TEST_F(BindPoolTest, LayoutsKeepTheRoomThatWasAskedFor) {
    for (const std::uint32_t room : {320U, 640U, 1664U, 1792U, 2048U, 2176U, 3000U, 7000U})
        for (const std::uint32_t priv : {0U, 64U, 256U}) {
            const auto layout = BindLayout::of({64, 0, priv, room});
            ASSERT_TRUE(layout) << room;
            for (std::uint32_t slot = 0; slot < layout->colours(); ++slot) {
                const std::uint32_t m = layout->mbuf_offset(slot);
                EXPECT_GE(m, 64U);
                EXPECT_EQ(m % 64, 0U);
                EXPECT_LE(m + sizeof(rte_mbuf) + priv + room, layout->pitch_bytes()) << room;
                EXPECT_LE(layout->data_offset + layout->frame_bytes, m + sizeof(rte_mbuf) + priv + room);
            }
        }
    EXPECT_FALSE(BindLayout::of({64, 0, 0, 128}));
    EXPECT_FALSE(BindLayout::of({64, 0, 0, 9216 + 128}));
    EXPECT_EQ(BindLayout::of({64, 0, 0, 1792})->pitch_bytes(), 2048U);
    EXPECT_GE(BindLayout::of({64, 0, 0, 1792})->frame_bytes, 1522U);
    EXPECT_GE(BindLayout::of({64, 0, 0, 2176})->frame_bytes, 1522U);
}

TEST_F(BindPoolTest, PacketsAreMbufsOfThePoolWithTheirWholeHeadroom) {
    set_up(bound());
    EXPECT_STREQ(queue->policy(), "bind");
    for (std::uint32_t n = 0; n < 2000; ++n) {
        const std::uint32_t bytes = 60 + n * 37 % 1463;
        ASSERT_TRUE(send(n, bytes));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, bytes);
        EXPECT_TRUE(is_bound(packets[0]));
        EXPECT_GE(rte_pktmbuf_headroom(packets[0]), RTE_PKTMBUF_HEADROOM);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().attached, 2000U);
    expect_sums_up(2000);
}

TEST_F(BindPoolTest, WritingHeadroomAndTailroomLeavesTheNeighboursAlone) {
    set_up(bound());
    std::vector<rte_mbuf*> packets;
    for (std::uint32_t n = 0; n < 12; ++n)
        ASSERT_TRUE(send(n, 1522));
    packets = burst();
    ASSERT_EQ(packets.size(), 12U);
    for (std::uint32_t n = 0; n < 12; n += 2) {
        rte_mbuf* m = packets[n];
        std::memset(m->buf_addr, 0xee, m->buf_len);
        std::memset(rte_mbuf_to_priv(m), 0xdd, setup.private_bytes);
    }
    for (std::uint32_t n = 1; n < 12; n += 2)
        expect_packet(packets[n], n, 1522);
    free_all(packets);
}

TEST_F(BindPoolTest, MbufsAreAllocatedForSendingFromTheSamePool) {
    QueueSetup wanted = bound();
    wanted.cache = 64;
    set_up(wanted);
    std::vector<rte_mbuf*> out;
    std::uint32_t next = 0;
    for (std::uint32_t n = 0; n < 3000; ++n) {
        if (rte_mbuf* m = rte_pktmbuf_alloc(pool); m != nullptr) {
            std::memset(rte_pktmbuf_append(m, 1500), 0xff, 1500);
            out.push_back(m);
        }
        if (send(n, 900) == false) break;
        std::vector<rte_mbuf*> packets = burst();
        for (rte_mbuf* m : packets)
            expect_packet(m, next++, 900);
        free_all(packets);
        if (out.size() > 40) free_all(out);
    }
    EXPECT_EQ(next, 3000U);
    free_all(out);
}

TEST_F(BindPoolTest, CachesOfLcoresHoldStridesAndNothingStalls) {
    QueueSetup wanted = bound();
    wanted.cache = 128; // 192 mbufs parked at most
    wanted.mbufs = 767;
    set_up(wanted);
    for (std::uint32_t n = 0; n < 20000; ++n) {
        ASSERT_TRUE(send(n, 300)) << n;
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().packets, 20000U);
    expect_sums_up(20000);
}

TEST_F(BindPoolTest, PacketsCopiedDoNotKeepWqeBuffersFromHome) {
    QueueSetup wanted = bound();
    wanted.cache = 64;
    wanted.copy_threshold_bytes = 128;
    wanted.mbufs = 1023;
    wanted.spare_wqes = 12;
    set_up(wanted);
    std::vector<rte_mbuf*> in_flight; // of a send queue
    for (std::uint32_t n = 0; n < 20000; ++n) {
        ASSERT_TRUE(send(n, n % 3 == 0 ? 900 : 64));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        in_flight.push_back(packets[0]);
        if (in_flight.size() < 32) continue;
        rte_pktmbuf_free_bulk(in_flight.data(), 16);
        in_flight.erase(in_flight.begin(), in_flight.begin() + 16);
    }
    free_all(in_flight);
    EXPECT_EQ(queue->stats().copied_no_spare, 0U);
}

TEST_F(BindPoolTest, ClonesOfTheSamePoolWork) {
    set_up(bound());
    for (std::uint32_t n = 0; n < 500; ++n) {
        ASSERT_TRUE(send(n, 900));
        std::vector<rte_mbuf*> packets = burst();
        rte_mbuf* clone = rte_pktmbuf_clone(packets[0], pool);
        ASSERT_NE(clone, nullptr);
        if (n % 2 == 0) free_all(packets);
        expect_packet(clone, n, 900);
        rte_pktmbuf_free(clone);
        free_all(packets);
    }
    stop_and_destroy();
    EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
}

TEST_F(BindPoolTest, PrivateAreasOfMbufsStayThroughClaimAndReceive) {
    QueueSetup wanted = bound();
    wanted.private_bytes = 64;
    wanted.data_room_bytes = 1728;
    setup = wanted;
    set_up(wanted);
    rte_mempool_obj_iter(
        pool,
        [](rte_mempool*, void*, void* m, unsigned) {
            std::memset(rte_mbuf_to_priv(static_cast<rte_mbuf*>(m)), 0x77, 64);
        },
        nullptr);
    ASSERT_TRUE(send(0, 1522) && send(1, 1522));
    std::vector<rte_mbuf*> packets = burst();
    for (rte_mbuf* m : packets)
        std::memset(rte_mbuf_to_priv(m), 0x33, 64);
    expect_packet(packets[0], 0, 1522);
    expect_packet(packets[1], 1, 1522);
    free_all(packets);
}

TEST_F(BindPoolTest, FrameLongerThanAnMbufIsDroppedAndTheHeadersItRanOverAreMadeGood) {
    set_up(bound());
    std::uint32_t n = 0;
    for (int round = 0; round < 30; ++round) {
        ASSERT_TRUE(send(n, 700));
        ASSERT_TRUE(send(1000, 5000)); // three strides
        ASSERT_TRUE(send(n + 1, 1522));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 2U);
        expect_packet(packets[0], n, 700);
        expect_packet(packets[1], n + 1, 1522);
        free_all(packets);
        n += 2;
    }
    EXPECT_EQ(queue->stats().dropped_oversize, 30U);
    stop_and_destroy();
    std::vector<rte_mbuf*> all;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool))
        all.push_back(m);
    EXPECT_EQ(all.size(), setup.mbufs);
    for (rte_mbuf* m : all)
        EXPECT_TRUE(is_bound(m));
    free_all(all);
}

TEST_F(BindPoolTest, QueueInErrorIsRecoveredWithPacketsOut) {
    set_up(bound());
    std::uint32_t n = 0;
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    for (int round = 0; round < 50; ++round) {
        for (int packet = 0; packet < 5; ++packet, ++n) {
            ASSERT_TRUE(send(n, 600));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U);
            if (packet == 3 && held.size() < 3)
                held.emplace_back(packets[0], n);
            else
                free_all(packets);
        }
        hca->error(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 0);
        EXPECT_TRUE(burst().empty());
    }
    EXPECT_EQ(queue->stats().recoveries, 50U);
    for (const auto& [m, number] : held) {
        expect_packet(m, number, 600);
        rte_pktmbuf_free(m);
    }
}

TEST_F(BindPoolTest, WithoutASparePacketsAreCopiedAndBoundAgainWhenBuffersComeHome) {
    QueueSetup wanted = bound();
    wanted.spare_wqes = 2;
    set_up(wanted);
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    std::uint32_t n = 0;
    for (; n < 160; ++n) {
        ASSERT_TRUE(send(n, 900)) << "stalled at " << n;
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        if (n % 16 == 1)
            held.emplace_back(packets[0], n);
        else
            free_all(packets);
    }
    EXPECT_EQ(queue->stats().attached, 32U);
    EXPECT_EQ(queue->stats().copied_no_spare, 128U);
    for (const auto& [m, number] : held) {
        expect_packet(m, number, 900);
        rte_pktmbuf_free(m);
    }
    queue->reset_stats();
    for (std::uint32_t end = n + 16; n < end; ++n) {
        ASSERT_TRUE(send(n, 900));
        std::vector<rte_mbuf*> packets = burst();
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().attached, 16U);
}

TEST_F(BindPoolTest, EmptyPoolDoesNotStopBoundPackets) {
    QueueSetup wanted = bound();
    wanted.copy_threshold_bytes = 128;
    set_up(wanted);
    std::vector<rte_mbuf*> all;
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool))
        all.push_back(m);
    for (std::uint32_t n = 0; n < 200; ++n) {
        ASSERT_TRUE(send(n, n % 2 == 0 ? 64 : 900));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, n % 2 == 0 ? 64 : 900);
        free_all(packets);
    }
    free_all(all);
}

TEST_F(BindPoolTest, PoolTooSmallToClaimIsAttachedTo) {
    QueueSetup wanted = bound();
    wanted.mbufs = 60;
    set_up(wanted);
    EXPECT_STREQ(queue->policy(), "attach");
    ASSERT_TRUE(send(0, 900));
    std::vector<rte_mbuf*> packets = burst();
    expect_packet(packets[0], 0, 900);
    free_all(packets);
    stop_and_destroy();
    EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
}

TEST_F(BindPoolTest, FramesLongerThanTheMbufsAreAttached) {
    QueueSetup wanted = bound();
    wanted.max_frame_bytes = 4000;
    wanted.log_stride_bytes = 8;
    wanted.log_strides = 6;
    set_up(wanted);
    EXPECT_STREQ(queue->policy(), "attach");
    EXPECT_NE(RxQueue::bind_fit(config()).why.find("4000"), std::string::npos);
    ASSERT_TRUE(send(0, 4000));
    std::vector<rte_mbuf*> packets = burst();
    expect_packet(packets[0], 0, 4000);
    free_all(packets);
}

TEST_F(BindPoolTest, TwoQueuesShareAPoolAndTakeNothingFromEachOther) {
    set_up(bound());
    FakeHca other_hca = FakeHca::striding(shape);
    RxQueueConfig other_config = config();
    other_config.owner = other_hca.owner();
    Result<RxQueuePtr> made =
        RxQueue::create_striding(other_config, shape, other_hca.cq_ring, other_hca.rq_ring);
    ASSERT_TRUE(made.ok());
    RxQueuePtr other = std::move(made).value();
    EXPECT_STREQ(other->policy(), "bind");
    ASSERT_TRUE(other->start().ok());
    std::vector<rte_mbuf*> mixed;
    for (std::uint32_t n = 0; n < 2000; ++n) {
        ASSERT_TRUE(send(n, 500));
        ASSERT_TRUE(other_hca.receive(frame_of(n + 7, 600)));
        std::vector<rte_mbuf*> packets = burst();
        rte_mbuf* theirs[8];
        ASSERT_EQ(other->burst()(other.get(), theirs, 8), 1);
        expect_packet(packets[0], n, 500);
        expect_packet(theirs[0], n + 7, 600);
        mixed.push_back(packets[0]);
        mixed.push_back(theirs[0]);
        if (mixed.size() < 20) continue;
        rte_pktmbuf_free_bulk(mixed.data(), static_cast<unsigned>(mixed.size()));
        mixed.clear();
    }
    free_all(mixed);
    other_hca.reset();
    other.reset();
    EXPECT_EQ(queue->stats().buffers_held, 0U);
}

TEST_F(BindPoolTest, OtherThreadsFreeAndAllocateMeanwhile) {
    QueueSetup wanted = bound(5);
    wanted.mbufs = 1023;
    wanted.spare_wqes = 8;
    set_up(wanted);
    std::vector<rte_mbuf*> box;
    std::mutex lock;
    std::atomic<bool> done{false};
    const auto work = [&] {
        const LcoreOfThread id;
        while (!done) {
            std::vector<rte_mbuf*> mine;
            {
                const std::scoped_lock guard{lock};
                mine.swap(box);
            }
            if (rte_mbuf* m = rte_pktmbuf_alloc(pool); m != nullptr) mine.push_back(m);
            if (!mine.empty()) rte_pktmbuf_free_bulk(mine.data(), static_cast<unsigned>(mine.size()));
            std::this_thread::yield();
        }
    };
    std::thread first{work}, second{work};
    for (std::uint32_t n = 0; n < 20000; ++n) {
        while (!send(n, 100 + n % 1000))
            std::this_thread::yield();
        std::vector<rte_mbuf*> packets = burst();
        for (; packets.empty(); packets = burst()) // all buffers and all mbufs may be with the others
            std::this_thread::yield();
        expect_packet(packets[0], n, 100 + n % 1000);
        const std::scoped_lock guard{lock};
        box.push_back(packets[0]);
    }
    done = true;
    first.join();
    second.join();
    free_all(box);
    EXPECT_GT(queue->stats().attached, 0U);
    EXPECT_EQ(queue->stats().buffers_held, 0U);
}

} // namespace
} // namespace stride::mprq::test
