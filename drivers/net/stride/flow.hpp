// SPDX-License-Identifier: BSD-3-Clause
/// rte_flow: rules of the application, above the port's own filters.
#pragma once

#include "flow_pattern.hpp"
#include "ibv/rqt.hpp"
#include "steering.hpp"

#include <rte_flow_driver.h>

#include <memory>
#include <vector>

/// One rule of rte_flow: a verbs rule and a TIR for each kind of traffic that is hashed differently. Members
/// in the order they are made.
struct rte_flow {
    stride::ibv::Rqt rqt;
    std::vector<stride::ibv::Tir> tirs{};
    std::vector<stride::ibv::Flow> rules{};
};

namespace stride::pmd {

struct Port;

/// What a port knows of rte_flow. Control thread; rte_flow calls one after the other.
struct FlowState {
    std::vector<std::unique_ptr<rte_flow>> rules{}; ///< while started; they end with it
    bool isolated{};                                ///< only rules receive: the port's own filters are off
    bool marks{};                                   ///< negotiated: queues made from now on report flow tags
};

int flow_ops_get(rte_eth_dev* dev, const rte_flow_ops** ops) noexcept;
int rx_metadata_negotiate(rte_eth_dev* dev, std::uint64_t* features) noexcept;

} // namespace stride::pmd
