// SPDX-License-Identifier: BSD-3-Clause
/// Rules of the send queue.
#include "rig.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;
using prm::CtrlSegment;
using prm::EthSegment;
using prm::Opcode;
using prm::Syndrome;

struct Sending : Bench {
    Sending()
        : cq{*this, 5}
        , sq{*this, cq}
        , memory{64 * 1024} {
        lkey = add_region(memory, false);
        for (std::size_t i = 0; i < memory.bytes(); ++i)
            memory.data()[i] = static_cast<std::byte>(i * 31 + i / 256);
    }
    void inline_segment(unsigned number, const Bytes& bytes) {
        prm::InlineSegment::inlined::set(sq.ds(number), 1);
        prm::InlineSegment::byte_count::set(sq.ds(number), static_cast<std::uint32_t>(bytes.size()));
        sq.copy_in(number * 16 + 4, bytes);
    }
    void expect_completion(std::uint16_t wqe_index, Opcode opcode) {
        const auto cqe = cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::requester);
        EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), wqe_index);
        EXPECT_EQ(cqe->get<Cqe::qpn>(), 0x40U);
        EXPECT_EQ(cqe->get<Cqe::user_index>(), 0x4321U);
        EXPECT_EQ(cqe->get<Cqe::send_opcode>(), static_cast<unsigned>(opcode));
    }

    TestCq cq;
    TestSq sq;
    Memory memory;
    Lkey lkey{};
};

TEST(Send, OnePointerSegmentLeavesAsItLies) {
    Sending t;
    t.sq.send(t.lkey, t.memory.address() + 5, 100);
    EXPECT_EQ(t.engine.step(16), 1U);
    ASSERT_EQ(t.wire->sent.size(), 1U);
    EXPECT_EQ(t.wire->sent[0], t.memory.copy(5, 100));
    t.expect_completion(0, Opcode::send);
    EXPECT_EQ(t.device.port.counters.tx_frames, 1U);
    EXPECT_EQ(t.device.port.counters.tx_doorbells, 1U);
}

TEST(Send, WithoutCompletionRequestThereIsNoCqe) {
    Sending t;
    t.sq.send(t.lkey, t.memory.address(), 100, false);
    EXPECT_EQ(t.engine.step(16), 1U);
    EXPECT_FALSE(t.cq.poll());
}

TEST(Send, RecordWithoutDoorbellSendsNothing) {
    Sending t;
    t.sq.ctrl(Opcode::send, 3);
    t.sq.pointer(2, t.lkey, t.memory.address(), 100);
    t.sq.advance(3);
    t.sq.record();
    EXPECT_EQ(t.engine.step(16), 0U);
    t.sq.ring(0);
    EXPECT_EQ(t.engine.step(16), 1U);
}

TEST(Send, DoorbellWithoutRecordIsNamed) {
    Sending t;
    t.sq.ctrl(Opcode::send, 3);
    t.sq.pointer(2, t.lkey, t.memory.address(), 100);
    t.sq.ring(0);
    EXPECT_EQ(t.engine.step(16), 0U);
    EXPECT_EQ(broken_count(Rule::doorbell_without_record), 1U);
}

TEST(Send, OneDoorbellForSeveralWqes) {
    Sending t;
    for (unsigned i = 0; i < 3; ++i) {
        t.sq.ctrl(Opcode::send, 3, i == 2);
        t.sq.pointer(2, t.lkey, t.memory.address() + i * 100, 60 + i);
        t.sq.advance(3);
    }
    t.sq.record();
    t.sq.ring(2);
    EXPECT_EQ(t.engine.step(16), 3U);
    ASSERT_EQ(t.wire->sent.size(), 3U);
    EXPECT_EQ(t.wire->sent[2], t.memory.copy(200, 62));
    t.expect_completion(2, Opcode::send);
    EXPECT_EQ(t.device.port.counters.tx_doorbells, 1U);
}

TEST(Send, DoorbellInTheOtherHalfOfTheRegisterCounts) {
    Sending t;
    t.sq.ctrl(Opcode::send, 3);
    t.sq.pointer(2, t.lkey, t.memory.address(), 100);
    t.sq.advance(3);
    t.sq.record();
    std::uint64_t value;
    std::memcpy(&value, t.sq.qp.sq.ring, sizeof value);
    stride::ring_doorbell(t.sq.qp.sq.bfreg + 256, value);
    EXPECT_EQ(t.engine.step(16), 1U);
}

