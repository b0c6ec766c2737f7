// SPDX-License-Identifier: BSD-3-Clause
/// Which rule takes a frame, and which queue gets it.
#include "frames.hpp"

#include "swhca/engine/steering.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;

/// A bench with several queues, each behind its own QP and rule.
struct Rules : Bench {
    static constexpr unsigned queue_count = 4;
    Rules()
        : cq{*this, 8} {
        for (unsigned i = 0; i < queue_count; ++i) {
            rqs.push_back(std::make_unique<TestStridingRq>(*this, cq, TestStridingRq::Shape{2, 4, 7, false}));
            rqs.back()->rq.user_index = i;
            rqs.back()->post(4);
            rqts[i].wqs = {&rqs.back()->rq};
            qps[i].type = QpType::rss;
            qps[i].rqt = &rqts[i];
        }
    }
    Flow& add(unsigned queue, FlowKind kind = FlowKind::normal) {
        rules.push_back(std::make_unique<Flow>());
        rules.back()->kind = kind;
        rules.back()->qp = &qps[queue];
        auto& list = kind == FlowKind::sniffer ? device.port.sniffers : device.port.flows;
        list.push_back(rules.back().get());
        ++device.port.flow_changes;
        return *rules.back();
    }
    /// The queues that got the frame, as a list of digits.
    std::string queues_of(const Bytes& frame) {
        wire->give(frame);
        std::string queues;
        while (const auto cqe = cq.poll())
            queues += std::to_string(cqe->get<Cqe::user_index>());
        return queues;
    }

    TestCq cq;
    std::vector<std::unique_ptr<TestStridingRq>> rqs{};
    std::array<Rqt, queue_count> rqts{};
    std::array<Qp, queue_count> qps{};
    std::vector<std::unique_ptr<Flow>> rules{};
};

void match_mac(Flow& flow, std::array<std::uint8_t, 6> mac) {
    flow.match.dst_mac = mac;
    flow.match.dst_mac_mask.fill(0xff);
}

TEST(Steering, FrameNoRuleTakesIsDroppedAndCounted) {
    Rules t;
    match_mac(t.add(0), {2, 0, 0, 0, 0, 1});
    FrameSpec spec;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "0");
    spec.dst_mac[5] = 9;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "");
    EXPECT_EQ(t.device.port.counters.rx_steering_miss, 1U);
}

TEST(Steering, FirstRuleThatMatchesWins) {
    Rules t;
    Flow& tcp = t.add(1);
    tcp.match.ip_version = 4;
    tcp.match.ip_proto = 6;
    tcp.match.ip_proto_mask = 0xff;
    match_mac(t.add(0), {2, 0, 0, 0, 0, 1});
    t.add(2, FlowKind::multicast_default);
    t.add(3, FlowKind::all_default);
    FrameSpec spec;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "0");
    spec.tcp = true;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "1");
    spec.tcp = false;
    spec.dst_mac = {0x33, 0x33, 0, 0, 0, 1};
    EXPECT_EQ(t.queues_of(make_frame(spec)), "2");
    spec.dst_mac = {4, 0, 0, 0, 0, 1};
    EXPECT_EQ(t.queues_of(make_frame(spec)), "3");
}

TEST(Steering, EveryFieldIsCompared) {
    FrameSpec spec;
    spec.vlans = {0x2123};
    const Bytes frame = make_frame(spec);
    const auto takes = [&](auto edit) {
        Rules t;
        edit(t.add(0).match);
        return t.queues_of(frame) == "0";
    };
    EXPECT_TRUE(takes([](FlowMatch& m) { m.src_port = 1000, m.src_port_mask = 0xffff; }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.src_port = 1001, m.src_port_mask = 0xffff; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.src_port = 1001, m.src_port_mask = 0xfffc; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.dst_port = 2000, m.dst_port_mask = 0xffff; }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.dst_port = 2001, m.dst_port_mask = 0xffff; }));
    EXPECT_TRUE(
        takes([](FlowMatch& m) { m.vlan_tci = 0x123, m.vlan_tci_mask = 0xfff, m.needs_vlan = true; }));
    EXPECT_FALSE(
        takes([](FlowMatch& m) { m.vlan_tci = 0x124, m.vlan_tci_mask = 0xfff, m.needs_vlan = true; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.ether_type = 0x0800, m.ether_type_mask = 0xffff; }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.ether_type = 0x86dd, m.ether_type_mask = 0xffff; }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.ip_version = 6; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.src_ip = {10, 0, 0, 1}, m.src_ip_mask = {255, 255, 255, 255}; }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.src_ip = {10, 0, 0, 2}, m.src_ip_mask = {255, 255, 255, 255}; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.dst_ip = {10, 0, 0, 0}, m.dst_ip_mask = {255, 255, 255, 0}; }));
    EXPECT_TRUE(takes([](FlowMatch& m) { m.src_mac = {2, 0, 0, 0, 0, 2}, m.src_mac_mask.fill(255); }));
    EXPECT_FALSE(takes([](FlowMatch& m) { m.src_mac = {2, 0, 0, 0, 0, 3}, m.src_mac_mask.fill(255); }));
}

