// SPDX-License-Identifier: BSD-3-Clause
/// UD and SOURCE_QPN QPs: what they put on the wire, and what comes of what they get.
#include "datagram_rig.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;
using To = TestUdQp::To;

constexpr std::size_t lrh = 0, bth = ib::Lrh::bytes, deth = bth + ib::Bth::bytes,
                      local_payload = deth + ib::Deth::bytes;
constexpr std::size_t tail = ib::icrc_bytes + ib::vcrc_bytes;

Bytes counted(std::size_t length) {
    Bytes bytes(length);
    for (std::size_t i = 0; i < length; ++i)
        bytes[i] = static_cast<std::uint8_t>(i + 1);
    return bytes;
}

/// An IP packet of `spec` behind an IPoIB header.
Bytes ipoib(const FrameSpec& spec) {
    Bytes frame = make_frame(spec);
    Bytes payload{frame[12], frame[13], 0, 0};
    payload.insert(payload.end(), frame.begin() + 14, frame.end());
    return payload;
}

TEST(Datagram, ToAnotherLidIsAnInfiniBandPacketOnTheWire) {
    IbBench t;
    TestUdQp qp{t, 0x48, 0x1111};
    const Bytes payload = counted(101);
    qp.send({.qpn = 0x77, .qkey = 0xabcd, .lid = 9}, payload);
    t.engine.step(64);
    ASSERT_EQ(t.wire->sent.size(), 1U);
    const Bytes& frame = t.wire->sent[0];
    ASSERT_EQ(frame.size(), local_payload + 101 + 3 + tail);
    EXPECT_EQ(header_at(frame, lrh, ib::Lrh::destination_lid::get), 9U);
    EXPECT_EQ(header_at(frame, lrh, ib::Lrh::source_lid::get), 5U);
    EXPECT_EQ(header_at(frame, lrh, ib::Lrh::service_level::get), 3U);
    EXPECT_EQ(header_at(frame, lrh, ib::Lrh::next_header::get), ib::next_is_bth);
    EXPECT_EQ(header_at(frame, lrh, ib::Lrh::length_words::get) * 4, frame.size() - ib::vcrc_bytes);
    EXPECT_EQ(header_at(frame, bth, ib::Bth::opcode::get), ib::ud_send_only);
    EXPECT_EQ(header_at(frame, bth, ib::Bth::pad_bytes::get), 3U);
    EXPECT_EQ(header_at(frame, bth, ib::Bth::pkey::get), 0xffffU);
    EXPECT_EQ(header_at(frame, bth, ib::Bth::destination_qpn::get), 0x77U);
    EXPECT_EQ(header_at(frame, deth, ib::Deth::qkey::get), 0xabcdU);
    EXPECT_EQ(header_at(frame, deth, ib::Deth::source_qpn::get), 0x48U);
    EXPECT_EQ(Bytes(frame.begin() + local_payload, frame.begin() + local_payload + 101), payload);
    EXPECT_TRUE(qp.send_cq.poll());
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Datagram, ToTheOwnLidIsReceivedBehindTheGrhAreaAndNeverSeesTheWire) {
    IbBench t;
    TestUdQp from{t, 0x48, 0x1111}, to{t, 0x49, 0x2222};
    from.send({.qpn = 0x49, .qkey = 0x2222, .lid = 5}, counted(60));
    t.engine.step(64);
    EXPECT_TRUE(t.wire->sent.empty());
    const auto cqe = to.receive_cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_send);
    EXPECT_EQ(cqe->get<Cqe::byte_count>(), 100U);
    EXPECT_EQ(cqe->get<Cqe::source_lid>(), 5U);
    EXPECT_EQ(cqe->get<Cqe::source_qpn>(), 0x48U);
    EXPECT_EQ(cqe->get<Cqe::service_level>(), 3U);
    EXPECT_EQ(cqe->get<Cqe::grh>(), 0U);
    EXPECT_EQ(cqe->get<Cqe::qpn>(), 0x49U);
    EXPECT_EQ(cqe->get<Cqe::user_index>(), 0x99U);
    EXPECT_EQ(to.rq->at(0, 40, 60), counted(60));
    EXPECT_TRUE(from.send_cq.poll());
}