TEST(Send, SameDoorbellValueAfterAResetIsSeen) {
    Sending t;
    for (unsigned round = 0; round < 3; ++round) {
        t.sq.send(t.lkey, t.memory.address(), 100);
        EXPECT_EQ(t.engine.step(16), 1U) << round;
        t.expect_completion(0, Opcode::send);
        set_qp_state(t.sq.qp, QueueState::reset);
        t.sq.pi = 0;
        t.sq.record();
        set_qp_state(t.sq.qp, QueueState::ready);
    }
}

TEST(Send, ManySegmentsAreGathered) {
    Sending t;
    const unsigned segments = 61; // 63 DS
    t.sq.ctrl(Opcode::send, 2 + segments);
    Bytes expected;
    for (unsigned i = 0; i < segments; ++i) {
        t.sq.pointer(2 + i, t.lkey, t.memory.address() + i * 100, 20 + i);
        const Bytes part = t.memory.copy(i * 100, 20 + i);
        expected.insert(expected.end(), part.begin(), part.end());
    }
    t.sq.post(2 + segments);
    EXPECT_EQ(t.engine.step(16), 1U);
    ASSERT_EQ(t.wire->sent.size(), 1U);
    EXPECT_EQ(t.wire->sent[0], expected);
}

TEST(Send, InlineHeaderPrecedesTheData) {
    Sending t;
    for (const unsigned header_length : {1U, 2U, 3U, 18U, 19U, 60U}) {
        const Bytes header = plain_frame(header_length, header_length);
        const unsigned extra = header_length > 2 ? (header_length - 2 + 15) / 16 : 0;
        t.sq.ctrl(Opcode::send, 3 + extra);
        EthSegment::inline_header_bytes::set(t.sq.ds(1), header_length);
        t.sq.copy_in(16 + EthSegment::inline_start, header);
        t.sq.pointer(2 + extra, t.lkey, t.memory.address(), 300);
        t.sq.post(3 + extra);
        EXPECT_EQ(t.engine.step(16), 1U);
        Bytes expected = header;
        const Bytes data = t.memory.copy(0, 300);
        expected.insert(expected.end(), data.begin(), data.end());
        EXPECT_EQ(t.wire->sent.back(), expected) << header_length;
    }
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Send, WqeAtEveryOffsetWrapsAtTheRingsEnd) {
    Sending t;
    for (unsigned i = 0; i < 64; ++i) {
        const Bytes header = plain_frame(18, i), tail = plain_frame(90, i + 1);
        t.sq.ctrl(Opcode::send, 11);
        EthSegment::inline_header_bytes::set(t.sq.ds(1), 18);
        t.sq.copy_in(16 + EthSegment::inline_start, header);
        t.sq.pointer(3, t.lkey, t.memory.address() + i, 40);
        t.inline_segment(4, tail); // DS 4 to 9
        t.sq.pointer(10, t.lkey, t.memory.address() + 1000, 500);
        t.sq.post(11);
        ASSERT_EQ(t.engine.step(16), 1U) << i;
        Bytes expected = header;
        for (const Bytes& part : {t.memory.copy(i, 40), tail, t.memory.copy(1000, 500)})
            expected.insert(expected.end(), part.begin(), part.end());
        ASSERT_EQ(t.wire->sent.back(), expected) << i;
        ASSERT_TRUE(t.cq.poll());
    }
}

TEST(Send, NopCompletesAndSendsNothing) {
    Sending t;
    t.sq.ctrl(Opcode::nop, 1);
    t.sq.post(1);
    EXPECT_EQ(t.engine.step(16), 0U);
    t.expect_completion(0, Opcode::nop);
}

TEST(Send, BudgetIsKept) {
    Sending t;
    for (unsigned i = 0; i < 10; ++i)
        t.sq.send(t.lkey, t.memory.address(), 100);
    EXPECT_EQ(t.engine.step(4), 4U);
    EXPECT_EQ(t.engine.step(4), 4U);
    EXPECT_EQ(t.engine.step(4), 2U);
}

