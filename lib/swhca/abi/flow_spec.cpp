// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/abi/flow_spec.hpp"

#include "swhca/hca/refuse.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <linux/in.h>
#include <rdma/ib_user_verbs.h>

namespace swhca {
namespace {

// enum ib_flow_spec_type
constexpr std::uint32_t spec_eth = 0x20, spec_ipv4 = 0x30, spec_ipv6 = 0x31, spec_tcp = 0x40, spec_udp = 0x41;
constexpr std::uint32_t spec_action_tag = 0x1000, spec_action_drop = 0x1001;
constexpr std::uint32_t spec_inner = 0x100;
constexpr std::uint32_t max_tag = 0xffffff; // CQEs have 24 bits for it

using Spec = std::span<const std::byte>;

template <class T>
int read_spec(Spec spec, T& value) {
    if (spec.size() != sizeof value)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: specification of %zu bytes, needs %zu",
                      spec.size(), sizeof value);
    std::memcpy(&value, spec.data(), sizeof value);
    return 0;
}

// enum ib_ipv4_flags of the kernel
constexpr std::uint8_t ipv4_dont_fragment = 2, ipv4_more_fragments = 4;
constexpr std::uint32_t ipv6_flow_label_bits = 0xfffff;

/// As they stand in a header's three flag bits: DF 2, MF 1.
constexpr std::uint8_t header_flags(std::uint8_t flags) noexcept {
    return static_cast<std::uint8_t>((flags & ipv4_dont_fragment) |
                                     ((flags & ipv4_more_fragments) != 0 ? 1U : 0U));
}

std::uint32_t host32(__be32 wire) noexcept { return stride::be32::from_wire(wire).host(); }
std::uint16_t host16(__be16 wire) noexcept { return stride::be16::from_wire(wire).host(); }

template <std::size_t N, class T>
void copy_bytes(std::array<std::uint8_t, N>& to, const T& from) noexcept {
    static_assert(sizeof from <= N);
    std::memcpy(to.data(), &from, sizeof from);
}

int unsupported(const char* what) {
    return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_FLOW: the device does not match by %s", what);
}

/// Sets the IP version, which a rule may name once.
int set_version(FlowMatch& match, std::uint8_t version) {
    if (match.ip_version != 0 && match.ip_version != version)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: IPv4 and IPv6 in one rule");
    match.ip_version = version;
    return 0;
}

int set_protocol(FlowMatch& match, std::uint8_t protocol, std::uint8_t mask) {
    if ((match.ip_proto_mask & mask) != 0 && ((match.ip_proto ^ protocol) & match.ip_proto_mask & mask) != 0)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: IP protocols %u and %u in one rule",
                      match.ip_proto, protocol);
    match.ip_proto = static_cast<std::uint8_t>((match.ip_proto & ~mask) | (protocol & mask));
    match.ip_proto_mask |= mask;
    return 0;
}

int parse_eth(Spec bytes, FlowMatch& match) {
    ib_uverbs_flow_spec_eth spec;
    if (const int error = read_spec(bytes, spec)) return error;
    copy_bytes(match.dst_mac, spec.val.dst_mac);
    copy_bytes(match.dst_mac_mask, spec.mask.dst_mac);
    copy_bytes(match.src_mac, spec.val.src_mac);
    copy_bytes(match.src_mac_mask, spec.mask.src_mac);
    match.ether_type = host16(spec.val.ether_type);
    match.ether_type_mask = host16(spec.mask.ether_type);
    match.vlan_tci = host16(spec.val.vlan_tag);
    match.vlan_tci_mask = host16(spec.mask.vlan_tag);
    match.needs_vlan = match.vlan_tci_mask != 0;
    return 0;
}

int parse_ipv4(Spec bytes, FlowMatch& match) {
    ib_uverbs_flow_spec_ipv4 spec;
    if (const int error = read_spec(bytes, spec)) return error;
    if ((spec.mask.flags & ~(ipv4_dont_fragment | ipv4_more_fragments)) != 0)
        return unsupported("IPv4 flags but DF and MF");
    match.ip_tos = spec.val.tos;
    match.ip_tos_mask = spec.mask.tos;
    match.ip_ttl = spec.val.ttl;
    match.ip_ttl_mask = spec.mask.ttl;
    match.ip_flags = header_flags(spec.val.flags);
    match.ip_flags_mask = header_flags(spec.mask.flags);
    copy_bytes(match.src_ip, spec.val.src_ip);
    copy_bytes(match.src_ip_mask, spec.mask.src_ip);
    copy_bytes(match.dst_ip, spec.val.dst_ip);
    copy_bytes(match.dst_ip_mask, spec.mask.dst_ip);
    if (const int error = set_version(match, 4)) return error;
    return set_protocol(match, spec.val.proto, spec.mask.proto);
}