TEST(Datagram, GlobalRouteHeaderAndImmediateArrive) {
    IbBench t;
    TestUdQp from{t, 0x48, 1}, to{t, 0x49, 2};
    from.send({.qpn = 0x49, .qkey = 2, .lid = 5, .global = true, .gid = t.device.port.gids[0].gid},
              counted(8), prm::Opcode::send_immediate);
    t.engine.step(64);
    const auto cqe = to.receive_cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_send_immediate);
    EXPECT_EQ(cqe->get<Cqe::metadata>(), 0xcafe0001U);
    EXPECT_EQ(cqe->get<Cqe::grh>(), 1U);
    const Bytes gid{t.device.port.gids[0].gid.begin(), t.device.port.gids[0].gid.end()};
    EXPECT_EQ(to.rq->at(0, 8, 16), gid);
    EXPECT_EQ(to.rq->at(0, 24, 16), gid);
    EXPECT_EQ(to.rq->at(0, 40, 8), counted(8));
}

TEST(Datagram, WrongKeysAndUnknownQueuesAreCountedAndDropped) {
    IbBench t;
    TestUdQp from{t, 0x48, 1}, to{t, 0x49, 2};
    from.send({.qpn = 0x49, .qkey = 3, .lid = 5}, counted(8));
    t.engine.step(64);
    EXPECT_EQ(t.counters().rx_bad_qkey, 1U);
    from.send({.qpn = 0x50, .qkey = 2, .lid = 5}, counted(8));
    t.engine.step(64);
    EXPECT_EQ(t.counters().rx_no_qp, 1U);
    to.sq.qp.pkey_index = 1;
    from.send({.qpn = 0x49, .qkey = 2, .lid = 5}, counted(8));
    t.engine.step(64);
    EXPECT_EQ(t.counters().rx_bad_pkey, 1U);
    EXPECT_FALSE(to.receive_cq.poll());
    to.sq.qp.pkey_index = 0;
    from.send({.qpn = 0x49, .qkey = 0x80000000, .lid = 5}, counted(8)); // the sender's own: 1
    t.engine.step(64);
    EXPECT_EQ(t.counters().rx_bad_qkey, 2U);
}

TEST(Datagram, LimitedMembersOfAPartitionDoNotReachEachOther) {
    IbBench t;
    t.device.port.pkeys = {0x7001};
    TestUdQp from{t, 0x48, 1}, to{t, 0x49, 2};
    from.send({.qpn = 0x49, .qkey = 2, .lid = 5}, counted(8));
    t.engine.step(64);
    EXPECT_EQ(t.counters().rx_bad_pkey, 1U);
}

TEST(Datagram, GroupGetsACopyEachAndTheWireOne) {
    IbBench t;
    TestUdQp from{t, 0x48, 7}, one{t, 0x49, 7}, two{t, 0x4a, 7}, silent{t, 0x4b, 7}, outside{t, 0x4c, 7};
    const MulticastGroup group{Gid{0xff, 0x12, 1}, 0xc001};
    one.sq.qp.groups = two.sq.qp.groups = silent.sq.qp.groups = {group};
    silent.sq.qp.block_multicast_loopback = true;
    from.send({.qpn = ib::multicast_qpn, .qkey = 7, .lid = 0xc001, .global = true, .gid = group.gid},
              counted(8));
    t.engine.step(64);
    EXPECT_EQ(t.wire->sent.size(), 1U);
    EXPECT_TRUE(one.receive_cq.poll());
    EXPECT_TRUE(two.receive_cq.poll());
    EXPECT_FALSE(silent.receive_cq.poll());
    EXPECT_FALSE(outside.receive_cq.poll());
    // The same packet from another port reaches the one that refuses its own.
    Bytes frame = t.wire->sent[0];
    ib::Lrh::source_lid::set(frame.data(), 77);
    t.wire->give(frame);
    const auto cqe = silent.receive_cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::source_lid>(), 77U);
    EXPECT_FALSE(outside.receive_cq.poll());
}

