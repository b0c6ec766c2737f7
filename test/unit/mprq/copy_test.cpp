// SPDX-License-Identifier: BSD-3-Clause
/// Headroom of neighbours, and copies: asked for, scattered, without room.
#include "rx_fixture.hpp"

namespace stride::mprq::test {
namespace {

class Copying : public RxFixture {};

/// The application fills all the headroom and tailroom it is offered, with `value`.
void scribble_around(rte_mbuf* m, int value) {
    std::memset(m->buf_addr, value, rte_pktmbuf_headroom(m));
    std::memset(rte_pktmbuf_mtod_offset(m, std::byte*, m->data_len), value, rte_pktmbuf_tailroom(m));
}

TEST_F(Copying, WhatIsOfferedAroundAPacketBelongsToNoNeighbour) {
    for (const std::uint32_t log_stride : {6U, 7U, 8U, 11U})
        for (const std::uint32_t guaranteed : {0U, 64U, 128U}) {
            set_up({.log_stride_bytes = log_stride,
                    .log_strides = 13 - (log_stride - 6),
                    .max_frame_bytes = 4200,
                    .mbufs = 511,
                    .copy_threshold_bytes = 0,
                    .headroom_bytes = guaranteed,
                    .scatter = true});
            std::uint32_t n = 0;
            for (std::uint32_t k = 1; (k << log_stride) <= 4096; ++k)
                for (std::uint32_t below = 0; below <= 130; below += 13) {
                    const std::uint32_t bytes = (k << log_stride) > below ? (k << log_stride) - below : 1;
                    for (std::uint32_t packet = 0; packet < 3; ++packet)
                        ASSERT_TRUE(send(n + packet, bytes));
                    std::vector<rte_mbuf*> packets = burst();
                    ASSERT_EQ(packets.size(), 3U);
                    for (rte_mbuf* m : packets) {
                        ASSERT_GE(rte_pktmbuf_headroom(m), guaranteed);
                        scribble_around(m, 0xee);
                    }
                    for (std::uint32_t packet = 0; packet < 3; ++packet)
                        expect_packet(packets[packet], n + packet, bytes);
                    free_all(packets);
                    n += 3;
                }
            expect_sums_up(n);
            if (guaranteed == 0) {
                EXPECT_EQ(queue->stats().copied_no_headroom, 0U);
            }
            if (guaranteed == 128) {
                EXPECT_GT(queue->stats().copied_no_headroom, 0U);
            }
            TearDown();
            pool = nullptr;
        }
}

TEST_F(Copying, FirstPacketOfEachWqeHasItsFullHeadroom) {
    set_up({.log_strides = 2, .copy_threshold_bytes = 0, .headroom_bytes = 128});
    for (std::uint32_t n = 0; n < 50; ++n) {
        ASSERT_TRUE(send(n, 1024)); // all four strides
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        EXPECT_TRUE(is_attached(packets[0]));
        EXPECT_EQ(rte_pktmbuf_headroom(packets[0]), RTE_PKTMBUF_HEADROOM);
        scribble_around(packets[0], 0x55);
        free_all(packets);
    }
}

TEST_F(Copying, AskedForMeansEveryPacketIsInAnMbufOfThePool) {
    set_up({.always_copy = true});
    for (std::uint32_t n = 0; n < 100; ++n) {
        ASSERT_TRUE(send(n, 64 + n * 17));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        EXPECT_FALSE(is_attached(packets[0]));
        expect_packet(packets[0], n, 64 + n * 17);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().copied_asked, 100U);
    EXPECT_STREQ(queue->policy(), "copy");
}

TEST_F(Copying, LongPacketsAreScatteredWithNothingTruncated) {
    set_up({.log_strides = 7,
            .max_frame_bytes = 9022,
            .data_room_bytes = 1000 + 128,
            .always_copy = true,
            .scatter = true});
    for (const std::uint32_t bytes : {999U, 1000U, 1001U, 2000U, 2001U, 9000U, 9022U}) {
        ASSERT_TRUE(send(bytes, bytes));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        EXPECT_EQ(packets[0]->nb_segs, (bytes + 999) / 1000);
        expect_packet(packets[0], bytes, bytes);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().scattered, 5U);
    expect_sums_up(7);
}

TEST_F(Copying, ShortageInTheMiddleOfAScatteredPacketIsOneCountedDropAndNoLeak) {
    set_up({.log_strides = 7,
            .max_frame_bytes = 9022,
            .mbufs = 7,
            .data_room_bytes = 1000 + 128,
            .always_copy = true,
            .scatter = true});
    ASSERT_TRUE(send(0, 9000) && send(1, 500));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    expect_packet(packets[0], 1, 500);
    free_all(packets);
    EXPECT_EQ(queue->stats().dropped_no_mbuf, 1U);
    expect_sums_up(2);
}

TEST_F(Copying, JumboWithoutSpareAndWithoutScatterIsACountedDrop) {
    set_up({.log_strides = 6, .spare_wqes = 0, .max_frame_bytes = 9022});
    ASSERT_TRUE(send(0, 9000) && send(1, 2048));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    expect_packet(packets[0], 1, 2048);
    free_all(packets);
    EXPECT_EQ(queue->stats().dropped_no_room, 1U);
    expect_sums_up(2);
}

TEST_F(Copying, JumboIsAttachedWholeEvenWithSmallMbufs) {
    set_up({.log_stride_bytes = 11, .log_strides = 4, .max_frame_bytes = 25214});
    ASSERT_TRUE(send(0, 25214));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0]->nb_segs, 1);
    expect_packet(packets[0], 0, 25214);
    free_all(packets);
}

TEST_F(Copying, NeverDeliverableFramesAreRefusedAtCreation) {
    set_up({});
    RxQueueConfig wanted = config();
    wanted.always_copy = true;
    Geometry jumbo = shape;
    jumbo.max_frame_bytes = wanted.max_frame_bytes = 2049;
    Result<RxQueuePtr> made = RxQueue::create_striding(wanted, jumbo, hca->cq_ring, hca->rq_ring);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, EINVAL);
    EXPECT_NE(made.error().what.find("scatter"), std::string::npos);
}

} // namespace
} // namespace stride::mprq::test
