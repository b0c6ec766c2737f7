// SPDX-License-Identifier: BSD-3-Clause
/// Rules of the striding receive queue.
#include "rig.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;

/// A striding queue of 8 strides of 64 bytes, all frames steered to it, `posted` WQEs.
struct Striding : Bench {
    explicit Striding(TestStridingRq::Shape shape = {}, std::uint32_t posted = 2)
        : cq{*this, 6}
        , rq{*this, cq, shape} {
        steer_all_to(rq.rq);
        rq.post(posted);
    }
    /// Expects a CQE for a packet of `bytes` in WQE `wqe` from stride `stride` on.
    void expect_packet(std::uint32_t wqe, std::uint32_t stride, std::uint32_t strides, const Bytes& bytes) {
        const auto cqe = cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_send);
        EXPECT_EQ(cqe->get<Cqe::filler>(), 0U);
        EXPECT_EQ(cqe->get<Cqe::wqe_id>(), wqe);
        EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), stride);
        EXPECT_EQ(cqe->get<Cqe::strides>(), strides);
        EXPECT_EQ(cqe->get<Cqe::stride_bytes>(), bytes.size());
        EXPECT_EQ(cqe->get<Cqe::user_index>(), 0x1234U);
        const std::uint32_t shift = rq.rq.two_byte_shift ? 2 : 0;
        const Bytes found = rq.at(wqe, stride, bytes.size() + shift);
        EXPECT_EQ(Bytes(found.begin() + shift, found.end()), bytes);
    }
    void expect_filler(std::uint32_t wqe, std::uint32_t stride, std::uint32_t strides) {
        const auto cqe = cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->get<Cqe::filler>(), 1U);
        EXPECT_EQ(cqe->get<Cqe::wqe_id>(), wqe);
        EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), stride);
        EXPECT_EQ(cqe->get<Cqe::strides>(), strides);
        EXPECT_EQ(cqe->get<Cqe::stride_bytes>(), 0U);
    }

    TestCq cq;
    TestStridingRq rq;
};

TEST(StridingReceive, EachPacketStartsAtAStride) {
    Striding t;
    const Bytes first = plain_frame(60, 1), second = plain_frame(64, 2);
    t.wire->give(first);
    t.wire->give(second);
    t.expect_packet(0, 0, 1, first);
    t.expect_packet(0, 1, 1, second);
    EXPECT_FALSE(t.cq.poll());
    EXPECT_EQ(t.device.port.counters.rx_frames, 2U);
    EXPECT_EQ(t.device.port.counters.rx_bytes, 124U);
}

TEST(StridingReceive, PacketOneByteLongerThanAStrideTakesTwo) {
    Striding t;
    const Bytes frame = plain_frame(65), next = plain_frame(60);
    t.wire->give(frame);
    t.wire->give(next);
    t.expect_packet(0, 0, 2, frame);
    t.expect_packet(0, 2, 1, next);
}

TEST(StridingReceive, PacketThatFillsTheLastStrideFinishesTheWqeWithoutFiller) {
    Striding t;
    const Bytes big = plain_frame(7 * 64), last = plain_frame(64), next = plain_frame(60);
    t.wire->give(big);
    EXPECT_EQ(t.device.port.counters.rx_wqes, 0U);
    t.wire->give(last);
    EXPECT_EQ(t.device.port.counters.rx_wqes, 1U);
    t.wire->give(next);
    t.expect_packet(0, 0, 7, big);
    t.expect_packet(0, 7, 1, last);
    t.expect_packet(1, 0, 1, next);
    EXPECT_EQ(t.device.port.counters.rx_fillers, 0U);
}

TEST(StridingReceive, PacketThatDoesNotFitLeavesAFillerAndGoesToTheNextWqe) {
    Striding t;
    const Bytes big = plain_frame(6 * 64), next = plain_frame(3 * 64 - 1);
    t.wire->give(big);
    t.wire->give(next);
    t.expect_packet(0, 0, 6, big);
    t.expect_filler(0, 6, 2);
    t.expect_packet(1, 0, 3, next);
    EXPECT_EQ(t.device.port.counters.rx_fillers, 1U);
    EXPECT_EQ(t.device.port.counters.rx_wqes, 1U);
}

