// SPDX-License-Identifier: BSD-3-Clause
/// rte_flow: what rules take, where it goes, and what the mbufs say of it.
#include "ethdev_fixture.hpp"

#include <rte_flow.h>

#include <string>

namespace stride::test {
namespace {

constexpr std::uint16_t marked_port = 1005;

rte_flow_item item_of(rte_flow_item_type type, const void* spec = nullptr, const void* mask = nullptr) {
    rte_flow_item item{};
    item.type = type;
    item.spec = spec;
    item.mask = mask;
    return item;
}

rte_flow_action action_of(rte_flow_action_type type, const void* conf = nullptr) {
    rte_flow_action action{};
    action.type = type;
    action.conf = conf;
    return action;
}

rte_flow_attr ingress() {
    rte_flow_attr attr{};
    attr.ingress = 1;
    return attr;
}

/// The parts of a rule, kept while it is made.
struct Rule {
    rte_flow_attr attr{ingress()};
    rte_flow_item_eth eth{};
    rte_flow_item_ipv4 ipv4{}, ipv4_mask{};
    rte_flow_item_udp udp{}, udp_mask{};
    rte_flow_action_queue queue{};
    rte_flow_action_mark mark{};
    std::vector<rte_flow_item> items{item_of(RTE_FLOW_ITEM_TYPE_ETH)};
    std::vector<rte_flow_action> actions{};

    /// Frames of UDP from `port`.
    Rule& from(std::uint16_t port) {
        udp.hdr.src_port = rte_cpu_to_be_16(port);
        udp_mask.hdr.src_port = 0xffff;
        items.push_back(item_of(RTE_FLOW_ITEM_TYPE_IPV4));
        items.push_back(item_of(RTE_FLOW_ITEM_TYPE_UDP, &udp, &udp_mask));
        return *this;
    }
    Rule& to_queue(std::uint16_t index) {
        queue.index = index;
        actions.push_back(action_of(RTE_FLOW_ACTION_TYPE_QUEUE, &queue));
        return *this;
    }
    Rule& marked(std::uint32_t id) {
        mark.id = id;
        actions.push_back(action_of(RTE_FLOW_ACTION_TYPE_MARK, &mark));
        return *this;
    }
    Rule& with(rte_flow_action_type type, const void* conf = nullptr) {
        actions.push_back(action_of(type, conf));
        return *this;
    }
    rte_flow* on(std::uint16_t port, rte_flow_error& error) {
        items.push_back(item_of(RTE_FLOW_ITEM_TYPE_END));
        actions.push_back(action_of(RTE_FLOW_ACTION_TYPE_END));
        const int valid = rte_flow_validate(port, &attr, items.data(), actions.data(), &error);
        rte_flow* const flow = rte_flow_create(port, &attr, items.data(), actions.data(), &error);
        EXPECT_EQ(valid == 0, flow != nullptr) << "validate and create agree";
        return flow;
    }
    rte_flow* on(std::uint16_t port) {
        rte_flow_error error{};
        rte_flow* const flow = on(port, error);
        EXPECT_NE(flow, nullptr) << (error.message != nullptr ? error.message : "");
        return flow;
    }
    /// Why the port does not take the rule.
    std::string why_not(std::uint16_t port) {
        rte_flow_error error{};
        EXPECT_EQ(on(port, error), nullptr);
        return error.message != nullptr ? error.message : "";
    }
};

class EthdevFlow : public EthdevTest {
  protected:
    void start(const PortSetup& setup, bool marks = true) {
        std::uint64_t features = RTE_ETH_RX_METADATA_USER_MARK | RTE_ETH_RX_METADATA_USER_FLAG;
        if (!marks) features = 0;
        ASSERT_EQ(rte_eth_rx_metadata_negotiate(a_, &features), 0);
        queues_ = setup.rx_queues;
        bring_up(a_, setup);
        bring_up(b_);
    }
    /// What comes to `queue` of frames from the given UDP ports, as marks; -1: none, -2: a flag.
    std::vector<std::int64_t> marks_of(const std::vector<std::uint16_t>& ports, std::uint16_t queue) {
        std::vector<rte_mbuf*> frames;
        for (const std::uint16_t port : ports)
            frames.push_back(frame({.number = port, .bytes = 100, .udp_source = port}));
        send(b_, frames);
        std::vector<rte_mbuf*> got = receive(a_, ports.size(), queue);
        std::vector<std::int64_t> marks;
        for (const rte_mbuf* mbuf : got) {
            const bool tagged = (mbuf->ol_flags & RTE_MBUF_F_RX_FDIR) != 0;
            const bool numbered = (mbuf->ol_flags & RTE_MBUF_F_RX_FDIR_ID) != 0;
            marks.push_back(!tagged ? -1 : numbered ? std::int64_t{mbuf->hash.fdir.hi} : -2);
        }
        for (std::uint16_t other = 0; other < queues_; ++other) {
            if (other == queue) continue;
            const std::vector<rte_mbuf*> rest = receive(a_, ports.size() + 1, other);
            got.insert(got.end(), rest.begin(), rest.end());
        }
        rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
        return marks;
    }
    using Marks = std::vector<std::int64_t>;