TEST(Datagram, OwnPacketComingBackOverTheWireIsNotReceivedTwice) {
    IbBench t;
    TestUdQp from{t, 0x48, 7}, to{t, 0x49, 7};
    to.sq.qp.groups = {{Gid{0xff}, 0xc001}};
    from.send({.qpn = ib::multicast_qpn, .qkey = 7, .lid = 0xc001}, counted(8));
    t.engine.step(64);
    EXPECT_TRUE(to.receive_cq.poll());
    t.wire->give(t.wire->sent[0]);
    EXPECT_FALSE(to.receive_cq.poll());
    EXPECT_EQ(t.counters().rx_foreign, 1U);
}

TEST(Underlay, AllQueuesOfASharedQpnSendUnderIt) {
    IbBench t;
    TestUdQp owner{t, 0x48, 7};
    std::vector<std::unique_ptr<TestUdQp>> queues;
    for (std::uint32_t i = 0; i < 4; ++i) {
        queues.push_back(std::make_unique<TestUdQp>(t, 0x60 + i, 0, 0x48));
        queues[i]->send_underlay({.qpn = 0x77, .qkey = 7, .lid = 9}, counted(100));
    }
    t.engine.step(64);
    ASSERT_EQ(t.wire->sent.size(), 4U);
    for (const Bytes& frame : t.wire->sent) {
        EXPECT_EQ(header_at(frame, deth, ib::Deth::source_qpn::get), 0x48U);
        EXPECT_EQ(Bytes(frame.begin() + local_payload, frame.end() - tail), counted(100));
    }
    for (const auto& queue : queues)
        EXPECT_TRUE(queue->send_cq.poll());
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Underlay, ChecksumsAreInsertedBehindTheIpoibHeader) {
    IbBench t;
    TestUdQp owner{t, 0x48, 7}, queue{t, 0x60, 0, 0x48};
    for (const bool ipv6 : {false, true}) {
        FrameSpec spec{.ipv6 = ipv6, .payload = 300};
        if (ipv6) spec.src = "fe80::1", spec.dst = "fe80::2";
        const Bytes right = ipoib(spec);
        spec.checksums = false;
        t.wire->sent.clear();
        queue.send_underlay({.qpn = 0x77, .qkey = 7, .lid = 9}, ipoib(spec), true, 18);
        t.engine.step(64);
        ASSERT_EQ(t.wire->sent.size(), 1U);
        const Bytes& frame = t.wire->sent[0];
        EXPECT_EQ(Bytes(frame.begin() + local_payload, frame.begin() + local_payload + right.size()), right);
    }
}

TEST(Underlay, InlineHeaderShorterThanIpoibsBreaksARule) {
    IbBench t;
    TestUdQp queue{t, 0x60, 0, 0x48};
    queue.send_underlay({.qpn = 0x77, .qkey = 7, .lid = 9}, counted(100), false, 3);
    t.engine.step(64);
    EXPECT_EQ(broken_count(Rule::inline_header), 1U);
    const auto cqe = queue.send_cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::requester_error);
}

TEST(Datagram, LongerThanTheMtuIsALengthError) {
    IbBench t;
    TestUdQp qp{t, 0x48, 7};
    qp.send({.qpn = 0x77, .qkey = 7, .lid = 9}, counted(2048));
    t.engine.step(64);
    EXPECT_EQ(t.wire->sent.size(), 1U);
    EXPECT_TRUE(qp.send_cq.poll());
    qp.send({.qpn = 0x77, .qkey = 7, .lid = 9}, counted(2049));
    t.engine.step(64);
    const auto cqe = qp.send_cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome(), prm::Syndrome::local_length);
}