TEST(StridingReceive, FillerIsWrittenEvenIfNoNextWqeIsThere) {
    Striding t{{}, 1};
    const Bytes big = plain_frame(6 * 64), next = plain_frame(3 * 64);
    EXPECT_TRUE(t.wire->give(big, WhenFull::wait));
    EXPECT_FALSE(t.wire->give(next, WhenFull::wait));
    EXPECT_FALSE(t.wire->give(next, WhenFull::wait)) << "the filler must not be written twice";
    t.expect_packet(0, 0, 6, big);
    t.expect_filler(0, 6, 2);
    EXPECT_FALSE(t.cq.poll());
    t.rq.post(2);
    EXPECT_TRUE(t.wire->give(next, WhenFull::wait));
    t.expect_packet(1, 0, 3, next);
}

TEST(StridingReceive, PacketAsLargeAsTheWqeIsReceived) {
    Striding t;
    const Bytes frame = plain_frame(8 * 64);
    t.wire->give(frame);
    t.expect_packet(0, 0, 8, frame);
    EXPECT_EQ(t.device.port.counters.rx_wqes, 1U);
}

TEST(StridingReceive, PacketLargerThanTheWqeIsDroppedAndCounted) {
    Striding t;
    t.wire->give(plain_frame(8 * 64 + 1));
    EXPECT_FALSE(t.cq.poll());
    EXPECT_EQ(t.device.port.counters.rx_oversize, 1U);
    const Bytes next = plain_frame(60);
    t.wire->give(next);
    t.expect_packet(0, 0, 1, next);
}

TEST(StridingReceive, TwoByteShiftPrecedesThePacketAndCountsForItsStrides) {
    Striding t{{1, 3, 6, true}};
    const Bytes fits = plain_frame(62), spills = plain_frame(63);
    std::memset(t.rq.buffers.data(), 0xee, t.rq.buffers.bytes());
    t.wire->give(fits);
    t.wire->give(spills);
    t.expect_packet(0, 0, 1, fits);
    t.expect_packet(0, 1, 2, spills);
    EXPECT_EQ(t.rq.at(0, 0, 2), (Bytes{0, 0}));
    EXPECT_EQ(t.rq.at(0, 1, 2), (Bytes{0, 0}));
}

TEST(StridingReceive, NothingIsWrittenBehindThePacket) {
    Striding t;
    std::memset(t.rq.buffers.data(), 0xee, t.rq.buffers.bytes());
    t.wire->give(plain_frame(61));
    EXPECT_EQ(t.rq.at(0, 0, 64)[61], 0xee);
    EXPECT_EQ(t.rq.at(0, 1, 1)[0], 0xee);
}

TEST(StridingReceive, NumberedPacketsStayInOrderOverManyRoundsOfBothRings) {
    Striding t{{2, 3, 6, false}, 4};
    std::uint32_t posted = 4, strides_used = 0, received = 0;
    for (unsigned i = 0; i < 5000; ++i) {
        const Bytes frame = plain_frame(14 + (i * 37) % 300, i);
        ASSERT_TRUE(t.wire->give(frame, WhenFull::wait)) << i;
        while (const auto cqe = t.cq.poll()) {
            const std::uint32_t wqe = cqe->get<Cqe::wqe_id>();
            const std::uint32_t stride = cqe->get<Cqe::wqe_counter>();
            ASSERT_EQ(stride, strides_used % 8);
            strides_used += cqe->get<Cqe::strides>();
            if (strides_used % 8 == 0) t.rq.post(++posted);
            if (cqe->get<Cqe::filler>() != 0) continue;
            ++received;
            ASSERT_EQ(t.rq.at(wqe, stride, frame.size()), frame);
        }
    }
    EXPECT_EQ(received, 5000U);
    EXPECT_EQ(broken_total(), 0U);
}

