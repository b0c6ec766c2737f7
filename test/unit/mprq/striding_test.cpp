// SPDX-License-Identifier: BSD-3-Clause
/// Packets, strides and completions of the striding queue.
#include "rx_fixture.hpp"

#include <random>

namespace stride::mprq::test {
namespace {

class StridingQueue : public RxFixture {};

TEST_F(StridingQueue, ShortPacketsAreCopiedAndLongOnesAttached) {
    set_up({});
    ASSERT_TRUE(send(0, 64) && send(1, 128) && send(2, 129) && send(3, 1500));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 4U);
    expect_packet(packets[0], 0, 64);
    expect_packet(packets[1], 1, 128);
    expect_packet(packets[2], 2, 129);
    expect_packet(packets[3], 3, 1500);
    EXPECT_FALSE(is_attached(packets[1]));
    EXPECT_TRUE(is_attached(packets[2]));
    free_all(packets);
    const RxStats stats = queue->stats();
    EXPECT_EQ(stats.copied_short, 2U);
    EXPECT_EQ(stats.attached, 2U);
    EXPECT_EQ(stats.bytes, 64U + 128 + 129 + 1500);
    expect_sums_up(4);
}

TEST_F(StridingQueue, EmptyQueueGivesNothingAndRingsNothing) {
    set_up({});
    const std::uint64_t doorbells = queue->stats().doorbells;
    EXPECT_TRUE(burst().empty());
    EXPECT_EQ(queue->stats().doorbells, doorbells);
}

TEST_F(StridingQueue, EveryLengthSurvivesManyRoundsOfRingAndCq) {
    for (const std::uint32_t cqe_bytes : {64U, 128U})
        for (const std::uint32_t log_stride : {6U, 8U, 11U}) {
            set_up({.log_stride_bytes = log_stride, .log_strides = 15 - log_stride, .cqe_bytes = cqe_bytes});
            std::uint32_t next = 0;
            for (std::uint32_t n = 0; n < 6000; ++n) {
                const std::uint32_t bytes = 1 + n % 2000;
                ASSERT_TRUE(send(n, bytes)) << n;
                if (n % 3 != 0) continue;
                std::vector<rte_mbuf*> packets = burst(8);
                for (rte_mbuf* m : packets) {
                    expect_packet(m, next, 1 + next % 2000);
                    ++next;
                }
                free_all(packets);
            }
            expect_sums_up(next);
            EXPECT_GT(queue->stats().wqes_posted, 3U * shape.wqes());
            TearDown();
            pool = nullptr;
        }
}

TEST_F(StridingQueue, BurstOfAnySizeReturnsWhatIsThere) {
    set_up({.log_strides = 6});
    std::uint32_t sent = 0;
    std::uint32_t next = 0;
    for (const std::uint16_t wanted :
         std::initializer_list<std::uint16_t>{1, 3, 4, 5, 31, 32, 33, 63, 64, 128, 200}) {
        for (std::uint32_t n = 0; n < 70; ++n) {
            ASSERT_TRUE(send(sent, 60 + sent % 200));
            ++sent;
        }
        while (next < sent) {
            std::vector<rte_mbuf*> packets = burst(wanted);
            ASSERT_EQ(packets.size(), std::min<std::size_t>(wanted, sent - next));
            for (rte_mbuf* m : packets) {
                expect_packet(m, next, 60 + next % 200);
                ++next;
            }
            free_all(packets);
        }
    }
}

TEST_F(StridingQueue, PacketThatDoesNotFitGoesToTheNextWqeBehindAFiller) {
    set_up({.log_strides = 3}); // 8 strides of 256
    ASSERT_TRUE(send(0, 1500)); // 6 strides
    ASSERT_TRUE(send(1, 1500));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 2U);
    expect_packet(packets[1], 1, 1500);
    free_all(packets);
    EXPECT_EQ(queue->stats().fillers, 1U);
    EXPECT_EQ(queue->stats().filler_strides, 2U);
    expect_sums_up(2);
}

TEST_F(StridingQueue, PacketThatFillsTheLastStrideFinishesTheWqe) {
    set_up({.log_strides = 3});
    const std::uint64_t before = queue->stats().wqes_posted;
    ASSERT_TRUE(send(0, 1024) && send(1, 1024) && send(2, 300));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 3U);
    EXPECT_EQ(queue->stats().wqes_posted, before + 1);
    free_all(packets);
}