TEST(Underlay, RuleOfASharedQpnTakesItsFlowTheRestIsTheOwners) {
    IbBench t;
    TestUdQp owner{t, 0x48, 7}, peer{t, 0x50, 7};
    TestCq cq{t, 6};
    Rq rq;
    TestPlainRq ring{t, cq, rq};
    set_rq_state(rq, QueueState::ready, t.device.port);
    t.steer_all_to(rq);
    t.qp.source_qpn = 0x48;
    t.flow.kind = FlowKind::normal;
    t.flow.match.ip_proto = 17, t.flow.match.ip_proto_mask = 0xff;
    t.flow.match.dst_port = 4000, t.flow.match.dst_port_mask = 0xffff;
    ++t.device.port.flow_changes;
    peer.send({.qpn = 0x48, .qkey = 7, .lid = 5}, ipoib({.dst_port = 4000}));
    t.engine.step(64);
    peer.send({.qpn = 0x48, .qkey = 7, .lid = 5}, ipoib({.dst_port = 4001}));
    t.engine.step(64);
    peer.send({.qpn = 0x50, .qkey = 7, .lid = 5}, ipoib({.dst_port = 4000}));
    t.engine.step(64);
    const auto taken = cq.poll();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->get<Cqe::l3_ok>(), 1U);
    EXPECT_EQ(taken->get<Cqe::l4_ok>(), 1U);
    EXPECT_EQ(taken->get<Cqe::qpn>(), 0x48U);
    EXPECT_FALSE(cq.poll());
    EXPECT_TRUE(owner.receive_cq.poll());
    EXPECT_FALSE(owner.receive_cq.poll());
    EXPECT_TRUE(peer.receive_cq.poll());
    t.device.port.flows.clear();
}

TEST(Underlay, RssSpreadsIpoibFlowsByTheirAddresses) {
    IbBench t;
    TestUdQp owner{t, 0x48, 7}, peer{t, 0x50, 7};
    TestCq cq{t, 6};
    Rq first, second;
    TestPlainRq first_ring{t, cq, first}, second_ring{t, cq, second};
    set_rq_state(first, QueueState::ready, t.device.port);
    set_rq_state(second, QueueState::ready, t.device.port);
    t.steer_all_to(first);
    t.rqt.wqs = {&first, &second};
    t.qp.source_qpn = 0x48;
    t.qp.rss.fields = 0x3 | 0xc0; // IPv4 addresses, UDP ports
    t.qp.rss.key.fill(0x6d);
    t.qp.rss.key[7] = 0x31;
    ++t.device.port.flow_changes;
    for (std::uint16_t i = 0; i < 12; ++i)
        peer.send({.qpn = 0x48, .qkey = 7, .lid = 5},
                  ipoib({.src_port = static_cast<std::uint16_t>(i * 977)})),
            t.engine.step(64);
    EXPECT_EQ(first.ci + second.ci, 12);
    EXPECT_GT(first.ci, 0);
    EXPECT_GT(second.ci, 0);
    t.device.port.flows.clear();
}

/// An SRQ of 8 WQEs, linked as libmlx5 links them.
struct TestSrq {
    explicit TestSrq(TestDevice& on)
        : ring{8 * 32}
        , record{64}
        , buffers{8 * 256} {
        srq.srqn = 3;
        srq.context = &on.context;
        srq.pd = on.pd;
        srq.ring = ring.data();
        srq.size = RingSize::from_log(3);
        srq.log_wqe_bytes = 5;
        srq.dbrec = reinterpret_cast<be32*>(record.data());
        const Lkey lkey = on.add_region(buffers);
        for (std::uint32_t i = 0; i < 8; ++i) {
            std::byte* wqe = ring.data() + i * 32;
            prm::NextSegment::next_wqe_index::set(wqe, (i + 3) & 7U); // another order than the ring's
            prm::DataSegment::byte_count::set(wqe + 16, 256);
            prm::DataSegment::lkey::set(wqe + 16, lkey.value);
            prm::DataSegment::address::set(wqe + 16, buffers.address() + i * 256);
        }
        open_srq(srq);
    }
    Srq srq{};
    Memory ring, record, buffers;
};

