// SPDX-License-Identifier: BSD-3-Clause
#include "steering.hpp"

#include "compat.hpp"

#include <algorithm>
#include <iterator>

namespace stride::pmd {
namespace {

constexpr std::uint64_t ipv4_fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
constexpr std::uint64_t ipv6_fields = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
constexpr std::uint64_t tcp_fields = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
constexpr std::uint64_t udp_fields = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

constexpr TrafficKind kinds[] = {
    {ibv::L3::ipv4, ibv::L4::tcp, ipv4_fields | tcp_fields, RTE_ETH_RSS_NONFRAG_IPV4_TCP, 0},
    {ibv::L3::ipv4, ibv::L4::udp, ipv4_fields | udp_fields, RTE_ETH_RSS_NONFRAG_IPV4_UDP, 0},
    {ibv::L3::ipv6, ibv::L4::tcp, ipv6_fields | tcp_fields, RTE_ETH_RSS_NONFRAG_IPV6_TCP, 0},
    {ibv::L3::ipv6, ibv::L4::udp, ipv6_fields | udp_fields, RTE_ETH_RSS_NONFRAG_IPV6_UDP, 0},
    {ibv::L3::ipv4, ibv::L4::any, ipv4_fields,
     RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_OTHER, 1},
    {ibv::L3::ipv6, ibv::L4::any, ipv6_fields,
     RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_OTHER, 1},
    {ibv::L3::any, ibv::L4::any, 0, 0, 2},
};

/// Entries of the RQT: the RETA, or queue 0 alone.
std::vector<ibv_wq*> table_of(std::span<ibv_wq* const> wqs, const RssConfig& rss) {
    std::vector<ibv_wq*> table;
    if (!rss.enabled || rss.reta.empty()) return {wqs[0]};
    for (const std::uint16_t queue : rss.reta)
        table.push_back(wqs[queue]);
    return table;
}

} // namespace

// The key of the verification suite in Microsoft's description of RSS.
const ibv::RssKey RssConfig::default_key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                            0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                            0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                            0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

std::span<const TrafficKind> traffic_kinds() noexcept { return kinds; }

std::uint64_t hash_types_of(const ibv::Caps& caps) noexcept {
    std::uint64_t types = 0;
    if (caps.max_rqts == 0 || !caps.rss_toeplitz) return 0;
    for (const TrafficKind& kind : kinds)
        if ((kind.fields & ~caps.rss_fields) == 0) types |= kind.types;
    return types;
}

Result<Steering> Steering::create(std::shared_ptr<ibv::Device> device, std::span<ibv_wq* const> wqs,
                                  const RssConfig& rss) {
    auto rqt = ibv::Rqt::create(device, table_of(wqs, rss));
    if (!rqt) return rqt.take_error();
    Steering steering{device, std::move(rqt).value()};
    for (const TrafficKind& kind : kinds) {
        if (!is_wanted(kind, rss.enabled ? rss.hash_types : 0)) continue;
        auto tir = ibv::Tir::create(device, steering.rqt_, {.hash_fields = kind.fields, .key = rss.key});
        if (!tir) return tir.take_error();
        const auto priority = static_cast<std::uint16_t>(filter_priority + kind.priority);
        steering.targets_.push_back({kind.l3, kind.l4, priority, std::move(tir).value()});
    }
    return steering;
}

Status Steering::set_filters(const std::vector<ibv::FlowMatch>& filters) {
    std::vector<ibv::FlowMatch> wanted_matches;
    std::vector<Rule> added;
    for (ibv::FlowMatch match : filters) {
        for (const Target& target : targets_) {
            if (match.copy && target.l3 != ibv::L3::any) continue; // one rule has all
            match.l3 = target.l3;
            match.l4 = target.l4;
            wanted_matches.push_back(match);
            const auto same = [&match](const Rule& rule) { return rule.match == match; };
            if (std::any_of(rules_.begin(), rules_.end(), same)) continue;
            auto flow = ibv::Flow::create(device_, target.tir, match, target.priority);
            if (!flow) return flow.take_error();
            added.push_back({match, std::move(flow).value()});
        }
    }
    std::erase_if(rules_, [&wanted_matches](const Rule& rule) {
        return std::find(wanted_matches.begin(), wanted_matches.end(), rule.match) == wanted_matches.end();
    });
    std::move(added.begin(), added.end(), std::back_inserter(rules_));
    return {};
}

} // namespace stride::pmd
