// SPDX-License-Identifier: BSD-3-Clause
// What the port offers. An offload is listed here only when it works.
#include "ops.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace stride::pmd {
namespace {

constexpr std::uint16_t default_descriptors = 512;
constexpr std::uint16_t default_burst = 32;
constexpr std::uint32_t min_rx_buffer_bytes = 64;

std::uint16_t at_most(std::uint32_t value, std::uint32_t limit) noexcept {
    return static_cast<std::uint16_t>(std::min(value, limit));
}

std::uint32_t speed_capabilities(const ibv::Device& device) noexcept {
    const auto link = device.link();
    if (!link) return 0;
    struct Speed {
        std::uint32_t mbps, bit;
    };
    static constexpr Speed speeds[] = {
        {1000, RTE_ETH_LINK_SPEED_1G},   {10000, RTE_ETH_LINK_SPEED_10G},   {20000, RTE_ETH_LINK_SPEED_20G},
        {25000, RTE_ETH_LINK_SPEED_25G}, {40000, RTE_ETH_LINK_SPEED_40G},   {50000, RTE_ETH_LINK_SPEED_50G},
        {56000, RTE_ETH_LINK_SPEED_56G}, {100000, RTE_ETH_LINK_SPEED_100G}, {200000, RTE_ETH_LINK_SPEED_200G},
    };
    for (const Speed& speed : speeds)
        if (speed.mbps == link.value().speed_mbps) return speed.bit;
    return 0;
}

std::uint16_t reta_size(const ibv::Caps& caps) noexcept {
    return caps.max_rqt_entries == 0 ? 0 : at_most(std::bit_floor(caps.max_rqt_entries), max_reta_entries);
}

void fill_limits(const ibv::Caps& caps, rte_eth_dev_info& info) noexcept {
    info.min_mtu = min_mtu;
    info.max_mtu = max_mtu;
    info.max_rx_pktlen = max_mtu + frame_overhead_bytes;
    info.min_rx_bufsize = min_rx_buffer_bytes;
    info.max_rx_queues = at_most(caps.max_wqs, max_queues);
    info.max_tx_queues = at_most(caps.max_qps, max_queues);
    info.max_mac_addrs = max_macs;

    // A descriptor is a stride, or a WQE where there are no strides.
    const std::uint32_t rx_entries =
        caps.striding.raw_packet ? caps.max_cqes : std::min(caps.max_cqes, caps.max_wrs);
    info.rx_desc_lim.nb_max = at_most(std::bit_floor(rx_entries), mprq::max_descriptors);
    info.rx_desc_lim.nb_min = 1;
    info.rx_desc_lim.nb_align = 1;
    info.tx_desc_lim.nb_max =
        at_most(std::bit_floor(std::min(caps.max_wrs, caps.max_cqes)), mbufqp::TxQueue::max_entries);
    info.tx_desc_lim.nb_min = mbufqp::TxQueue::min_mbufs;
    info.tx_desc_lim.nb_align = 1;
    info.tx_desc_lim.nb_seg_max = 60;
    info.tx_desc_lim.nb_mtu_seg_max = 60;
}

void fill_recommendations(rte_eth_dev_info& info) noexcept {
    info.default_rxportconf = {.burst_size = default_burst, .ring_size = default_descriptors, .nb_queues = 1};
    info.default_txportconf = {.burst_size = default_burst, .ring_size = default_descriptors, .nb_queues = 1};
}

} // namespace

std::uint64_t rx_offload_capabilities(const Port& port) noexcept {
    const ibv::Caps& caps = port.device->caps();
    std::uint64_t offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
    if (port.ipoib && caps.rx_checksum) offloads |= RTE_ETH_RX_OFFLOAD_CHECKSUM;
    if (is_encapsulated(port.args.encap)) return offloads;
    if (caps.rx_checksum) offloads |= RTE_ETH_RX_OFFLOAD_CHECKSUM;
    if (hash_types_of(caps) != 0) offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
    if (caps.vlan_strip) offloads |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    if (caps.scatter_fcs) offloads |= RTE_ETH_RX_OFFLOAD_KEEP_CRC;
    if (caps.clock_khz != 0) offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    return offloads;
}

