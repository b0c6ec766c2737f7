// SPDX-License-Identifier: BSD-3-Clause
/// What an rte_flow pattern compares, in verbs' words.
#pragma once

#include "ibv/flow.hpp"

#include <rte_flow.h>

namespace stride::pmd {

struct FlowPattern {
    ibv_flow_spec_eth eth{};
    ibv_flow_spec_ipv4_ext ipv4{};
    ibv_flow_spec_ipv6 ipv6{};
    ibv_flow_spec_tcp_udp ports{};
    ibv::L3 l3{ibv::L3::any};
    ibv::L4 l4{ibv::L4::any};

    /// The specifications for frames of the pattern that are also of these layers; `l3` and `l4` are the
    /// pattern's wherever it names them.
    ibv::FlowRule rule(ibv::L3 of_l3, ibv::L4 of_l4) const noexcept;
};

/// Items up to END: ETH, VLAN, IPV4, IPV6, TCP, UDP in order, each once, with any mask over the fields that
/// verbs compare. 0, or a negative errno with `error` naming the item.
int parse_pattern(const rte_flow_item* items, FlowPattern& pattern, rte_flow_error* error) noexcept;

} // namespace stride::pmd