TEST(StridingReceive, FrameWithoutWqeIsDroppedAndCounted) {
    Striding t{{}, 0};
    EXPECT_TRUE(t.wire->give(plain_frame(60)));
    EXPECT_EQ(t.device.port.counters.out_of_buffer, 1U);
    EXPECT_EQ(t.rq.rq.out_of_buffer, 1U);
    EXPECT_EQ(t.device.port.counters.rx_frames, 0U);
}

TEST(StridingReceive, FrameWithoutWqeWaitsIfThePortPauses) {
    Striding t{{}, 0};
    t.device.port.pause = true;
    EXPECT_FALSE(t.wire->give(plain_frame(60)));
    EXPECT_EQ(t.device.port.counters.out_of_buffer, 0U);
    t.rq.post(1);
    EXPECT_TRUE(t.wire->give(plain_frame(60)));
}

/// The queue fails with `syndrome` at its first packet, because of `rule`.
void expect_failure(Striding& t, Rule rule, prm::Syndrome syndrome) {
    t.wire->give(plain_frame(60));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_error);
    EXPECT_EQ(cqe->syndrome(), syndrome);
    EXPECT_EQ(cqe->get<prm::ErrorCqe::vendor_syndrome>(), static_cast<unsigned>(rule) + 1);
    EXPECT_EQ(cqe->get<prm::ErrorCqe::user_index>(), 0x1234U);
    EXPECT_EQ(broken_count(rule), 1U);
    EXPECT_EQ(broken_total(), 1U);
    EXPECT_EQ(t.rq.rq.state, QueueState::error);
    t.engine.step(16);
    const auto flushed = t.cq.poll();
    ASSERT_TRUE(flushed) << "the second WQE";
    EXPECT_EQ(flushed->syndrome(), prm::Syndrome::flushed);
    EXPECT_FALSE(t.cq.poll());
}

TEST(StridingReceive, UnknownLkeyIsAProtectionErrorAndFlushesTheRest) {
    Striding t;
    prm::DataSegment::lkey::set(t.rq.wqe(0) + 16, t.rq.lkey.value ^ 1U);
    expect_failure(t, Rule::bad_lkey, prm::Syndrome::local_protection);
}

TEST(StridingReceive, LkeyOfAnotherPdIsAProtectionError) {
    Striding t;
    t.rq.rq.pd = Pdn{8};
    expect_failure(t, Rule::bad_lkey, prm::Syndrome::local_protection);
}

TEST(StridingReceive, BufferBeyondItsRegionIsAProtectionError) {
    Striding t;
    prm::DataSegment::address::set(t.rq.wqe(0) + 16,
                                   t.rq.buffers.address() + t.rq.buffers.bytes() - t.rq.wqe_bytes() + 1);
    expect_failure(t, Rule::lkey_range, prm::Syndrome::local_protection);
}

TEST(StridingReceive, BufferThatMayNotBeWrittenIsAProtectionError) {
    Striding t;
    const Lkey readable = t.add_region(t.rq.buffers, false);
    prm::DataSegment::lkey::set(t.rq.wqe(0) + 16, readable.value);
    expect_failure(t, Rule::lkey_access, prm::Syndrome::local_protection);
}

TEST(StridingReceive, SegmentShorterThanTheStridesIsMalformed) {
    Striding t;
    prm::DataSegment::byte_count::set(t.rq.wqe(0) + 16, t.rq.wqe_bytes() - 64);
    expect_failure(t, Rule::rq_segment, prm::Syndrome::local_qp_operation);
}

TEST(StridingReceive, SegmentAtTheStartOfTheWqeIsMalformed) {
    Striding t; // ibv_post_wq_recv ignores the 16 bytes of the next segment
    std::memmove(t.rq.wqe(0), t.rq.wqe(0) + 16, 16);
    std::memset(t.rq.wqe(0) + 16, 0, 16);
    prm::DataSegment::lkey::set(t.rq.wqe(0) + 16, prm::terminator_lkey);
    expect_failure(t, Rule::rq_segment, prm::Syndrome::local_qp_operation);
}