TEST(Srq, WqesAreTakenInTheOrderOfTheirLinks) {
    IbBench t;
    TestUdQp from{t, 0x48, 7}, to{t, 0x49, 7};
    TestSrq shared{t};
    to.sq.qp.srq = &shared.srq;
    to.sq.qp.sq.user_index = 0x777;
    stride::store_to_device(shared.srq.dbrec, be32{3});
    for (unsigned i = 0; i < 4; ++i)
        from.send({.qpn = 0x49, .qkey = 7, .lid = 5}, counted(10 + i)), t.engine.step(64);
    for (const std::uint32_t index : {0U, 3U, 6U}) {
        const auto cqe = to.receive_cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->get<Cqe::wqe_counter>(), index);
        EXPECT_EQ(cqe->get<Cqe::user_index>(), 0x777U);
        EXPECT_EQ(shared.buffers.copy(index * 256 + 40, 10), counted(10));
    }
    EXPECT_FALSE(to.receive_cq.poll());
    EXPECT_EQ(t.counters().out_of_buffer, 1U);
}

TEST(Datagram, OverEthernetIsRoceOfTheSourceGidsType) {
    Bench t;
    Port& port = t.device.port;
    port.mac = {2, 0x53, 0x57, 0, 0, 1};
    const Gid own{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    const Gid mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    port.gids = {{own, false}, {own, true}, {mapped, true}};
    TestUdQp from{t, 0x48, 1}, to{t, 0x49, 2};
    for (std::uint32_t index = 0; index < 3; ++index) {
        To where{.qpn = 0x49, .qkey = 2, .global = true, .mac = port.mac, .gid_index = index};
        where.gid = port.gids[index].gid;
        from.send(where, counted(20));
        t.engine.step(64);
        const auto cqe = to.receive_cq.poll();
        ASSERT_TRUE(cqe) << index;
        EXPECT_EQ(cqe->get<Cqe::byte_count>(), 60U);
        EXPECT_EQ(cqe->get<Cqe::grh>(), 1U);
        EXPECT_EQ(cqe->get<Cqe::service_level>(), index);
        EXPECT_EQ(to.rq->at(index, 40, 20), counted(20));
        where.mac = {2, 9, 9, 9, 9, 9};
        from.send(where, counted(20));
        t.engine.step(64);
    }
    ASSERT_EQ(t.wire->sent.size(), 3U);
    for (Bytes frame : t.wire->sent) {
        EXPECT_FALSE(to.receive_cq.poll());
        std::copy(port.mac.begin(), port.mac.end(), frame.begin());
        frame[11] = 0x77; // from another port
        t.wire->give(frame);
        EXPECT_TRUE(to.receive_cq.poll());
    }
    EXPECT_EQ(port.counters.rx_malformed + port.counters.rx_bad_qkey + port.counters.rx_bad_pkey, 0U);
}

TEST(Datagram, CutPacketsAreCountedAndHurtNobody) {
    IbBench t;
    TestUdQp from{t, 0x48, 7}, to{t, 0x49, 7};
    from.send({.qpn = 0x77, .qkey = 7, .lid = 9, .global = true}, counted(40));
    t.engine.step(64);
    const Bytes whole = t.wire->sent.at(0);
    for (std::size_t length = 1; length < whole.size(); ++length)
        t.wire->give(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    EXPECT_EQ(t.counters().rx_malformed, whole.size() - 1);
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const unsigned flip : {0x01U, 0x80U, 0xffU}) {
            Bytes spoilt = whole;
            spoilt[at] = static_cast<std::uint8_t>(spoilt[at] ^ flip);
            t.wire->give(spoilt);
        }
    }
    EXPECT_EQ(broken_total(), 0U);
}

} // namespace
} // namespace swhca::test