std::uint64_t tx_offload_capabilities(const Port& port) noexcept {
    const ibv::Caps& caps = port.device->caps();
    // Fast free is for direct mbufs, and applications ask for it wherever it is offered. Receive queues may
    // hand out external buffers all the same: the send queue looks for those (mbufqp/sent_run.hpp).
    std::uint64_t offloads =
        RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    // A P_Key is what a fabric has for a VLAN, and there is no place for a tag.
    if (port.ipoib) offloads &= ~std::uint64_t{RTE_ETH_TX_OFFLOAD_VLAN_INSERT};
    if (port.args.encap == mbufqp::EncapKind::opa_vnic) return offloads;
    if (caps.tx_checksum)
        offloads |=
            RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
    if (port.ipoib) return offloads;
    if (caps.tx_checksum && caps.max_tso_bytes != 0) offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
    return offloads;
}

int dev_infos_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept {
    const Port& port = port_of(dev);
    const ibv::Caps& caps = port.device->caps();
    fill_limits(caps, *info);
    fill_recommendations(*info);
    info->speed_capa = speed_capabilities(*port.device);
    info->rx_offload_capa = rx_offload_capabilities(port);
    info->tx_offload_capa = tx_offload_capabilities(port);
    info->max_mtu = max_mtu_of(port);
    info->max_rx_pktlen = info->max_mtu + frame_overhead_bytes;
    if (port.ipoib) info->max_rx_queues = std::min(info->max_rx_queues, IpoibInterface::max_queues);
    if (is_encapsulated(port.args.encap)) return 0; // the HCA sees no flows in the packets
    info->flow_type_rss_offloads = hash_types_of(caps);
    info->hash_key_size = info->flow_type_rss_offloads != 0 ? ibv::rss_key_bytes : 0;
    info->reta_size = reta_size(caps);
    return 0;
}

int fw_version_get(rte_eth_dev* dev, char* text, std::size_t size) noexcept {
    const std::string& version = port_of(dev).device->caps().fw_version;
    if (size < version.size() + 1) return static_cast<int>(version.size()) + 1; // ethdev: the size needed
    std::memcpy(text, version.c_str(), version.size() + 1);
    return 0;
}

const std::uint32_t* packet_types(std::size_t& count) noexcept {
    static constexpr std::uint32_t types[] = {RTE_PTYPE_L2_ETHER,
                                              RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
                                              RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
                                              RTE_PTYPE_L4_TCP,
                                              RTE_PTYPE_L4_UDP,
                                              RTE_PTYPE_L4_FRAG,
                                              RTE_PTYPE_UNKNOWN};
    count = std::size(types) - 1;
    return types;
}

int ptypes_set(rte_eth_dev* dev, std::uint32_t mask) noexcept {
    port_of(dev).packet_types = mask != 0;
    return 0;
}

int read_clock(rte_eth_dev* dev, std::uint64_t* ticks) noexcept {
    const Port& port = port_of(dev);
    if (port.device->caps().clock_khz == 0) return -ENOTSUP;
    auto now = port.device->clock_ticks();
    if (!now) return to_errno(port, "read clock", now.take_error());
    *ticks = now.value();
    return 0;
}

int rx_burst_mode_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const RxSlot& slot = *port_of(dev).rxqs[queue];
    if (!slot.running) return -EINVAL;
    std::snprintf(mode->info, sizeof mode->info, "%s %s",
                  slot.running->queue->geometry() != nullptr ? "striding" : "regular",
                  slot.running->queue->policy());
    return 0;
}

int tx_burst_mode_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const TxSlot& slot = *port_of(dev).txqs[queue];
    if (!slot.running) return -EINVAL;
    const mbufqp::TxFeatures features = slot.running->queue->features();
    const auto name = [&](mbufqp::TxFeature feature, const char* text) {
        return features.has(feature) ? text : "";
    };
    std::snprintf(mode->info, sizeof mode->info, "mbufqp%s%s%s%s%s%s",
                  name(mbufqp::TxFeature::multi_packet, " multi-packet"),
                  name(mbufqp::TxFeature::inline_frames, " inline"),
                  name(mbufqp::TxFeature::multi_segment, " multi-segment"),
                  name(mbufqp::TxFeature::checksum, " checksum"), name(mbufqp::TxFeature::tso, " TSO"),
                  name(mbufqp::TxFeature::fast_free, " fast-free"));
    return 0;
}

} // namespace stride::pmd
