// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/abi/flow_spec.hpp"

#include "swhca/hca/rules.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <rdma/ib_user_verbs.h>
#include <vector>

namespace {

using swhca::FlowMatch;

class FlowSpecs : public testing::Test {
  protected:
    FlowSpecs() { swhca::reset_broken(true); }

    template <class Spec>
    Spec& add(std::uint32_t type) {
        const std::size_t at = bytes_.size();
        bytes_.resize(at + sizeof(Spec));
        auto& spec = *reinterpret_cast<Spec*>(bytes_.data() + at);
        spec.type = type;
        spec.size = sizeof(Spec);
        ++count_;
        return spec;
    }
    int parse() { return swhca::parse_flow_specs(bytes_, count_, match_); }

    std::vector<std::byte> bytes_{};
    unsigned count_{};
    FlowMatch match_{};
};

constexpr std::uint32_t eth = 0x20, ipv4 = 0x30, ipv6 = 0x31, tcp = 0x40, udp = 0x41, tag = 0x1000,
                        drop = 0x1001;

TEST_F(FlowSpecs, EthernetGivesAddressesTypeAndVlanInHostOrder) {
    auto& spec = add<ib_uverbs_flow_spec_eth>(eth);
    const unsigned char mac[6] = {2, 0, 0, 0, 0, 9};
    std::memcpy(spec.val.dst_mac, mac, 6);
    std::memset(spec.mask.dst_mac, 0xff, 6);
    spec.val.ether_type = __builtin_bswap16(0x88b5);
    spec.mask.ether_type = 0xffff;
    spec.val.vlan_tag = __builtin_bswap16(100);
    spec.mask.vlan_tag = __builtin_bswap16(0xfff);
    ASSERT_EQ(parse(), 0);
    EXPECT_EQ(match_.dst_mac[5], 9);
    EXPECT_EQ(match_.dst_mac_mask[0], 0xff);
    EXPECT_EQ(match_.ether_type, 0x88b5);
    EXPECT_EQ(match_.vlan_tci, 100);
    EXPECT_EQ(match_.vlan_tci_mask, 0xfff);
    EXPECT_TRUE(match_.needs_vlan);
}

TEST_F(FlowSpecs, EthernetWithoutVlanMaskTakesTaggedAndUntaggedFrames) {
    add<ib_uverbs_flow_spec_eth>(eth);
    ASSERT_EQ(parse(), 0);
    EXPECT_FALSE(match_.needs_vlan);
}

TEST_F(FlowSpecs, UdpPortsBringTheirProtocolAlong) {
    add<ib_uverbs_flow_spec_eth>(eth);
    auto& ip = add<ib_uverbs_flow_spec_ipv4>(ipv4);
    ip.val.dst_ip = __builtin_bswap32(0x0a000001);
    ip.mask.dst_ip = 0xffffffff;
    auto& ports = add<ib_uverbs_flow_spec_tcp_udp>(udp);
    ports.val.dst_port = __builtin_bswap16(4791);
    ports.mask.dst_port = 0xffff;
    ASSERT_EQ(parse(), 0);
    EXPECT_EQ(match_.ip_version, 4);
    EXPECT_EQ(match_.dst_ip[0], 10);
    EXPECT_EQ(match_.dst_ip[3], 1);
    EXPECT_EQ(match_.dst_ip_mask[4], 0);
    EXPECT_EQ(match_.ip_proto, 17);
    EXPECT_EQ(match_.ip_proto_mask, 0xff);
    EXPECT_EQ(match_.dst_port, 4791);
    EXPECT_EQ(match_.src_port_mask, 0);
}

TEST_F(FlowSpecs, Ipv6KeepsAllSixteenBytes) {
    auto& ip = add<ib_uverbs_flow_spec_ipv6>(ipv6);
    ip.val.src_ip[15] = 7;
    std::memset(ip.mask.src_ip, 0xff, 16);
    ip.val.next_hdr = 6;
    ip.mask.next_hdr = 0xff;
    ASSERT_EQ(parse(), 0);
    EXPECT_EQ(match_.ip_version, 6);
    EXPECT_EQ(match_.src_ip[15], 7);
    EXPECT_EQ(match_.src_ip_mask[15], 0xff);
    EXPECT_EQ(match_.ip_proto, 6);
}

TEST_F(FlowSpecs, ActionsAreTagAndDrop) {
    add<ib_uverbs_flow_spec_action_tag>(tag).tag_id = 0xabcdef;
    add<ib_uverbs_flow_spec_action_drop>(drop);
    ASSERT_EQ(parse(), 0);
    EXPECT_TRUE(match_.has_tag);
    EXPECT_EQ(match_.tag, 0xabcdefU);
    EXPECT_TRUE(match_.drop);
}

TEST_F(FlowSpecs, TagBeyondTheCqesTwentyFourBitsIsRefused) {
    add<ib_uverbs_flow_spec_action_tag>(tag).tag_id = 0x1000000;
    EXPECT_EQ(parse(), EINVAL);
}

TEST_F(FlowSpecs, FieldsTheDeviceDoesNotMatchByAreRefusedNotIgnored) {
    add<ib_uverbs_flow_spec_ipv4>(ipv4).mask.flags = 0xff;
    EXPECT_EQ(parse(), EOPNOTSUPP);
    EXPECT_EQ(swhca::broken_count(swhca::Rule::bad_argument), 1U);
}

TEST_F(FlowSpecs, FieldsOfAnIpHeaderAreKeptAsTheHeaderHasThem) {
    auto& v4 = add<ib_uverbs_flow_spec_ipv4>(ipv4);
    v4.val.tos = 0xb8;
    v4.mask.tos = 0xfc;
    v4.val.ttl = v4.mask.ttl = 0x3f;
    v4.val.flags = 4; // MF of the ABI, bit 0 of the header's three
    v4.mask.flags = 6;
    ASSERT_EQ(parse(), 0);
    EXPECT_EQ(match_.ip_tos, 0xb8);
    EXPECT_EQ(match_.ip_tos_mask, 0xfc);
    EXPECT_EQ(match_.ip_ttl_mask, 0x3f);
    EXPECT_EQ(match_.ip_flags, 1);
    EXPECT_EQ(match_.ip_flags_mask, 3);
}

TEST_F(FlowSpecs, TcpAndUdpInOneRuleAreRefused) {
    add<ib_uverbs_flow_spec_tcp_udp>(tcp);
    add<ib_uverbs_flow_spec_tcp_udp>(udp);
    EXPECT_EQ(parse(), EINVAL);
}

TEST_F(FlowSpecs, InnerHeadersAndUnknownTypesAreRefused) {
    add<ib_uverbs_flow_spec_eth>(eth | 0x100);
    EXPECT_EQ(parse(), EOPNOTSUPP);
}

TEST_F(FlowSpecs, SizesThatDoNotFitAreRefusedWithoutReadingBeyond) {
    add<ib_uverbs_flow_spec_eth>(eth).size = 4;
    EXPECT_EQ(parse(), EINVAL);
    reinterpret_cast<ib_uverbs_flow_spec_hdr*>(bytes_.data())->size = 200;
    EXPECT_EQ(parse(), EINVAL);
    reinterpret_cast<ib_uverbs_flow_spec_hdr*>(bytes_.data())->size = sizeof(ib_uverbs_flow_spec_hdr);
    EXPECT_EQ(parse(), EINVAL);
    count_ = 2;
    reinterpret_cast<ib_uverbs_flow_spec_hdr*>(bytes_.data())->size = sizeof(ib_uverbs_flow_spec_eth);
    EXPECT_EQ(parse(), EINVAL);
}

} // namespace
