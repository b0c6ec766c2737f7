// SPDX-License-Identifier: BSD-3-Clause
#include "flow_pattern.hpp"

#include "base/be.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace stride::pmd {
namespace {

/// How deep a pattern has gone; items come in this order.
enum class Layer : std::uint8_t { none, eth, vlan, ip, l4 };

const char* name_of(const rte_flow_item& item) noexcept {
    const char* name = nullptr;
    const void* const type = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(item.type));
    if (rte_flow_conv(RTE_FLOW_CONV_OP_ITEM_NAME_PTR, &name, sizeof name, type, nullptr) <= 0) return "item";
    return name;
}

/// The message lives until the thread's next one, as rte_flow_error's must outlive the call.
int refuse(const rte_flow_item& item, rte_flow_error_type type, const char* why,
           rte_flow_error* error) noexcept {
    static thread_local char text[96];
    std::snprintf(text, sizeof text, "%s: %s", name_of(item), why);
    return rte_flow_error_set(error, ENOTSUP, type, &item, text);
}

/// Value, already masked, and mask of an item.
template <class T>
struct Compared {
    T value{}, mask{};
};

/// `usual`: the mask of an item that has none, as rte_flow.h defines them, for C only; `possible`: the bits
/// that verbs compare.
template <class T>
struct Masks {
    const T& usual;
    const T& possible;
};

template <class T>
int read_item(const rte_flow_item& item, Masks<T> masks, Compared<T>& out, rte_flow_error* error) noexcept {
    if (item.last != nullptr)
        return refuse(item, RTE_FLOW_ERROR_TYPE_ITEM_LAST, "ranges are not compared", error);
    if (item.spec == nullptr) {
        if (item.mask == nullptr) return 0;
        return refuse(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK, "a mask without a value", error);
    }
    std::memcpy(&out.mask, item.mask != nullptr ? item.mask : &masks.usual, sizeof(T));
    std::memcpy(&out.value, item.spec, sizeof(T));
    auto* const value = reinterpret_cast<std::uint8_t*>(&out.value);
    const auto* const mask = reinterpret_cast<const std::uint8_t*>(&out.mask);
    const auto* const possible = reinterpret_cast<const std::uint8_t*>(&masks.possible);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        if ((mask[i] & ~possible[i]) != 0)
            return refuse(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK, "the mask has fields that are not compared",
                          error);
        value[i] &= mask[i];
    }
    return 0;
}

/// Network byte order stays as it lies.
std::uint16_t raw(rte_be16_t value) noexcept { return value; }
std::uint32_t raw(rte_be32_t value) noexcept { return value; }

