// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/flow.hpp"

#include "base/be.hpp"

#include <cstddef>
#include <cstring>

namespace stride::ibv {
namespace {

void append_eth(FlowRule& rule, const FlowMatch& match) noexcept {
    ibv_flow_spec_eth eth{};
    std::memcpy(eth.val.dst_mac, match.dst_mac.data(), match.dst_mac.size());
    std::memcpy(eth.mask.dst_mac, match.dst_mac_mask.data(), match.dst_mac_mask.size());
    rule.append(eth, IBV_FLOW_SPEC_ETH);
}

/// IP and L4 specifications: their presence alone selects the protocol.
void append_ip(FlowRule& rule, const DatagramMatch& match) noexcept {
    const bool by_address = match.l4 == L4::any;
    if (match.l3 == L3::ipv4) {
        ibv_flow_spec_ipv4_ext ip{};
        if (by_address) {
            ip.val.src_ip = be32{match.source_bits}.wire();
            ip.val.dst_ip = be32{match.destination_bits}.wire();
            ip.mask.src_ip = ip.mask.dst_ip = be32{match.mask}.wire();
        }
        rule.append(ip, IBV_FLOW_SPEC_IPV4_EXT);
    }
    if (match.l3 == L3::ipv6) {
        ibv_flow_spec_ipv6 ip{};
        if (by_address) {
            ip.val.src_ip[15] = match.source_bits;
            ip.val.dst_ip[15] = match.destination_bits;
            ip.mask.src_ip[15] = ip.mask.dst_ip[15] = match.mask;
        }
        rule.append(ip, IBV_FLOW_SPEC_IPV6);
    }
    if (by_address) return;
    ibv_flow_spec_tcp_udp l4{};
    l4.val.src_port = be16{match.source_bits}.wire();
    l4.val.dst_port = be16{match.destination_bits}.wire();
    l4.mask.src_port = l4.mask.dst_port = be16{match.mask}.wire();
    rule.append(l4, match.l4 == L4::tcp ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP);
}

} // namespace

ibv_flow_attr* FlowRule::finish(const Device& device, std::uint16_t priority) noexcept {
    attr().type = IBV_FLOW_ATTR_NORMAL;
    attr().priority = priority;
    attr().port = device.port();
    attr().size = static_cast<std::uint16_t>(used_);
    return &attr();
}

FlowMatch FlowMatch::unicast(const MacAddress& mac) noexcept {
    FlowMatch match;
    match.dst_mac = mac;
    match.dst_mac_mask.fill(0xff);
    return match;
}

FlowMatch FlowMatch::all_multicast() noexcept {
    FlowMatch match;
    match.dst_mac[0] = 0x01;
    match.dst_mac_mask[0] = 0x01;
    return match;
}

FlowMatch FlowMatch::copies() noexcept {
    FlowMatch match;
    match.copy = true;
    return match;
}

Result<Flow> Flow::create_copies(std::shared_ptr<Device> device, const Tir& tir) {
    ibv_flow_attr attr{};
    attr.type = IBV_FLOW_ATTR_SNIFFER;
    attr.size = sizeof attr;
    attr.port = device->port();
    Owned<ibv_flow> flow{ibv_create_flow(tir.get(), &attr), {device}};
    if (!flow) return verbs_error(0, device->name() + ": create flow (sniffer)");
    return Flow{std::move(flow)};
}

Result<Flow> Flow::create(std::shared_ptr<Device> device, const Tir& tir, const FlowMatch& match,
                          std::uint16_t priority) {
    if (match.copy) return create_copies(std::move(device), tir);
    FlowRule rule;
    append_eth(rule, match);
    append_ip(rule, {.l3 = match.l3, .l4 = match.l4});
    Owned<ibv_flow> flow{ibv_create_flow(tir.get(), rule.finish(*device, priority)), {device}};
    if (!flow) {
        const MacAddress& mac = match.dst_mac;
        return verbs_error(
            0, strprintf("%s: create flow (dst %02x:%02x:%02x:%02x:%02x:%02x, l3 %u, l4 %u, priority %u)",
                         device->name().c_str(), mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
                         static_cast<unsigned>(match.l3), static_cast<unsigned>(match.l4), priority));
    }
    return Flow{std::move(flow)};
}

Result<Flow> Flow::create(std::shared_ptr<Device> device, ibv_qp* underlay, const DatagramMatch& match,
                          std::uint16_t priority) {
    FlowRule rule;
    append_ip(rule, match);
    Owned<ibv_flow> flow{ibv_create_flow(underlay, rule.finish(*device, priority)), {device}};
    if (!flow)
        return verbs_error(0, strprintf("%s: create flow of QP %#x (l3 %u, l4 %u, bits %u and %u under mask "
                                        "%u, priority %u)",
                                        device->name().c_str(), underlay->qp_num,
                                        static_cast<unsigned>(match.l3), static_cast<unsigned>(match.l4),
                                        match.source_bits, match.destination_bits, match.mask, priority));
    return Flow{std::move(flow)};
}

Result<Flow> Flow::create(std::shared_ptr<Device> device, const Tir& tir, const FlowRule& rule,
                          std::uint16_t priority) {
    FlowRule finished = rule;
    Owned<ibv_flow> flow{ibv_create_flow(tir.get(), finished.finish(*device, priority)), {device}};
    if (!flow)
        return verbs_error(0, strprintf("%s: create flow (specifications %u, priority %u)",
                                        device->name().c_str(), finished.attr().num_of_specs, priority));
    return Flow{std::move(flow)};
}

} // namespace stride::ibv
