// SPDX-License-Identifier: BSD-3-Clause
/// Regular receive queues, and what every receive CQE says.
#include "frames.hpp"

#include "swhca/engine/crc32.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;

/// A regular queue of 4 WQEs of 4 data segments.
struct Regular : Bench {
    Regular()
        : cq{*this, 5}
        , ring{4 * 64}
        , record{64}
        , memory{64 * 1024} {
        lkey = add_region(memory);
        rq.wqn = Wqn{0x11};
        rq.context = &context;
        rq.pd = pd;
        rq.cq = &cq.cq;
        rq.ring = ring.data();
        rq.size = RingSize::from_log(2);
        rq.log_wqe_bytes = 6;
        rq.dbrec = reinterpret_cast<be32*>(record.data());
        rq.user_index = 0x77;
        set_rq_state(rq, QueueState::ready, device.port);
        steer_all_to(rq);
    }
    /// Posts a WQE of segments of these lengths, 4096 bytes apart from `offset` on.
    void post(const std::vector<std::uint32_t>& lengths, std::size_t offset = 0) {
        std::byte* wqe = ring.data() + rq.size.slot(pi) * 64;
        std::memset(wqe, 0, 64);
        for (std::size_t i = 0; i < 4; ++i) {
            std::byte* segment = wqe + i * 16;
            const bool used = i < lengths.size();
            prm::DataSegment::lkey::set(segment, used ? lkey.value : prm::terminator_lkey);
            if (!used) break;
            prm::DataSegment::byte_count::set(segment, lengths[i]);
            prm::DataSegment::address::set(segment, memory.address() + offset + i * 4096);
        }
        stride::store_to_device(rq.dbrec, be32{++pi});
    }

    TestCq cq;
    Memory ring, record, memory;
    Lkey lkey{};
    Rq rq{};
    std::uint16_t pi{};
};

TEST(RegularReceive, OneWqeOnePacket) {
    Regular t;
    for (unsigned i = 0; i < 20; ++i) {
        t.post({2048}, 100 * i);
        const Bytes frame = plain_frame(60 + i, i);
        t.wire->give(frame);
        const auto cqe = t.cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_send);
        EXPECT_EQ(cqe->get<Cqe::byte_count>(), frame.size());
        EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), i);
        EXPECT_EQ(cqe->get<Cqe::user_index>(), 0x77U);
        EXPECT_EQ(t.memory.copy(100 * i, frame.size()), frame);
    }
    t.wire->give(plain_frame(60));
    EXPECT_EQ(t.device.port.counters.out_of_buffer, 1U);
}

TEST(RegularReceive, ScatterListIsFilledInOrder) {
    Regular t;
    t.post({100, 7, 1000});
    const Bytes frame = plain_frame(500);
    t.wire->give(frame);
    Bytes found = t.memory.copy(0, 100);
    for (const Bytes& part : {t.memory.copy(4096, 7), t.memory.copy(8192, 393)})
        found.insert(found.end(), part.begin(), part.end());
    EXPECT_EQ(found, frame);
}

TEST(RegularReceive, PacketLongerThanItsWqeIsALengthErrorAndTheQueueGoesOn) {
    Regular t;
    t.post({100});
    t.post({100});
    t.wire->give(plain_frame(101));
    const auto failed = t.cq.poll();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->opcode(), prm::CqeOpcode::responder_error);
    EXPECT_EQ(failed->syndrome(), prm::Syndrome::local_length);
    EXPECT_EQ(failed->get<prm::ErrorCqe::wqe_counter>(), 0U);
    t.wire->give(plain_frame(100));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), 1U);
    EXPECT_EQ(t.device.port.counters.rx_oversize, 1U);
    EXPECT_EQ(broken_total(), 0U);
}

TEST(RegularReceive, BadLkeyFailsTheQueue) {
    Regular t;
    t.post({100});
    prm::DataSegment::lkey::set(t.ring.data(), 0xabc00);
    t.wire->give(plain_frame(60));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome(), prm::Syndrome::local_protection);
    EXPECT_EQ(broken_count(Rule::bad_lkey), 1U);
    EXPECT_EQ(t.rq.state, QueueState::error);
}