int read_eth(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept {
    rte_flow_item_eth usual{}, possible{};
    std::memset(&usual.hdr.dst_addr, 0xff, sizeof usual.hdr.dst_addr);
    std::memset(&usual.hdr.src_addr, 0xff, sizeof usual.hdr.src_addr);
    std::memset(&possible.hdr, 0xff, sizeof possible.hdr);
    Compared<rte_flow_item_eth> got;
    if (const int failed = read_item(item, {usual, possible}, got, error)) return failed;
    const auto fill = [](ibv_flow_eth_filter& filter, const rte_ether_hdr& header) {
        std::memcpy(filter.dst_mac, &header.dst_addr, sizeof filter.dst_mac);
        std::memcpy(filter.src_mac, &header.src_addr, sizeof filter.src_mac);
        filter.ether_type = raw(header.ether_type);
    };
    fill(pattern.eth.val, got.value.hdr);
    fill(pattern.eth.mask, got.mask.hdr);
    return 0;
}

/// EtherTypes are compared behind the tag; before it stands 802.1Q, whatever the item in front says of it.
int read_vlan(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept {
    rte_flow_item_vlan usual{}, possible{};
    usual.hdr.vlan_tci = be16{0x0fff}.wire();
    std::memset(&possible.hdr, 0xff, sizeof possible.hdr);
    Compared<rte_flow_item_vlan> got;
    if (const int failed = read_item(item, {usual, possible}, got, error)) return failed;
    if (got.mask.hdr.vlan_tci == 0)
        return refuse(item, RTE_FLOW_ERROR_TYPE_ITEM_MASK, "needs bits of the TCI", error);
    const std::uint16_t tagged = be16{RTE_ETHER_TYPE_VLAN}.wire();
    if (pattern.eth.mask.ether_type != 0 && pattern.eth.val.ether_type != tagged)
        return refuse(item, RTE_FLOW_ERROR_TYPE_ITEM, "behind an EtherType that is not 802.1Q's", error);
    pattern.eth.val.ether_type = raw(got.value.hdr.eth_proto);
    pattern.eth.mask.ether_type = raw(got.mask.hdr.eth_proto);
    pattern.eth.val.vlan_tag = raw(got.value.hdr.vlan_tci);
    pattern.eth.mask.vlan_tag = raw(got.mask.hdr.vlan_tci);
    return 0;
}

int read_ipv4(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept {
    rte_flow_item_ipv4 usual{};
    usual.hdr.src_addr = usual.hdr.dst_addr = 0xffffffff;
    rte_flow_item_ipv4 possible = usual;
    possible.hdr.next_proto_id = possible.hdr.type_of_service = possible.hdr.time_to_live = 0xff;
    Compared<rte_flow_item_ipv4> got;
    if (const int failed = read_item(item, {usual, possible}, got, error)) return failed;
    const auto fill = [](ibv_flow_ipv4_ext_filter& filter, const rte_ipv4_hdr& header) {
        filter.src_ip = raw(header.src_addr);
        filter.dst_ip = raw(header.dst_addr);
        filter.proto = header.next_proto_id;
        filter.tos = header.type_of_service;
        filter.ttl = header.time_to_live;
    };
    fill(pattern.ipv4.val, got.value.hdr);
    fill(pattern.ipv4.mask, got.mask.hdr);
    pattern.l3 = ibv::L3::ipv4;
    return 0;
}

int read_ipv6(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept {
    constexpr std::uint32_t label_bits = 0xfffff, class_bits = 0xff00000;
    rte_flow_item_ipv6 usual{};
    std::memset(&usual.hdr.src_addr, 0xff, sizeof usual.hdr.src_addr);
    std::memset(&usual.hdr.dst_addr, 0xff, sizeof usual.hdr.dst_addr);
    rte_flow_item_ipv6 possible = usual;
    possible.hdr.vtc_flow = be32{label_bits | class_bits}.wire();
    possible.hdr.proto = possible.hdr.hop_limits = 0xff;
    Compared<rte_flow_item_ipv6> got;
    if (const int failed = read_item(item, {usual, possible}, got, error)) return failed;
    const auto fill = [](ibv_flow_ipv6_filter& filter, const rte_ipv6_hdr& header) {
        const std::uint32_t first = be32::from_wire(header.vtc_flow).host();
        std::memcpy(filter.src_ip, &header.src_addr, sizeof filter.src_ip);
        std::memcpy(filter.dst_ip, &header.dst_addr, sizeof filter.dst_ip);
        filter.flow_label = be32{first & label_bits}.wire();
        filter.traffic_class = static_cast<std::uint8_t>(first >> 20);
        filter.next_hdr = header.proto;
        filter.hop_limit = header.hop_limits;
    };
    fill(pattern.ipv6.val, got.value.hdr);
    fill(pattern.ipv6.mask, got.mask.hdr);
    pattern.l3 = ibv::L3::ipv6;
    return 0;
}

/// `Item`: rte_flow_item_tcp or _udp, of whose headers verbs compare the ports.
template <class Item>
int read_ports(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept {
    Item ports{};
    ports.hdr.src_port = ports.hdr.dst_port = 0xffff;
    Compared<Item> got;
    if (const int failed = read_item(item, {ports, ports}, got, error)) return failed;
    pattern.l4 = std::is_same_v<Item, rte_flow_item_tcp> ? ibv::L4::tcp : ibv::L4::udp;
    pattern.ports.val.src_port = raw(got.value.hdr.src_port);
    pattern.ports.val.dst_port = raw(got.value.hdr.dst_port);
    pattern.ports.mask.src_port = raw(got.mask.hdr.src_port);
    pattern.ports.mask.dst_port = raw(got.mask.hdr.dst_port);
    return 0;
}

struct Reader {
    rte_flow_item_type type;
    Layer layer;
    int (*read)(const rte_flow_item& item, FlowPattern& pattern, rte_flow_error* error) noexcept;
};

constexpr Reader readers[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, Layer::eth, read_eth},
    {RTE_FLOW_ITEM_TYPE_VLAN, Layer::vlan, read_vlan},
    {RTE_FLOW_ITEM_TYPE_IPV4, Layer::ip, read_ipv4},
    {RTE_FLOW_ITEM_TYPE_IPV6, Layer::ip, read_ipv6},
    {RTE_FLOW_ITEM_TYPE_TCP, Layer::l4, read_ports<rte_flow_item_tcp>},
    {RTE_FLOW_ITEM_TYPE_UDP, Layer::l4, read_ports<rte_flow_item_udp>},
};

const Reader* reader_of(rte_flow_item_type type) noexcept {
    for (const Reader& reader : readers)
        if (reader.type == type) return &reader;
    return nullptr;
}

} // namespace

int parse_pattern(const rte_flow_item* items, FlowPattern& pattern, rte_flow_error* error) noexcept {
    Layer layer = Layer::none;
    for (const rte_flow_item* item = items; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
        if (item->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
        const Reader* const reader = reader_of(item->type);
        if (reader == nullptr)
            return refuse(*item, RTE_FLOW_ERROR_TYPE_ITEM, "this item is not supported", error);
        if (reader->layer <= layer)
            return refuse(*item, RTE_FLOW_ERROR_TYPE_ITEM, "twice, or behind an inner layer", error);
        if (reader->layer == Layer::l4 && layer != Layer::ip)
            return refuse(*item, RTE_FLOW_ERROR_TYPE_ITEM, "needs IPV4 or IPV6 in front", error);
        if (const int failed = reader->read(*item, pattern, error)) return failed;
        layer = reader->layer;
    }
    return 0;
}

ibv::FlowRule FlowPattern::rule(ibv::L3 of_l3, ibv::L4 of_l4) const noexcept {
    ibv::FlowRule rule;
    rule.append(eth, IBV_FLOW_SPEC_ETH);
    if (of_l3 == ibv::L3::ipv4) rule.append(ipv4, IBV_FLOW_SPEC_IPV4_EXT);
    if (of_l3 == ibv::L3::ipv6) rule.append(ipv6, IBV_FLOW_SPEC_IPV6);
    if (of_l4 != ibv::L4::any)
        rule.append(ports, of_l4 == ibv::L4::tcp ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP);
    return rule;
}

} // namespace stride::pmd