  private:
    std::uint16_t queues_{};
};

TEST_F(EthdevFlow, RuleTakesItsFramesToAQueueWithAMark) {
    start({.rx_queues = 2});
    rte_flow* const flow = Rule{}.from(marked_port).to_queue(1).marked(0x1234).on(a_);
    EXPECT_EQ(marks_of({1000, marked_port, 1001, marked_port}, 1), (Marks{0x1234, 0x1234}));
    EXPECT_EQ(marks_of({1000, marked_port}, 0), (Marks{-1})) << "the rest is the port's own filters'";
    ASSERT_EQ(rte_flow_destroy(a_, flow, nullptr), 0);
    EXPECT_EQ(marks_of({marked_port}, 0), (Marks{-1}));
}

TEST_F(EthdevFlow, LongRunsOfMarkedFramesOfAllSizesAreMarked) {
    start({.rx_queues = 1});
    Rule{}.from(marked_port).to_queue(0).marked(0).on(a_);
    Rule{}.from(1006).to_queue(0).with(RTE_FLOW_ACTION_TYPE_FLAG).on(a_);
    Marks wanted;
    std::vector<std::uint16_t> ports;
    for (unsigned i = 0; i < 64; ++i) {
        ports.push_back(static_cast<std::uint16_t>(i % 3 == 0 ? marked_port : 1005 + i % 3));
        wanted.push_back(i % 3 == 0 ? 0 : i % 3 == 1 ? -2 : -1);
    }
    EXPECT_EQ(marks_of(ports, 0), wanted);
}

TEST_F(EthdevFlow, CompressedCompletionsHaveTheirMarks) {
    unplug(a_);
    a_ = plug("net_stride_a", "ibdev=mlx5_0,cqe_compression=1");
    start({.rx_queues = 1});
    Rule{}.from(marked_port).to_queue(0).marked(5).on(a_);
    Marks wanted;
    std::vector<std::uint16_t> ports;
    for (unsigned i = 0; i < 60; ++i) {
        const bool marked = i / 10 % 2 != 0;
        ports.push_back(marked ? marked_port : 1000);
        wanted.push_back(marked ? 5 : -1);
    }
    EXPECT_EQ(marks_of(ports, 0), wanted);
    EXPECT_EQ(xstat(a_, "rx_compressed_cqes") != 0, attaches(a_));
}

TEST_F(EthdevFlow, EveryItemThatVerbsCompareIsTaken) {
    start({.rx_queues = 2});
    const rte_flow_item_type layers[][2] = {{RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_TCP},
                                            {RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_UDP},
                                            {RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_TCP},
                                            {RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_UDP}};
    rte_flow_item_vlan vlan{};
    vlan.hdr.vlan_tci = rte_cpu_to_be_16(7);
    for (const auto& [network, transport] : layers) {
        Rule rule;
        rule.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_VLAN, &vlan));
        rule.items.push_back(item_of(network));
        rule.items.push_back(item_of(transport));
        rule.to_queue(1).on(a_);
    }
    EXPECT_EQ(marks_of({1000}, 0), (Marks{-1})) << "it has no tag";
}

TEST_F(EthdevFlow, DropAndPriorities) {
    start({.rx_queues = 2});
    Rule low;
    low.attr.priority = 1;
    low.from(marked_port).with(RTE_FLOW_ACTION_TYPE_DROP).on(a_);
    EXPECT_EQ(marks_of({marked_port, 1000}, 0), (Marks{-1}));
    Rule{}.from(marked_port).to_queue(1).marked(7).on(a_);
    EXPECT_EQ(marks_of({marked_port, 1000}, 1), (Marks{7})) << "priority 0 is tried before 1";
    ASSERT_EQ(rte_flow_flush(a_, nullptr), 0);
    EXPECT_EQ(marks_of({marked_port, 1000}, 0).size(), 2U);
}

TEST_F(EthdevFlow, RssSpreadsARulesFrames) {
    start({.rx_queues = 2});
    const std::uint16_t queues[] = {0, 1};
    rte_flow_action_rss rss{};
    rss.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    rss.queue = queues;
    rss.queue_num = 2;
    Rule{}.with(RTE_FLOW_ACTION_TYPE_RSS, &rss).on(a_);
    std::vector<std::uint16_t> ports;
    for (std::uint16_t i = 0; i < 64; ++i)
        ports.push_back(static_cast<std::uint16_t>(2000 + i));
    const std::size_t first = marks_of(ports, 0).size();
    EXPECT_GT(first, 8U);
    EXPECT_LT(first, 56U);
}