TEST(EnhancedMpw, PointersAndInlineFramesEachAreAFrame) {
    Sending t;
    const Bytes inlined = plain_frame(77);
    t.sq.ctrl(Opcode::enhanced_mpsw, 2 + 1 + 6 + 1);
    t.sq.pointer(2, t.lkey, t.memory.address(), 64);
    t.inline_segment(3, inlined);
    t.sq.pointer(9, t.lkey, t.memory.address() + 1000, 1500);
    t.sq.post(10);
    EXPECT_EQ(t.engine.step(16), 3U);
    ASSERT_EQ(t.wire->sent.size(), 3U);
    EXPECT_EQ(t.wire->sent[0], t.memory.copy(0, 64));
    EXPECT_EQ(t.wire->sent[1], inlined);
    EXPECT_EQ(t.wire->sent[2], t.memory.copy(1000, 1500));
    t.expect_completion(0, Opcode::enhanced_mpsw);
    EXPECT_EQ(t.device.port.counters.tx_wqes, 1U);
}

TEST(EnhancedMpw, InlineFramesWrapAtTheRingsEnd) {
    Sending t;
    for (unsigned i = 0; i < 40; ++i) {
        const Bytes first = plain_frame(60, i), second = plain_frame(61, i + 1),
                    third = plain_frame(62, i + 2);
        t.sq.ctrl(Opcode::enhanced_mpsw, 2 + 4 + 5 + 5);
        t.inline_segment(2, first);
        t.inline_segment(6, second);
        t.inline_segment(11, third);
        t.sq.post(16);
        ASSERT_EQ(t.engine.step(16), 3U);
        const std::size_t n = t.wire->sent.size();
        ASSERT_EQ(t.wire->sent[n - 3], first);
        ASSERT_EQ(t.wire->sent[n - 2], second);
        ASSERT_EQ(t.wire->sent[n - 1], third);
        ASSERT_TRUE(t.cq.poll());
        // Other offsets in the next rounds.
        t.sq.ctrl(Opcode::nop, 1, false);
        t.sq.post(1);
        t.engine.step(1);
    }
}

TEST(EnhancedMpw, PausedInTheMiddleGoesOnThereWithoutRepeating) {
    Sending t;
    t.sq.ctrl(Opcode::enhanced_mpsw, 2 + 5);
    for (unsigned i = 0; i < 5; ++i)
        t.sq.pointer(2 + i, t.lkey, t.memory.address() + i * 64, 60);
    t.sq.post(7);
    t.wire->room = 2;
    EXPECT_EQ(t.engine.step(16), 2U);
    EXPECT_FALSE(t.cq.poll());
    EXPECT_EQ(t.engine.step(16), 0U);
    t.wire->room = 100;
    EXPECT_EQ(t.engine.step(2), 2U);
    EXPECT_FALSE(t.cq.poll());
    EXPECT_EQ(t.engine.step(16), 1U);
    ASSERT_EQ(t.wire->sent.size(), 5U);
    for (unsigned i = 0; i < 5; ++i)
        EXPECT_EQ(t.wire->sent[i], t.memory.copy(i * 64, 60));
    t.expect_completion(0, Opcode::enhanced_mpsw);
}

/// A good WQE, a bad one made by `spoil` from a good one, and a good one: the first is sent, the second
/// fails by `rule`, the third is flushed.
template <class Spoil>
void expect_broken(Rule rule, Syndrome syndrome, Spoil spoil) {
    Sending t;
    t.sq.send(t.lkey, t.memory.address(), 100, false);
    t.sq.ctrl(Opcode::send, 3, false);
    t.sq.pointer(2, t.lkey, t.memory.address(), 100);
    spoil(t);
    t.sq.post(3);
    t.sq.send(t.lkey, t.memory.address(), 100, false);
    EXPECT_EQ(t.engine.step(16), 1U);
    t.engine.step(16);
    const auto failed = t.cq.poll();
    ASSERT_TRUE(failed) << rule_name(rule);
    EXPECT_EQ(failed->opcode(), prm::CqeOpcode::requester_error);
    EXPECT_EQ(failed->syndrome(), syndrome) << rule_name(rule);
    EXPECT_EQ(failed->get<prm::ErrorCqe::vendor_syndrome>(), static_cast<unsigned>(rule) + 1);
    EXPECT_EQ(failed->get<prm::ErrorCqe::wqe_counter>(), 1U);
    EXPECT_EQ(failed->get<prm::ErrorCqe::qpn>(), 0x40U);
    EXPECT_EQ(failed->get<prm::ErrorCqe::user_index>(), 0x4321U);
    const auto flushed = t.cq.poll();
    ASSERT_TRUE(flushed) << rule_name(rule);
    EXPECT_EQ(flushed->syndrome(), Syndrome::flushed);
    EXPECT_EQ(flushed->get<prm::ErrorCqe::wqe_counter>(), 2U);
    EXPECT_FALSE(t.cq.poll());
    EXPECT_EQ(broken_count(rule), 1U) << rule_name(rule);
    EXPECT_EQ(broken_total(), 1U) << rule_name(rule);
    EXPECT_EQ(t.sq.qp.state, QueueState::error);
    EXPECT_EQ(t.device.port.counters.tx_errors, 1U);
}