int parse_ipv6(Spec bytes, FlowMatch& match) {
    ib_uverbs_flow_spec_ipv6 spec;
    if (const int error = read_spec(bytes, spec)) return error;
    match.ip6_flow_label = host32(spec.val.flow_label);
    match.ip6_flow_label_mask = host32(spec.mask.flow_label);
    if ((match.ip6_flow_label_mask & ~ipv6_flow_label_bits) != 0)
        return unsupported("more than 20 bits of an IPv6 flow label");
    match.ip_tos = spec.val.traffic_class;
    match.ip_tos_mask = spec.mask.traffic_class;
    match.ip_ttl = spec.val.hop_limit;
    match.ip_ttl_mask = spec.mask.hop_limit;
    copy_bytes(match.src_ip, spec.val.src_ip);
    copy_bytes(match.src_ip_mask, spec.mask.src_ip);
    copy_bytes(match.dst_ip, spec.val.dst_ip);
    copy_bytes(match.dst_ip_mask, spec.mask.dst_ip);
    if (const int error = set_version(match, 6)) return error;
    return set_protocol(match, spec.val.next_hdr, spec.mask.next_hdr);
}

int parse_ports(Spec bytes, std::uint8_t protocol, FlowMatch& match) {
    ib_uverbs_flow_spec_tcp_udp spec;
    if (const int error = read_spec(bytes, spec)) return error;
    match.src_port = host16(spec.val.src_port);
    match.src_port_mask = host16(spec.mask.src_port);
    match.dst_port = host16(spec.val.dst_port);
    match.dst_port_mask = host16(spec.mask.dst_port);
    return set_protocol(match, protocol, 0xff);
}

int parse_tag(Spec bytes, FlowMatch& match) {
    ib_uverbs_flow_spec_action_tag spec;
    if (const int error = read_spec(bytes, spec)) return error;
    if (spec.tag_id > max_tag)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: tag 0x%x, device max 0x%x", spec.tag_id,
                      max_tag);
    match.has_tag = true;
    match.tag = spec.tag_id;
    return 0;
}

int parse_one(std::uint32_t type, Spec bytes, FlowMatch& match) {
    switch (type) {
    case spec_eth:
        return parse_eth(bytes, match);
    case spec_ipv4:
        return parse_ipv4(bytes, match);
    case spec_ipv6:
        return parse_ipv6(bytes, match);
    case spec_tcp:
        return parse_ports(bytes, IPPROTO_TCP, match);
    case spec_udp:
        return parse_ports(bytes, IPPROTO_UDP, match);
    case spec_action_tag:
        return parse_tag(bytes, match);
    case spec_action_drop:
        return match.drop = true, 0;
    default:
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_FLOW: specification 0x%x%s", type,
                      (type & spec_inner) != 0 ? " (inner headers)" : "");
    }
}

} // namespace

int parse_flow_specs(std::span<const std::byte> specs, unsigned count, FlowMatch& match) {
    for (unsigned i = 0; i < count; ++i) {
        ib_uverbs_flow_spec_hdr header;
        if (specs.size() < sizeof header)
            return refuse(Rule::bad_command, EINVAL, "CREATE_FLOW: %u specifications told, %u there", count,
                          i);
        std::memcpy(&header, specs.data(), sizeof header);
        if (header.size < sizeof header || header.size > specs.size() || header.reserved != 0)
            return refuse(Rule::bad_command, EINVAL, "CREATE_FLOW: specification 0x%x of %u bytes, %zu left",
                          header.type, header.size, specs.size());
        if (const int error = parse_one(header.type, specs.first(header.size), match)) return error;
        specs = specs.subspan(header.size);
    }
    return 0;
}

} // namespace swhca
