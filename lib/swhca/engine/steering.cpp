// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/steering.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace swhca {
namespace {

/// The words of a key, most used first. Values and masks of rules are laid out by the same structure, so byte
/// order within a word is of no concern.
struct KeyLayout {
    std::array<std::uint8_t, 6> dst_mac{};
    std::uint16_t ether_type{};
    std::uint8_t ip_version{};
    std::uint8_t ip_proto{};
    std::uint8_t tagged{};
    std::uint8_t padding{};
    std::uint16_t src_port{}, dst_port{};
    std::array<std::uint8_t, 6> src_mac{};
    std::uint16_t vlan_tci{};
    std::array<std::uint8_t, 16> src_ip{}, dst_ip{};
    std::uint8_t ip_tos{}, ip_ttl{}, ip_flags{}, padding2{};
    std::uint32_t ip6_flow_label{};
};
static_assert(sizeof(KeyLayout) == sizeof(FlowKey));

FlowKey pack(const KeyLayout& layout) noexcept { return std::bit_cast<FlowKey>(layout); }

KeyLayout value_of(const FlowMatch& match) {
    KeyLayout value;
    value.dst_mac = match.dst_mac;
    value.ether_type = match.ether_type;
    value.ip_version = match.ip_version;
    value.ip_proto = match.ip_proto;
    value.tagged = 1;
    value.src_port = match.src_port;
    value.dst_port = match.dst_port;
    value.src_mac = match.src_mac;
    value.vlan_tci = match.vlan_tci;
    value.src_ip = match.src_ip;
    value.dst_ip = match.dst_ip;
    value.ip_tos = match.ip_tos;
    value.ip_ttl = match.ip_ttl;
    value.ip_flags = match.ip_flags;
    value.ip6_flow_label = match.ip6_flow_label;
    return value;
}

KeyLayout mask_of(const FlowMatch& match) {
    KeyLayout mask;
    mask.dst_mac = match.dst_mac_mask;
    mask.ether_type = match.ether_type_mask;
    mask.ip_version = match.ip_version != 0 ? 0xff : 0;
    mask.ip_proto = match.ip_proto_mask;
    mask.tagged = match.needs_vlan || match.vlan_tci_mask != 0 ? 0xff : 0;
    mask.src_port = match.src_port_mask;
    mask.dst_port = match.dst_port_mask;
    mask.src_mac = match.src_mac_mask;
    mask.vlan_tci = match.vlan_tci_mask;
    mask.src_ip = match.src_ip_mask;
    mask.dst_ip = match.dst_ip_mask;
    mask.ip_tos = match.ip_tos_mask;
    mask.ip_ttl = match.ip_ttl_mask;
    mask.ip_flags = match.ip_flags_mask;
    mask.ip6_flow_label = match.ip6_flow_label_mask;
    return mask;
}

bool is_ready(const Rq* rq) noexcept { return rq != nullptr && rq->state == QueueState::ready; }

bool leads_to_ready(const Destination& destination) noexcept {
    if (destination.drop || destination.qp == nullptr) return false;
    const Qp& qp = *destination.qp;
    if (qp.rqt == nullptr) return is_ready(qp.rq.get());
    return std::any_of(qp.rqt->wqs.begin(), qp.rqt->wqs.end(), is_ready);
}

} // namespace

void Steering::compile(const Port& port) {
    rules_.clear();
    sniffers_.clear();
    tables_.clear();
    key_words_ = 0;
    last_valid_ = false;
    for (const Flow* flow : port.flows) {
        KeyLayout value, mask;
        const bool datagrams = flow->qp != nullptr && flow->qp->source_qpn != 0;
        if (port.link_layer == LinkLayer::infiniband && !datagrams) continue;
        if (flow->kind == FlowKind::multicast_default) {
            value.dst_mac[0] = mask.dst_mac[0] = 1;
        } else if (flow->kind == FlowKind::normal) {
            value = value_of(flow->match);
            mask = mask_of(flow->match);
        }
        if (datagrams) {
            // The receive side puts the QPN where Ethernet frames have their address.
            const be32 qpn{flow->qp->source_qpn};
            value.dst_mac = {};
            std::memcpy(value.dst_mac.data() + 2, &qpn, sizeof qpn);
            mask.dst_mac.fill(0xff);
        }
        Rule rule{pack(value), pack(mask), 0, make_destination(*flow)};
        for (std::size_t word = 0; word < FlowKey::word_count; ++word) {
            rule.value.words[word] &= rule.mask.words[word];
            if (rule.mask.words[word] != 0) rule.words = word + 1;
        }
        key_words_ = std::max(key_words_, rule.words);
        rules_.push_back(rule);
    }
    for (const Flow* flow : port.sniffers)
        sniffers_.push_back(make_destination(*flow));
    fallback_ = rules_.empty() ? nullptr : &rules_.front().destination;
    compiled_changes_ = port.flow_changes;
    compiled_ = true;
}