TEST(SendRules, UnknownLkey) {
    expect_broken(Rule::bad_lkey, Syndrome::local_protection,
                  [](Sending& t) { prm::DataSegment::lkey::set(t.sq.ds(2), 0x123400); });
}
TEST(SendRules, StaleLkey) {
    expect_broken(Rule::bad_lkey, Syndrome::local_protection, [](Sending& t) {
        const Lkey stale = t.add_region(t.memory);
        t.device.mrs.remove(stale);
        const Lkey reused = t.add_region(t.memory);
        EXPECT_NE(stale, reused);
        prm::DataSegment::lkey::set(t.sq.ds(2), stale.value);
    });
}
TEST(SendRules, DataBeyondItsRegion) {
    expect_broken(Rule::lkey_range, Syndrome::local_protection, [](Sending& t) {
        t.sq.pointer(2, t.lkey, t.memory.address() + t.memory.bytes() - 99, 100);
    });
}
TEST(SendRules, DataBeforeItsRegion) {
    expect_broken(Rule::lkey_range, Syndrome::local_protection,
                  [](Sending& t) { t.sq.pointer(2, t.lkey, t.memory.address() - 1, 100); });
}
TEST(SendRules, ZeroByteCountStandsForTwoGigabytes) {
    expect_broken(Rule::lkey_range, Syndrome::local_protection,
                  [](Sending& t) { prm::DataSegment::byte_count::set(t.sq.ds(2), 0); });
}
TEST(SendRules, ReservedBitsOfTheControlSegment) {
    expect_broken(Rule::reserved_bits, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::reserved_flag4::set(t.sq.ds(0), 1); });
}
TEST(SendRules, ReservedBitsOfTheEthernetSegment) {
    expect_broken(Rule::reserved_bits, Syndrome::local_qp_operation,
                  [](Sending& t) { EthSegment::reserved_checksum::set(t.sq.ds(1), 1); });
}
TEST(SendRules, UnknownOpcode) {
    expect_broken(Rule::unknown_opcode, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::opcode::set(t.sq.ds(0), 0x3f); });
}
TEST(SendRules, WrongWqeIndex) {
    expect_broken(Rule::wqe_index, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::wqe_index::set(t.sq.ds(0), 2); });
}
TEST(SendRules, WrongQpn) {
    expect_broken(Rule::wqe_qpn, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::qpn::set(t.sq.ds(0), 0x41); });
}
TEST(SendRules, NoDs) {
    expect_broken(Rule::ds_limit, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::ds::set(t.sq.ds(0), 0); });
}
TEST(SendRules, TooFewDsForASend) {
    expect_broken(Rule::ds_limit, Syndrome::local_qp_operation,
                  [](Sending& t) { CtrlSegment::ds::set(t.sq.ds(0), 1); });
}
TEST(SendRules, InlineSegmentLongerThanTheWqe) {
    expect_broken(Rule::ds_layout, Syndrome::local_qp_operation, [](Sending& t) {
        prm::InlineSegment::inlined::set(t.sq.ds(2), 1);
        prm::InlineSegment::byte_count::set(t.sq.ds(2), 13);
    });
}
TEST(SendRules, InlineHeaderLongerThanTheWqe) {
    expect_broken(Rule::ds_layout, Syndrome::local_qp_operation,
                  [](Sending& t) { EthSegment::inline_header_bytes::set(t.sq.ds(1), 19); });
}
TEST(SendRules, FewerBytesInlinedThanTheDeviceDemands) {
    Sending t;
    t.sq.qp.sq.min_inline_bytes = 18;
    t.sq.send(t.lkey, t.memory.address(), 100);
    EXPECT_EQ(t.engine.step(16), 0U);
    EXPECT_EQ(broken_count(Rule::inline_header), 1U);
    EXPECT_EQ(t.sq.qp.state, QueueState::error);
}
TEST(SendRules, FrameShorterThanAnEthernetHeader) {
    expect_broken(Rule::frame_length, Syndrome::local_length,
                  [](Sending& t) { prm::DataSegment::byte_count::set(t.sq.ds(2), 13); });
}
TEST(SendRules, FrameLongerThanThePortTakes) {
    expect_broken(Rule::frame_length, Syndrome::local_length, [](Sending& t) {
        t.device.port.max_frame_bytes = 1518;
        prm::DataSegment::byte_count::set(t.sq.ds(2), 1519);
    });
}

