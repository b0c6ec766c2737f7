// SPDX-License-Identifier: BSD-3-Clause
// Link state, as the port of the device reports it.
#include "ops.hpp"

namespace stride::pmd {

int link_update(rte_eth_dev* dev, int) noexcept {
    rte_eth_link link{};
    link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
    link.link_autoneg = RTE_ETH_LINK_AUTONEG;
    link.link_speed = RTE_ETH_SPEED_NUM_UNKNOWN;
    const auto state = port_of(dev).device->link();
    if (state) {
        link.link_status = state.value().up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
        if (state.value().speed_mbps != 0) link.link_speed = state.value().speed_mbps;
    }
    rte_eth_linkstatus_set(dev, &link); // says whether it changed, which is no error
    return state ? 0 : -state.error().code;
}

} // namespace stride::pmd