TEST(Steering, RuleThatNeedsATagTakesNoUntaggedFrame) {
    Rules t;
    t.add(0).match.needs_vlan = true;
    FrameSpec spec;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "");
    spec.vlans = {5};
    EXPECT_EQ(t.queues_of(make_frame(spec)), "0");
}

TEST(Steering, Ipv6AddressesAreComparedInFull) {
    FrameSpec spec;
    spec.ipv6 = true;
    spec.src = "fe80::1";
    spec.dst = "fe80::1:2";
    Rules t;
    Flow& flow = t.add(0);
    const Bytes dst = address_bytes("fe80::1:2", true);
    std::copy(dst.begin(), dst.end(), flow.match.dst_ip.begin());
    flow.match.dst_ip_mask.fill(0xff);
    EXPECT_EQ(t.queues_of(make_frame(spec)), "0");
    spec.dst = "fe80::1:3";
    EXPECT_EQ(t.queues_of(make_frame(spec)), "");
}

TEST(Steering, DropRuleDropsWithoutCountingAMiss) {
    Rules t;
    Flow& drop = t.add(0);
    drop.match.drop = true;
    t.add(1, FlowKind::all_default);
    EXPECT_EQ(t.queues_of(make_frame({})), "");
    EXPECT_EQ(t.device.port.counters.rx_steering_miss, 0U);
}

TEST(Steering, TagOfTheRuleIsInTheCqe) {
    Rules t;
    Flow& flow = t.add(0);
    flow.match.has_tag = true;
    flow.match.tag = 0xabcdef;
    t.wire->give(make_frame({}));
    const auto cqe = t.cq.poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->get<Cqe::flow_tag>(), 0xabcdefU);
}

TEST(Steering, SnifferGetsACopyOfEverything) {
    Rules t;
    match_mac(t.add(0), {2, 0, 0, 0, 0, 1});
    t.add(3, FlowKind::sniffer);
    FrameSpec spec;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "03");
    spec.dst_mac[5] = 9;
    EXPECT_EQ(t.queues_of(make_frame(spec)), "3");
}

TEST(Steering, RssSpreadsFlowsOverTheTableByHash) {
    Rules t;
    t.rqts[0].wqs = {&t.rqs[0]->rq, &t.rqs[1]->rq, &t.rqs[2]->rq, &t.rqs[3]->rq};
    t.qps[0].rss.fields = 0xff;
    for (std::size_t i = 0; i < t.qps[0].rss.key.size(); ++i)
        t.qps[0].rss.key[i] = static_cast<std::uint8_t>(i * 37 + 11);
    t.add(0, FlowKind::all_default);
    std::array<unsigned, 4> hits{};
    for (std::uint16_t port = 0; port < 64; ++port) {
        FrameSpec spec;
        spec.src_port = port;
        for (unsigned repeat = 0; repeat < 2; ++repeat) {
            t.wire->give(make_frame(spec));
            const auto cqe = t.cq.poll();
            ASSERT_TRUE(cqe);
            const std::uint32_t queue = cqe->get<Cqe::user_index>();
            EXPECT_EQ(queue, cqe->get<Cqe::rx_hash_result>() % 4);
            EXPECT_EQ(cqe->get<Cqe::rx_hash_ip_source>(), 1U);
            EXPECT_EQ(cqe->get<Cqe::rx_hash_l4_destination>(), 2U);
            ++hits[queue];
            if (hits[queue] % 16 == 0) t.rqs[queue]->post(4 + hits[queue] / 16);
        }
    }
    for (const unsigned count : hits)
        EXPECT_GT(count, 8U);
}

TEST(Steering, WithoutFieldsEverythingGoesToTheFirstEntry) {
    Rules t;
    t.rqts[0].wqs = {&t.rqs[2]->rq, &t.rqs[1]->rq};
    t.add(0, FlowKind::all_default);
    for (std::uint16_t port = 0; port < 16; ++port) {
        FrameSpec spec;
        spec.src_port = port;
        EXPECT_EQ(t.queues_of(make_frame(spec)), "2");
    }
}

TEST(Steering, QueueThatIsNotReadyDropsAndCounts) {
    Rules t;
    t.add(0, FlowKind::all_default);
    set_rq_state(t.rqs[0]->rq, QueueState::reset, t.device.port);
    EXPECT_EQ(t.queues_of(make_frame({})), "");
    EXPECT_EQ(t.device.port.counters.rx_queue_error, 1U);
}

TEST(Steering, ListensOnlyWhileARuleLeadsToAReadyQueue) {
    Rules t;
    EXPECT_FALSE(t.wire->sink->listening());
    t.add(0, FlowKind::all_default);
    EXPECT_TRUE(t.wire->sink->listening());
    set_rq_state(t.rqs[0]->rq, QueueState::reset, t.device.port);
    EXPECT_FALSE(t.wire->sink->listening());
}

} // namespace
} // namespace swhca::test