TEST(SendRules, MoreThan63Ds) {
    Sending t;
    t.sq.ctrl(Opcode::send, 3);
    CtrlSegment::reserved_ds::set(t.sq.ds(0), 1); // 64 + 3
    t.sq.post(3);
    t.engine.step(16);
    EXPECT_EQ(broken_count(Rule::ds_limit), 1U);
}

TEST(SendRules, WqeThatReachesBeyondTheProducerIndex) {
    Sending t;
    t.sq.ctrl(Opcode::send, 9);
    t.sq.post(3);
    t.engine.step(16);
    EXPECT_EQ(broken_count(Rule::ds_layout), 1U);
}

TEST(SendRules, MoreWqebbsThanTheRingHolds) {
    Sending t;
    t.sq.ctrl(Opcode::nop, 1);
    t.sq.pi = 17;
    t.sq.record();
    t.sq.pi = 0;
    t.sq.ring(0);
    t.engine.step(16);
    EXPECT_EQ(broken_count(Rule::sq_overrun), 1U);
    EXPECT_EQ(t.sq.qp.state, QueueState::error);
}

TEST(SendRules, DoorbellRecordThatGoesBack) {
    Sending t;
    t.sq.send(t.lkey, t.memory.address(), 100);
    t.sq.send(t.lkey, t.memory.address(), 100);
    t.engine.step(16);
    t.sq.pi = 1;
    t.sq.record();
    t.sq.ctrl(Opcode::nop, 1);
    t.sq.ring(1);
    t.engine.step(16);
    EXPECT_EQ(broken_count(Rule::doorbell_backwards), 1U);
}

TEST(SendRules, CompletionForAFullCqIsAnOverrun) {
    Sending t;
    t.cq.acknowledge = false;
    for (unsigned i = 0; i < 33; ++i) {
        t.sq.send(t.lkey, t.memory.address(), 100);
        t.engine.step(16);
    }
    EXPECT_EQ(broken_count(Rule::cq_overrun), 1U);
    EXPECT_TRUE(t.cq.cq.overrun);
    EXPECT_EQ(t.sq.qp.state, QueueState::error);
}

TEST(SendRules, ConsumerIndexInHostOrderEndsInAnOverrun) {
    Sending t;
    t.cq.acknowledge = false;
    for (unsigned i = 0; i < 40; ++i) {
        t.sq.send(t.lkey, t.memory.address(), 100);
        t.engine.step(16);
        if (t.cq.poll()) stride::store_to_device(&t.cq.cq.dbrec[0], be32::from_wire(i + 1));
    }
    EXPECT_EQ(broken_count(Rule::cq_overrun), 1U);
}

TEST(SendRules, ConsumerIndexAheadOfTheProducerIsNamed) {
    Sending t;
    t.cq.acknowledge = false;
    stride::store_to_device(&t.cq.cq.dbrec[0], be32{40});
    for (unsigned i = 0; i < 33; ++i) {
        t.sq.send(t.lkey, t.memory.address(), 100);
        t.engine.step(16);
    }
    EXPECT_EQ(broken_count(Rule::cq_ci_ahead), 1U);
}

TEST(SendRules, WorkPostedInErrorIsFlushedToo) {
    Sending t;
    set_qp_state(t.sq.qp, QueueState::error);
    t.sq.send(t.lkey, t.memory.address(), 100);
    EXPECT_EQ(t.engine.step(16), 0U);
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome(), Syndrome::flushed);
    EXPECT_TRUE(t.wire->sent.empty());
}

TEST(SendRules, FlushWaitsForRoomInTheCq) {
    Sending t;
    TestCq small{t, 2};
    t.sq.qp.sq.cq = &small.cq;
    for (unsigned i = 0; i < 10; ++i) {
        t.sq.ctrl(Opcode::nop, 1, false);
        t.sq.post(1);
    }
    set_qp_state(t.sq.qp, QueueState::error);
    unsigned flushed = 0;
    for (unsigned i = 0; i < 20; ++i) {
        t.engine.step(16);
        while (small.poll())
            ++flushed;
    }
    EXPECT_EQ(flushed, 10U);
    EXPECT_FALSE(small.cq.overrun);
}

} // namespace
} // namespace swhca::test
