// SPDX-License-Identifier: BSD-3-Clause
// From --vdev=net_stride0,ibdev=... to an ethdev port, and back.
#include "log.hpp"
#include "ops.hpp"
#include "requests.hpp"
#include "secondary.hpp"

#include <rte_malloc.h>

#include <cstring>

namespace stride::pmd {
namespace {

/// Ports are told from each other in logs by name until they have a number.
int refuse(const char* name, const Error& error) noexcept {
    log_line(LogLevel::error, "%s: %s", name, error.what.c_str());
    return -error.code;
}

rte_ether_addr address_of(const ibv::MacAddress& mac) noexcept {
    rte_ether_addr address{};
    std::memcpy(address.addr_bytes, mac.data(), sizeof address.addr_bytes);
    return address;
}

Result<rte_ether_addr> address_of(const ibv::Device& device) {
    auto mac = device.mac();
    if (!mac) return mac.take_error();
    const rte_ether_addr address = address_of(mac.value());
    if (!rte_is_valid_assigned_ether_addr(&address))
        return Error{EADDRNOTAVAIL, device.name() + ": has no valid MAC address"};
    return address;
}

/// Rings and doorbell records where all processes see them.
void* allocate_ring(std::size_t bytes, void*) {
    constexpr std::size_t page_bytes = Window::page_bytes;
    return rte_zmalloc("stride_ring", (bytes + page_bytes - 1) & -page_bytes, page_bytes);
}
void release_ring(void* memory, void*) { rte_free(memory); }

/// Whether secondary processes may use the port, and what they need to know.
void invite_secondaries(rte_eth_dev* dev) {
    Port& port = port_of(dev);
    PortShared& shared = *port.shared;
    // As ethdev does before it asks.
    constexpr rte_eth_desc_lim any{.nb_max = UINT16_MAX,
                                   .nb_min = 0,
                                   .nb_align = 1,
                                   .nb_seg_max = UINT16_MAX,
                                   .nb_mtu_seg_max = UINT16_MAX};
    shared.info.rx_desc_lim = shared.info.tx_desc_lim = any;
    dev_infos_get(dev, &shared.info);
    shared.bind_ops_index = bind_ops_index();
    for (std::uint16_t queue = 0; queue < max_queues; ++queue) {
        shared.rxqs[queue].port_id = shared.txqs[queue].port_id = dev->data->port_id;
        shared.rxqs[queue].id = shared.txqs[queue].id = queue;
    }
    Status possible = is_encapsulated(port.args.encap)
                          ? Status{Error{ENOTSUP, "its frames travel in an encap"}}
                          : answer_secondaries();
    if (possible) possible = Window::open(nullptr);
    if (possible) {
        shared.window = Window::base();
        admit_questions(dev->data->port_id, &port);
        return;
    }
    shared.why_not[possible.error().what.copy(shared.why_not, sizeof shared.why_not - 1)] = '\0';
}

Result<rte_eth_dev*> allocate(rte_vdev_device* vdev, Args args) {
    const ibv::RingMemory rings{allocate_ring, release_ring, nullptr};
    auto device = ibv::Device::open(args.ibdev, args.port, &rings);
    if (!device) return device.take_error();
    std::unique_ptr<IpoibInterface> ipoib;
    if (auto status = choose_encap(args, device.value(), ipoib); !status) return status.take_error();
    if (!ipoib && device.value()->caps().max_wqs == 0)
        return Error{ENOTSUP, args.ibdev + ": has no receive work queues (ibv_wq)"};
    auto mac = ipoib ? Result<rte_ether_addr>{address_of(ipoib->mac())} : address_of(*device.value());
    if (!mac) return mac.take_error();
    if (vdev->device.numa_node == SOCKET_ID_ANY) vdev->device.numa_node = device.value()->numa_node();

    PortSharedPtr shared{PortShared::create()};
    if (!shared) return Error{ENOMEM, "no memory for what processes share of the port"};
    rte_eth_dev* const dev = rte_eth_vdev_allocate(vdev, sizeof(PortPrivate));
    if (dev == nullptr) return Error{ENOMEM, "no room for another ethdev port"};
    rte_eth_dev_data* const data = dev->data;
    auto* const own = static_cast<PortPrivate*>(data->dev_private);
    own->shared = shared.get();
    own->port = new Port{data, std::move(shared), std::move(args), std::move(device).value()};
    own->port->ipoib = std::move(ipoib);
    own->macs[0] = mac.value();
    data->mac_addrs = own->macs;
    data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
    data->mtu = RTE_ETHER_MTU;
    data->dev_flags |= RTE_ETH_DEV_INTR_LSC | RTE_ETH_DEV_INTR_RMV;
    set_queue_ops(dev);
    if (auto status = own->port->interrupts.open(dev); !status) {
        dev_close(dev);
        rte_eth_dev_release_port(dev);
        return status.take_error();
    }
    invite_secondaries(dev);
    return dev;
}

int probe(rte_vdev_device* vdev) noexcept {
    set_log_sink(log_to_rte);
    const char* const name = rte_vdev_device_name(vdev);
    if (rte_eal_process_type() == RTE_PROC_SECONDARY) {
        auto status = attach_secondary(vdev);
        return status ? 0 : refuse(name, status.error());
    }
    const char* const text = rte_vdev_device_args(vdev);
    auto args = parse_args(text != nullptr ? text : "");
    if (!args) return refuse(name, args.error());
    auto dev = allocate(vdev, std::move(args).value());
    if (!dev) return refuse(name, dev.error());
    link_update(dev.value(), 0);
    rte_eth_dev_probing_finish(dev.value());
    const Port& port = port_of(dev.value());
    log_line(LogLevel::info, "port %u: %s on %s port %u", dev.value()->data->port_id, name,
             port.device->name().c_str(), port.device->port());
    return 0;
}

int remove(rte_vdev_device* vdev) noexcept {
    if (rte_eal_process_type() == RTE_PROC_SECONDARY) return detach_secondary(vdev);
    rte_eth_dev* const dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));
    if (dev == nullptr) return 0; // closed already
    if (const int code = dev_close(dev); code != 0) return code;
    return rte_eth_dev_release_port(dev);
}

constexpr rte_vdev_driver make_driver() noexcept {
    rte_vdev_driver driver{};
    driver.probe = probe;
    driver.remove = remove;
    return driver;
}

} // namespace
} // namespace stride::pmd

// Not const: EAL links the driver into its list. Constant-initialised: the registration runs before main, in
// no known order with other initialisers.
static constinit rte_vdev_driver stride_driver = stride::pmd::make_driver();
RTE_PMD_REGISTER_VDEV(net_stride, stride_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_stride, STRIDE_ARGS_HELP);
// What pmdinfogen would add to a driver inside DPDK's tree; dpdk-pmdinfo.py prints it.
[[gnu::used]] static const char stride_pmd_info[] =
    "PMD_INFO_STRING= {\"name\" : \"net_stride\", \"params\" : \"" STRIDE_ARGS_HELP "\", \"pci_ids\" : []}";