Destination Steering::make_destination(const Flow& flow) {
    Destination destination{flow.qp, nullptr, flow.match.has_tag ? flow.match.tag : 0, flow.match.drop};
    if (flow.qp == nullptr) destination.drop = true;
    if (destination.drop || flow.qp->type != QpType::rss || flow.qp->rss.fields == 0) return destination;
    const auto& key = flow.qp->rss.key;
    auto known = std::find_if(tables_.begin(), tables_.end(), [&](const auto& t) { return t.first == key; });
    if (known == tables_.end())
        known = tables_.emplace(tables_.end(), key, std::make_unique<ToeplitzTables>(key));
    destination.tables = known->second.get();
    return destination;
}

FlowKey Steering::make_key(const std::byte* frame, const PacketInfo& info) const noexcept {
    KeyLayout layout;
    std::memcpy(layout.dst_mac.data(), frame, layout.dst_mac.size());
    layout.ether_type = info.ether_type;
    if (key_words_ == 1) return pack(layout);
    layout.ip_version = info.ip_version;
    layout.ip_proto = info.ip_version != 0 ? info.ip_proto : std::uint8_t{0};
    layout.tagged = info.vlan_tags != 0 ? 1 : 0;
    layout.src_port = info.src_port;
    layout.dst_port = info.dst_port;
    if (key_words_ == 2) return pack(layout);
    std::memcpy(layout.src_mac.data(), frame + layout.dst_mac.size(), layout.src_mac.size());
    layout.vlan_tci = info.vlan_tci;
    const std::byte* l3 = frame + info.l3_offset;
    if (info.ip_version == 4) {
        std::memcpy(layout.src_ip.data(), l3 + 12, 4);
        std::memcpy(layout.dst_ip.data(), l3 + 16, 4);
        layout.ip_tos = static_cast<std::uint8_t>(l3[1]);
        layout.ip_ttl = static_cast<std::uint8_t>(l3[8]);
        layout.ip_flags = static_cast<std::uint8_t>(l3[6] >> 5);
    } else if (info.ip_version == 6) {
        std::memcpy(layout.src_ip.data(), l3 + 8, 16);
        std::memcpy(layout.dst_ip.data(), l3 + 24, 16);
        be32 first;
        std::memcpy(&first, l3, sizeof first);
        layout.ip_tos = static_cast<std::uint8_t>(first.host() >> 20);
        layout.ip_ttl = static_cast<std::uint8_t>(l3[7]);
        layout.ip6_flow_label = first.host() & 0xfffffU;
    }
    return pack(layout);
}

const Destination* Steering::look_up(const FlowKey& key) noexcept {
    last_key_ = key;
    last_valid_ = true;
    last_destination_ = nullptr;
    for (const Rule& rule : rules_) {
        std::uint64_t difference = 0;
        for (std::size_t word = 0; word < rule.words; ++word)
            difference |= (key.words[word] & rule.mask.words[word]) ^ rule.value.words[word];
        if (difference != 0) continue;
        last_destination_ = &rule.destination;
        break;
    }
    return last_destination_;
}

bool Steering::listening() const noexcept {
    const auto ready = [](const Rule& rule) { return leads_to_ready(rule.destination); };
    return std::any_of(rules_.begin(), rules_.end(), ready) ||
           std::any_of(sniffers_.begin(), sniffers_.end(), leads_to_ready);
}

} // namespace swhca