TEST_F(EthdevFlow, AddressesUnderAMaskAreCompared) {
    start({.rx_queues = 2});
    Rule rule;
    rule.ipv4.hdr.src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 99));
    rule.ipv4_mask.hdr.src_addr = rte_cpu_to_be_32(0xffffff00);
    rule.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_IPV4, &rule.ipv4, &rule.ipv4_mask));
    rte_flow* const flow = rule.to_queue(1).marked(9).on(a_);
    EXPECT_EQ(marks_of({1000}, 1), (Marks{9}));
    ASSERT_EQ(rte_flow_destroy(a_, flow, nullptr), 0);
    Rule other;
    other.ipv4.hdr.src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 1, 1));
    other.ipv4_mask.hdr.src_addr = rte_cpu_to_be_32(0xffffff00);
    other.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_IPV4, &other.ipv4, &other.ipv4_mask));
    other.to_queue(1).marked(9).on(a_);
    EXPECT_TRUE(marks_of({1000}, 1).empty());
}

TEST_F(EthdevFlow, RulesEndWithTheStartAndOldHandlesAreRefused) {
    start({.rx_queues = 2});
    rte_flow* const flow = Rule{}.from(marked_port).to_queue(1).marked(3).on(a_);
    ASSERT_EQ(rte_eth_dev_stop(a_), 0);
    EXPECT_NE(Rule{}.to_queue(0).why_not(a_).find("stopped"), std::string::npos);
    ASSERT_EQ(rte_eth_dev_start(a_), 0);
    EXPECT_EQ(marks_of({marked_port}, 0), (Marks{-1}));
    rte_flow_error error{};
    EXPECT_EQ(rte_flow_destroy(a_, flow, &error), -ENOENT);
}

TEST_F(EthdevFlow, IsolatedPortReceivesByRulesOnly) {
    ASSERT_EQ(rte_flow_isolate(a_, 1, nullptr), 0);
    start({.rx_queues = 2});
    Rule{}.from(marked_port).to_queue(1).marked(3).on(a_);
    EXPECT_EQ(marks_of({marked_port, 1000}, 1), (Marks{3}));
    EXPECT_TRUE(marks_of({1000}, 0).empty());
    ASSERT_EQ(rte_flow_isolate(a_, 0, nullptr), 0);
    EXPECT_EQ(marks_of({1000}, 0), (Marks{-1}));
}

TEST_F(EthdevFlow, WhatVerbsCannotDoIsRefusedByName) {
    start({.rx_queues = 2});
    Rule vxlan;
    vxlan.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_VXLAN));
    EXPECT_EQ(vxlan.to_queue(0).why_not(a_), "VXLAN: this item is not supported");
    Rule ports;
    ports.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_UDP));
    EXPECT_EQ(ports.to_queue(0).why_not(a_), "UDP: needs IPV4 or IPV6 in front");
    Rule checksum;
    checksum.ipv4_mask.hdr.hdr_checksum = 0xffff;
    checksum.items.push_back(item_of(RTE_FLOW_ITEM_TYPE_IPV4, &checksum.ipv4, &checksum.ipv4_mask));
    EXPECT_EQ(checksum.to_queue(0).why_not(a_), "IPV4: the mask has fields that are not compared");
    EXPECT_EQ(Rule{}.to_queue(0).with(RTE_FLOW_ACTION_TYPE_DROP).why_not(a_), "DROP: a rule has one fate");
    EXPECT_EQ(Rule{}.with(RTE_FLOW_ACTION_TYPE_COUNT).why_not(a_), "COUNT: this action is not supported");
    EXPECT_EQ(Rule{}.to_queue(2).why_not(a_), "QUEUE: there is no such receive queue");
    EXPECT_EQ(Rule{}.to_queue(0).marked(0xffffff).why_not(a_), "MARK: marks are 0 to 0xfffffd");
    EXPECT_EQ(Rule{}.marked(1).why_not(a_), "no fate: QUEUE, RSS or DROP is needed");
    Rule egress;
    egress.attr.egress = 1;
    EXPECT_EQ(egress.to_queue(0).why_not(a_), "rules are for ingress");
    Rule late;
    late.attr.priority = 4;
    EXPECT_EQ(late.to_queue(0).why_not(a_), "priorities are 0 to 3");
    const rte_flow_action_rss none{};
    EXPECT_EQ(Rule{}.with(RTE_FLOW_ACTION_TYPE_RSS, &none).why_not(a_),
              "RSS: no queues, or more than an RQT holds");
}

TEST_F(EthdevFlow, MarksThatWereNotNegotiatedAreRefused) {
    start({.rx_queues = 1}, false);
    EXPECT_EQ(Rule{}.to_queue(0).marked(1).why_not(a_),
              "MARK: rte_eth_rx_metadata_negotiate was not asked for it");
    EXPECT_NE(Rule{}.from(marked_port).to_queue(0).on(a_), nullptr);
    EXPECT_EQ(marks_of({marked_port}, 0), (Marks{-1}));
}

} // namespace
} // namespace stride::test
