// SPDX-License-Identifier: BSD-3-Clause
#include "ops.hpp"

namespace stride::pmd {
namespace {

/// By assignment: members of eth_dev_ops move between releases.
eth_dev_ops make_ops() noexcept {
    eth_dev_ops ops{};
    ops.dev_configure = dev_configure;
    ops.dev_start = dev_start;
    ops.dev_stop = dev_stop;
    ops.dev_close = dev_close;
    ops.is_removed = is_removed;

    ops.dev_infos_get = dev_infos_get;
    ops.fw_version_get = fw_version_get;
    ops.rx_burst_mode_get = rx_burst_mode_get;
    ops.tx_burst_mode_get = tx_burst_mode_get;
    ops.dev_ptypes_set = ptypes_set;
    ops.read_clock = read_clock;

    ops.rx_queue_setup = rx_queue_setup;
    ops.rx_queue_release = rx_queue_release;
    ops.rxq_info_get = rxq_info_get;
    ops.tx_queue_setup = tx_queue_setup;
    ops.tx_queue_release = tx_queue_release;
    ops.txq_info_get = txq_info_get;
    ops.tx_done_cleanup = tx_done_cleanup;
    ops.rx_queue_start = rx_queue_start;
    ops.rx_queue_stop = rx_queue_stop;
    ops.tx_queue_start = tx_queue_start;
    ops.tx_queue_stop = tx_queue_stop;

    ops.reta_update = reta_update;
    ops.reta_query = reta_query;
    ops.rss_hash_update = rss_hash_update;
    ops.rss_hash_conf_get = rss_hash_conf_get;

    ops.promiscuous_enable = promiscuous_enable;
    ops.promiscuous_disable = promiscuous_disable;
    ops.allmulticast_enable = allmulticast_enable;
    ops.allmulticast_disable = allmulticast_disable;
    ops.mac_addr_add = mac_addr_add;
    ops.mac_addr_remove = mac_addr_remove;
    ops.mac_addr_set = mac_addr_set;
    ops.set_mc_addr_list = set_mc_addr_list;

    ops.stats_reset = stats_reset;
    ops.xstats_get = xstats_get;
    ops.xstats_get_names = xstats_get_names;
    ops.xstats_reset = stats_reset;

    ops.rx_queue_intr_enable = rx_queue_intr_enable;
    ops.rx_queue_intr_disable = rx_queue_intr_disable;
    ops.rx_queue_avail_thresh_set = rx_avail_thresh_set;
    ops.rx_queue_avail_thresh_query = rx_avail_thresh_query;

    ops.flow_ops_get = flow_ops_get;
    ops.rx_metadata_negotiate = rx_metadata_negotiate;

    ops.link_update = link_update;
    ops.mtu_set = mtu_set;
    set_versioned_ops<stats_get>(ops);
    return ops;
}

} // namespace

const eth_dev_ops& device_ops() noexcept {
    static const eth_dev_ops ops = make_ops();
    return ops;
}

void set_queue_ops(rte_eth_dev* dev) noexcept {
    dev->dev_ops = &device_ops();
    const bool encapsulated = is_encapsulated(port_of(dev).args.encap);
    dev->rx_queue_count = encapsulated ? encap_rx_queue_count : rx_queue_count;
    dev->rx_descriptor_status = encapsulated ? encap_rx_descriptor_status : rx_descriptor_status;
    dev->tx_descriptor_status = tx_descriptor_status;
    dev->tx_pkt_prepare = tx_prepare;
}

} // namespace stride::pmd