TEST(StridingReceive, RegionThatGoesAwayUnderAWqeIsAProtectionError) {
    Striding t;
    const Bytes first = plain_frame(60);
    t.wire->give(first);
    t.expect_packet(0, 0, 1, first);
    t.device.mrs.remove(t.rq.lkey);
    t.wire->give(plain_frame(60));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome(), prm::Syndrome::local_protection);
    EXPECT_EQ(cqe->get<prm::ErrorCqe::wqe_counter>(), 1U) << "the stride it happened at";
}

TEST(StridingReceive, MoreWqesThanTheQueueHoldsIsAnOverrun) {
    Striding t;
    t.rq.post(3);
    t.wire->give(plain_frame(60));
    EXPECT_EQ(broken_count(Rule::rq_overrun), 1U);
    EXPECT_EQ(t.rq.rq.state, QueueState::error);
}

TEST(StridingReceive, DoorbellRecordThatGoesBackIsNamed) {
    Striding t;
    t.wire->give(plain_frame(60));
    t.rq.post(1);
    t.wire->give(plain_frame(60));
    EXPECT_EQ(broken_count(Rule::doorbell_backwards), 1U);
}

TEST(StridingReceive, FullCqIsOverrunAndTheQueueFails) {
    Striding t{{4, 3, 6, false}, 16};
    t.cq.acknowledge = false;
    for (unsigned i = 0; i < 65; ++i)
        t.wire->give(plain_frame(60));
    EXPECT_TRUE(t.cq.cq.overrun);
    EXPECT_EQ(broken_count(Rule::cq_overrun), 1U);
    EXPECT_EQ(t.rq.rq.state, QueueState::error);
    EXPECT_EQ(t.device.port.counters.rx_frames, 64U);
}

TEST(StridingReceive, SixteenBitsOfConsumerIndexAreEnough) {
    Striding t{{1, 3, 6, false}, 2};
    t.cq.index_mask = 0xffff;
    std::uint32_t posted = 2;
    for (unsigned i = 0; i < 70000; ++i) {
        ASSERT_TRUE(t.wire->give(plain_frame(60), WhenFull::wait)) << i;
        ASSERT_TRUE(t.cq.poll()) << i;
        if (i % 8 == 7) t.rq.post(++posted);
    }
    EXPECT_EQ(broken_total(), 0U);
}

TEST(StridingReceive, CqeOf128BytesHasItsContentInTheSecondHalf) {
    Bench t;
    TestCq cq{t, 4, 128};
    TestStridingRq rq{t, cq, {}};
    t.steer_all_to(rq.rq);
    rq.post(2);
    t.wire->give(plain_frame(60));
    const auto cqe = cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::stride_bytes>(), 60U);
    EXPECT_EQ(static_cast<unsigned>(cq.cq.ring[63]), 0xf1U) << "the first half is not the HCA's";
}

TEST(StridingReceive, WqeOfSeveralSegmentsIsOneRowOfStrides) {
    Bench t;
    TestCq cq{t, 4};
    TestStridingRq rq{t, cq, {}};
    Memory ring{2 * 64}, parts{1024};
    const Lkey lkey = t.add_region(parts);
    rq.rq.ring = ring.data();
    rq.rq.log_wqe_bytes = 6;
    const std::uint32_t lengths[] = {100, 412}; // the second stride is in both
    std::uint32_t offset = 0;
    for (unsigned i = 0; i < 2; ++i) {
        std::byte* segment = ring.data() + 16 + i * 16;
        prm::DataSegment::byte_count::set(segment, lengths[i]);
        prm::DataSegment::lkey::set(segment, lkey.value);
        prm::DataSegment::address::set(segment, parts.address() + offset + i * 256);
        offset += lengths[i];
    }
    t.steer_all_to(rq.rq);
    rq.post(1);
    const Bytes first = plain_frame(60, 1), second = plain_frame(130, 2);
    t.wire->give(first);
    t.wire->give(second);
    EXPECT_EQ(parts.copy(0, 60), first);
    Bytes found = parts.copy(64, 36);
    const Bytes rest = parts.copy(100 + 256, 94);
    found.insert(found.end(), rest.begin(), rest.end());
    EXPECT_EQ(found, second);
}

} // namespace
} // namespace swhca::test
