// SPDX-License-Identifier: BSD-3-Clause
#include "encap.hpp"

#include "ops.hpp"

#include <map>
#include <string>
#include <utility>

namespace stride::pmd {
namespace {

/// 16B packets: LIDs from here on are multicast.
constexpr std::uint32_t first_multicast_lid = 0xf00000;

const char* encap_name(mbufqp::EncapKind kind) noexcept {
    switch (kind) {
#define STRIDE_ENCAP_NAME(name, type)                                                                        \
    case mbufqp::EncapKind::name:                                                                            \
        return #name;
        STRIDE_ENCAPS(STRIDE_ENCAP_NAME)
#undef STRIDE_ENCAP_NAME
    }
    return "?";
}

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

/// The VNIC ports on a device's port, for as long as the process lives. Control thread.
mbufqp::OpaVnicDemux& vnics_of(const Port& port) {
    static std::map<std::pair<std::string, unsigned>, mbufqp::OpaVnicDemux> all;
    return all[{port.device->name(), port.device->port()}];
}

} // namespace

std::uint16_t encap_rx_burst(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept {
    EncapRxq& rxq = *static_cast<EncapRxq*>(queue);
    const std::uint16_t received = rxq.burst(rxq.queue, packets, count);
    return received == 0 ? received : rxq.decap(rxq.context, packets, received, rxq.frames);
}

std::uint64_t RxFrameCounts::errors() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < mbufqp::rx_drops; ++i)
        if (!mbufqp::is_no_error(static_cast<mbufqp::RxDrop>(i))) sum += drops[i];
    return sum;
}

RxFrameCounts counts_of(const mbufqp::RxFrames& frames) noexcept {
    RxFrameCounts counts{.packets = frames.packets.read(), .bytes = frames.bytes.read()};
    for (std::size_t i = 0; i < mbufqp::rx_drops; ++i)
        counts.drops[i] = frames.drops[i].read();
    return counts;
}

RxFrameCounts frame_counts(const EncapRxq& rxq) noexcept {
    RxFrameCounts counts = counts_of(rxq.frames);
    counts.packets -= rxq.base.packets;
    counts.bytes -= rxq.base.bytes;
    for (std::size_t i = 0; i < mbufqp::rx_drops; ++i)
        counts.drops[i] -= rxq.base.drops[i];
    return counts;
}

QueueCount encap_rx_queue_count(void* queue) noexcept {
    return rx_queue_count(static_cast<EncapRxq*>(queue)->queue);
}

int encap_rx_descriptor_status(void* queue, std::uint16_t offset) noexcept {
    return rx_descriptor_status(static_cast<EncapRxq*>(queue)->queue, offset);
}

Status choose_encap(Args& args, const std::shared_ptr<ibv::Device>& device,
                    std::unique_ptr<IpoibInterface>& ipoib) {
    auto link = device->link();
    if (!link) return link.take_error();
    const bool over_infiniband = args.encap == mbufqp::EncapKind::ipoib;
    if (args.encap_given && over_infiniband == link->ethernet)
        return Error{ENOTSUP,
                     strprintf("devarg encap=%s: %s port %u is an %s port, for %s", encap_name(args.encap),
                               args.ibdev.c_str(), args.port, link->ethernet ? "Ethernet" : "InfiniBand",
                               link->ethernet ? "ethernet or opa_vnic" : "ipoib")};
    if (link->ethernet) return {};
    args.encap = mbufqp::EncapKind::ipoib;
    auto opened = IpoibInterface::open(device);
    if (!opened) return opened.take_error();
    ipoib = std::move(opened).value();
    return {};
}

Status open_encap(Port& port) {
    if (port.ipoib) return port.ipoib->set_mtu(port.data->mtu);
    if (port.args.encap != mbufqp::EncapKind::opa_vnic) return {};
    const mbufqp::OpaVnicConfig config = vnic_config(port);
    if (auto status = mbufqp::OpaVnicPort::check(config); !status) return status;
    port.opa_vnic.reset(); // it is in the table
    port.opa_vnic.emplace(config);
    return port.opa_vnic->join(vnics_of(port));
}

void* encap_context(Port& port) noexcept {
    if (port.ipoib) return port.ipoib->address();
    return port.opa_vnic ? &*port.opa_vnic : nullptr;
}

std::uint32_t wire_bytes(mbufqp::EncapKind kind, std::uint32_t frame_bytes) noexcept {
    switch (kind) {
    case mbufqp::EncapKind::ethernet:
        return frame_bytes;
    case mbufqp::EncapKind::ipoib:
        return mbufqp::grh_bytes + mbufqp::ipoib_header_bytes + frame_bytes - mbufqp::ethernet_header_bytes;
    case mbufqp::EncapKind::opa_vnic:
        return mbufqp::OpaHeader::bytes + frame_bytes + mbufqp::OpaVnic::max_trailer_bytes;
    }
    return frame_bytes;
}

std::uint32_t max_sent_bytes(const Port& port) noexcept {
    if (port.ipoib) return port.data->mtu + mbufqp::ethernet_header_bytes;
    return port.opa_vnic ? port.opa_vnic->max_frame_bytes() : port.wanted_frame_bytes();
}

std::uint16_t max_mtu_of(const Port& port) noexcept {
    if (port.ipoib) return port.ipoib->max_mtu();
    return port.args.encap == mbufqp::EncapKind::opa_vnic ? std::uint16_t{mbufqp::OpaVnicPort::max_mtu_bytes}
                                                          : max_mtu;
}

} // namespace stride::pmd