TEST_F(StridingQueue, GapsAreSkippedBecauseTheIndexComesFromTheCqe) {
    set_up({});
    ASSERT_TRUE(send(0, 300));
    hca->fill(3);
    hca->skip(4); // next packet at stride 9
    ASSERT_TRUE(send(1, 300) && send(2, 300));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 3U);
    for (std::uint32_t n = 0; n < 3; ++n)
        expect_packet(packets[n], n, 300);
    free_all(packets);
    EXPECT_EQ(queue->stats().recoveries, 0U);
}

TEST_F(StridingQueue, FirstWqeThatIsNothingButAFillerDeliversNothing) {
    set_up({});
    hca->fill(16);
    EXPECT_TRUE(burst().empty());
    ASSERT_TRUE(send(0, 700));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    expect_packet(packets[0], 0, 700);
    free_all(packets);
}

TEST_F(StridingQueue, FrameAboveTheLimitIsDroppedAndItsNeighboursAreIntact) {
    set_up({});
    ASSERT_TRUE(send(0, 2000) && send(1, 2001) && send(2, 4000) && send(3, 2000));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 2U);
    expect_packet(packets[0], 0, 2000);
    expect_packet(packets[1], 3, 2000);
    free_all(packets);
    EXPECT_EQ(queue->stats().dropped_oversize, 2U);
    expect_sums_up(4);
}

TEST_F(StridingQueue, TwoByteShiftIsNotPartOfThePacket) {
    set_up({.two_byte_shift = true});
    for (std::uint32_t n = 0; n < 200; ++n) {
        ASSERT_TRUE(send(n, 100 + n * 9));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], n, 100 + n * 9);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rte_pktmbuf_mtod(packets[0], void*)) % 4,
                  is_attached(packets[0]) ? 2U : 0U);
        free_all(packets);
    }
}

TEST_F(StridingQueue, KeptCrcIsBehindTheDataAndStridesAreCountedWithIt) {
    set_up({.offloads = RxOffload::keep_crc});
    for (std::uint32_t n = 0; n < 400; ++n) {
        const std::uint32_t bytes = 250 + n % 16; // crosses 256 with 1 to 4 bytes of CRC
        ASSERT_TRUE(send(n, bytes));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        ASSERT_EQ(packets[0]->pkt_len, bytes - 4);
        const std::vector<std::byte> frame = frame_of(n, bytes);
        ASSERT_EQ(std::memcmp(rte_pktmbuf_mtod(packets[0], void*), frame.data(), bytes), 0);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().recoveries, 0U);
}

TEST_F(StridingQueue, CountAndStatusAreInPackets) {
    set_up({.log_strides = 8});
    EXPECT_EQ(queue->descriptors(), 1024U);
    for (std::uint32_t n = 0; n < 100; ++n) {
        if (n == 50) hca->fill(3);
        ASSERT_TRUE(send(n, 300));
    }
    EXPECT_EQ(queue->ready_packets(), 100U);
    EXPECT_EQ(queue->descriptor_status(99), DescriptorStatus::done);
    EXPECT_EQ(queue->descriptor_status(100), DescriptorStatus::available);
    EXPECT_EQ(queue->descriptor_status(1024), DescriptorStatus::out_of_range);
    std::vector<rte_mbuf*> packets = burst(30);
    EXPECT_EQ(queue->ready_packets(), 70U);
    free_all(packets);
}

TEST_F(StridingQueue, RandomLengthsHoldsAndBurstsKeepEveryByte) {
    set_up({.log_strides = 5, .spare_wqes = 3, .mbufs = 1023});
    std::minstd_rand generator{20240607};
    const auto random = [&generator] { return static_cast<std::uint32_t>(generator() >> 3); };
    std::vector<std::pair<rte_mbuf*, std::uint32_t>> held;
    std::vector<std::uint32_t> lengths;
    std::uint32_t next = 0;
    for (int round = 0; round < 5000; ++round) {
        for (std::uint32_t n = random() % 12; n > 0; --n) {
            const std::uint32_t bytes = 1 + random() % 2000;
            if (!send(static_cast<std::uint32_t>(lengths.size()), bytes)) break;
            lengths.push_back(bytes);
        }
        for (rte_mbuf* m : burst(static_cast<std::uint16_t>(1 + random() % 40)))
            held.emplace_back(m, next++);
        while (held.size() > 200 || (!held.empty() && random() % 4 != 0)) {
            const std::size_t which = random() % held.size();
            std::swap(held[which], held.back());
            expect_packet(held.back().first, held.back().second, lengths[held.back().second]);
            rte_pktmbuf_free(held.back().first);
            held.pop_back();
        }
    }
    EXPECT_GT(next, 10000U);
    expect_sums_up(next);
    for (const auto& [m, n] : held) {
        expect_packet(m, n, lengths[n]);
        rte_pktmbuf_free(m);
    }
}

} // namespace
} // namespace stride::mprq::test