TEST(ReceiveCqe, TellsTypesAndChecksums) {
    Regular t;
    const auto cqe_of = [&](const FrameSpec& spec, bool spoil) {
        t.post({2048});
        Bytes frame = make_frame(spec);
        if (spoil) frame.back() ^= 1;
        t.wire->give(frame);
        return *t.cq.poll();
    };
    FrameSpec spec;
    CqeCopy cqe = cqe_of(spec, false);
    EXPECT_EQ(cqe.get<Cqe::l3_type>(), 2U);
    EXPECT_EQ(cqe.get<Cqe::l4_type>(), 2U);
    EXPECT_EQ(cqe.get<Cqe::l2_ok>() + cqe.get<Cqe::l3_ok>() + cqe.get<Cqe::l4_ok>(), 3U);
    EXPECT_EQ(cqe.get<Cqe::ip_options>() + cqe.get<Cqe::ip_fragment>(), 0U);
    cqe = cqe_of(spec, true);
    EXPECT_EQ(cqe.get<Cqe::l3_ok>(), 1U);
    EXPECT_EQ(cqe.get<Cqe::l4_ok>(), 0U);
    spec.options = 8;
    EXPECT_EQ(cqe_of(spec, false).get<Cqe::ip_options>(), 1U);
    spec.fragment = 0x2000;
    cqe = cqe_of(spec, false);
    EXPECT_EQ(cqe.get<Cqe::ip_fragment>(), 1U);
    EXPECT_EQ(cqe.get<Cqe::l4_type>(), 0U);
    spec = FrameSpec{};
    spec.ipv6 = spec.tcp = true;
    spec.src = spec.dst = "fe80::1";
    cqe = cqe_of(spec, false);
    EXPECT_EQ(cqe.get<Cqe::l3_type>(), 1U);
    EXPECT_EQ(cqe.get<Cqe::l4_type>(), 4U);
    EXPECT_EQ(cqe.get<Cqe::l4_ok>(), 1U);
}

TEST(ReceiveCqe, FrameThatIsNoIpHasNoTypes) {
    Regular t;
    t.post({2048});
    t.wire->give(plain_frame(60));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::l3_type>() + cqe->get<Cqe::l4_type>(), 0U);
    EXPECT_EQ(cqe->get<Cqe::l3_ok>() + cqe->get<Cqe::l4_ok>(), 0U);
    EXPECT_EQ(cqe->get<Cqe::l2_ok>(), 1U);
}

TEST(ReceiveCqe, TimestampsGrow) {
    Regular t;
    std::uint64_t last = 0;
    for (unsigned i = 0; i < 3; ++i) {
        t.post({2048});
        t.wire->give(plain_frame(60));
        const auto cqe = t.cq.poll();
        ASSERT_TRUE(cqe);
        const std::uint64_t now = Cqe::timestamp::get(cqe->bytes.data());
        EXPECT_GE(now, last);
        EXPECT_NE(now, 0U);
        last = now;
    }
}

TEST(ReceiveOffload, StrippedTagIsInTheCqeAndNotInTheFrame) {
    Regular t;
    t.rq.vlan_strip = true;
    FrameSpec spec;
    spec.vlans = {0x2123};
    t.post({2048});
    t.wire->give(make_frame(spec));
    auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::vlan_stripped>(), 1U);
    EXPECT_EQ(cqe->get<Cqe::vlan_tci>(), 0x2123U);
    spec.vlans.clear();
    const Bytes untagged = make_frame(spec);
    EXPECT_EQ(cqe->get<Cqe::byte_count>(), untagged.size());
    EXPECT_EQ(t.memory.copy(0, untagged.size()), untagged);
    t.post({2048});
    t.wire->give(untagged);
    cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::vlan_stripped>(), 0U);
}

TEST(ReceiveOffload, TagStaysIfStrippingIsOff) {
    Regular t;
    FrameSpec spec;
    spec.vlans = {0x2123};
    t.post({2048});
    const Bytes frame = make_frame(spec);
    t.wire->give(frame);
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::vlan_stripped>(), 0U);
    EXPECT_EQ(t.memory.copy(0, frame.size()), frame);
}

TEST(ReceiveOffload, FcsFollowsTheFrame) {
    Regular t;
    t.rq.scatter_fcs = true;
    t.post({2048});
    const Bytes frame = plain_frame(60);
    t.wire->give(frame);
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::byte_count>(), 64U);
    // The CRC of a frame with its FCS is a constant (IEEE 802.3).
    EXPECT_EQ(frame_check_sequence(CutFrame{t.memory.copy(0, 64)}.frame()), ~0xdebb20e3U);
}

} // namespace
} // namespace swhca::test
