// SPDX-License-Identifier: BSD-3-Clause
// Which frames are received: own addresses, broadcast, multicast, all.
#include "ops.hpp"

#include <cstring>

namespace stride::pmd {
namespace {

ibv::MacAddress plain(const rte_ether_addr& address) noexcept {
    ibv::MacAddress mac;
    std::memcpy(mac.data(), address.addr_bytes, mac.size());
    return mac;
}

/// Modes and addresses are kept by ethdev or the port; here they only become rules, if the port runs.
Status refresh(Port& port) {
    if (!port.steering) return {};
    return port.steering->set_filters(wanted_filters(port));
}

/// Sets a mode flag as it will be (ethdev stores it only after the op), or puts it back.
template <class Set>
int change_mode(rte_eth_dev* dev, const char* tried, bool on, Set set) noexcept {
    Port& port = port_of(dev);
    set(on);
    auto status = refresh(port);
    if (status) return 0;
    set(!on);
    return to_errno(port, tried, status);
}

int change_promiscuous(rte_eth_dev* dev, const char* tried, bool on) noexcept {
    return change_mode(dev, tried, on,
                       [dev](bool value) { dev->data->promiscuous = static_cast<unsigned char>(value) & 1; });
}

int change_allmulticast(rte_eth_dev* dev, const char* tried, bool on) noexcept {
    return change_mode(dev, tried, on, [dev](bool value) {
        dev->data->all_multicast = static_cast<unsigned char>(value) & 1;
    });
}

} // namespace

std::vector<ibv::FlowMatch> wanted_filters(const Port& port) {
    if (port.flow.isolated) return {};
    // Rules can't name a virtual switch: the first port's takes all, the others get copies.
    if (port.opa_vnic && !port.opa_vnic->is_first()) return {ibv::FlowMatch::copies()};
    // The HCA does not look for MAC addresses in 16B packets.
    if (port.data->promiscuous != 0 || is_encapsulated(port.args.encap))
        return {ibv::FlowMatch::everything()};
    constexpr ibv::MacAddress broadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    std::vector<ibv::FlowMatch> filters{ibv::FlowMatch::unicast(broadcast)};
    for (std::uint16_t i = 0; i < max_macs; ++i)
        if (!rte_is_zero_ether_addr(&port.data->mac_addrs[i]))
            filters.push_back(ibv::FlowMatch::unicast(plain(port.data->mac_addrs[i])));
    if (port.data->all_multicast != 0) {
        filters.push_back(ibv::FlowMatch::all_multicast());
        return filters;
    }
    for (const ibv::MacAddress& mac : port.multicast)
        filters.push_back(ibv::FlowMatch::unicast(mac));
    return filters;
}

int promiscuous_enable(rte_eth_dev* dev) noexcept { return change_promiscuous(dev, "promiscuous on", true); }
int promiscuous_disable(rte_eth_dev* dev) noexcept {
    return change_promiscuous(dev, "promiscuous off", false);
}
int allmulticast_enable(rte_eth_dev* dev) noexcept {
    return change_allmulticast(dev, "allmulticast on", true);
}
int allmulticast_disable(rte_eth_dev* dev) noexcept {
    return change_allmulticast(dev, "allmulticast off", false);
}

// ethdev stores an added address only after the op has said yes, and clears a removed one after its op: the
// table is changed here first, so that the rules are made from what will be.
int mac_addr_add(rte_eth_dev* dev, rte_ether_addr* mac, std::uint32_t index, std::uint32_t) noexcept {
    Port& port = port_of(dev);
    if (index >= max_macs) return -EINVAL;
    rte_ether_addr& entry = dev->data->mac_addrs[index];
    if (port.ipoib && !rte_is_same_ether_addr(&entry, mac))
        return to_errno(port, "add MAC address",
                        Error{ENOTSUP, "over IPoIB it is made of QPN and LID, and there is but one"});
    const rte_ether_addr before = entry;
    entry = *mac;
    auto status = refresh(port);
    if (status) return 0;
    entry = before;
    return to_errno(port, "add MAC address", status);
}

void mac_addr_remove(rte_eth_dev* dev, std::uint32_t index) noexcept {
    Port& port = port_of(dev);
    if (index >= max_macs) return;
    dev->data->mac_addrs[index] = rte_ether_addr{};
    to_errno(port, "remove MAC address", refresh(port));
}

int mac_addr_set(rte_eth_dev* dev, rte_ether_addr* mac) noexcept { return mac_addr_add(dev, mac, 0, 0); }

int set_mc_addr_list(rte_eth_dev* dev, rte_ether_addr* macs, std::uint32_t count) noexcept {
    Port& port = port_of(dev);
    for (std::uint32_t i = 0; i < count; ++i)
        if (!rte_is_multicast_ether_addr(&macs[i]))
            return to_errno(
                port, "set multicast list",
                Error{EINVAL, strprintf("address %u of %u is not a multicast address", i, count)});
    std::vector<ibv::MacAddress> before = std::move(port.multicast);
    port.multicast.clear();
    for (std::uint32_t i = 0; i < count; ++i)
        port.multicast.push_back(plain(macs[i]));
    auto status = refresh(port);
    if (status) return 0;
    port.multicast = std::move(before);
    return to_errno(port, "set multicast list", status);
}

} // namespace stride::pmd
