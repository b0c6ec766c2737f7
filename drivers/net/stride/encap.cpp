// SPDX-License-Identifier: BSD-3-Clause
#include "encap.hpp"

#include "ops.hpp"

namespace stride::pmd {
namespace {

/// 16B packets: LIDs from here on are multicast.
constexpr std::uint32_t first_multicast_lid = 0xf00000;

/// As much as a fabric's Ethernet manager would tell: one switch that floods what it does not know.
mbufqp::OpaVnicConfig vnic_config(const Port& port) noexcept {
    const std::uint8_t* const mac = port.data->mac_addrs[0].addr_bytes;
    mbufqp::OpaVnicConfig config;
    config.vesw_id = port.args.vesw_id;
    // The LID that the rule for locally administered addresses makes of the port's own.
    config.encap_slid = std::uint32_t{mac[5]} << 16 | std::uint32_t{mac[4]} << 8 | mac[3];
    config.u_mcast_dlid = first_multicast_lid;
    config.u_ucast_dlid[0] = first_multicast_lid;
    config.def_port_mask = 1;
    config.eth_mtu = port.data->mtu;
    return config;
}

} // namespace

std::uint16_t encap_rx_burst(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept {
    EncapRxq& rxq = *static_cast<EncapRxq*>(queue);
    const std::uint16_t received = rxq.burst(rxq.queue, packets, count);
    return received == 0 ? received : rxq.decap(rxq.context, packets, received, rxq.drops);
}

QueueCount encap_rx_queue_count(void* queue) noexcept {
    return rx_queue_count(static_cast<EncapRxq*>(queue)->queue);
}

int encap_rx_descriptor_status(void* queue, std::uint16_t offset) noexcept {
    return rx_descriptor_status(static_cast<EncapRxq*>(queue)->queue, offset);
}

Status open_encap(Port& port) {
    if (port.args.encap != mbufqp::EncapKind::opa_vnic) return {};
    const mbufqp::OpaVnicConfig config = vnic_config(port);
    if (auto status = mbufqp::OpaVnicPort::check(config); !status) return status;
    port.opa_vnic.emplace(config);
    return {};
}

void* encap_context(Port& port) noexcept { return port.opa_vnic ? &*port.opa_vnic : nullptr; }

std::uint32_t wire_bytes(mbufqp::EncapKind kind, std::uint32_t frame_bytes) noexcept {
    if (kind != mbufqp::EncapKind::opa_vnic) return frame_bytes;
    return mbufqp::OpaHeader::bytes + frame_bytes + mbufqp::OpaVnic::max_trailer_bytes;
}

std::uint16_t max_mtu_of(mbufqp::EncapKind kind) noexcept {
    return kind == mbufqp::EncapKind::opa_vnic ? std::uint16_t{mbufqp::OpaVnicPort::max_mtu_bytes} : max_mtu;
}

} // namespace stride::pmd
