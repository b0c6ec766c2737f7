// SPDX-License-Identifier: BSD-3-Clause
/// The ethdev operations, by the file they are in. Each returns 0 or a negative errno.
#pragma once

#include "port.hpp"

namespace stride::pmd {

// ops.cpp
const eth_dev_ops& device_ops() noexcept;
/// Sets the operations of the data path that ethdev keeps beside dev_ops.
void set_queue_ops(rte_eth_dev* dev) noexcept;

// info.cpp
int dev_infos_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept;
int fw_version_get(rte_eth_dev* dev, char* text, std::size_t size) noexcept;
int rx_burst_mode_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_burst_mode* mode) noexcept;
int tx_burst_mode_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_burst_mode* mode) noexcept;
/// 0: queues started from now on leave packet types out.
int ptypes_set(rte_eth_dev* dev, std::uint32_t mask) noexcept;
int read_clock(rte_eth_dev* dev, std::uint64_t* ticks) noexcept;
std::uint64_t rx_offload_capabilities(const Port& port) noexcept;
std::uint64_t tx_offload_capabilities(const Port& port) noexcept;

// lifecycle.cpp
int dev_configure(rte_eth_dev* dev) noexcept;
int dev_start(rte_eth_dev* dev) noexcept;
int dev_stop(rte_eth_dev* dev) noexcept;
int dev_close(rte_eth_dev* dev) noexcept;
int is_removed(rte_eth_dev* dev) noexcept;

// rxq.cpp
int rx_queue_setup(rte_eth_dev* dev, std::uint16_t queue, std::uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) noexcept;
void rx_queue_release(rte_eth_dev* dev, std::uint16_t queue) noexcept;
void rxq_info_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_rxq_info* info) noexcept;
QueueCount rx_queue_count(void* queue) noexcept;
int rx_descriptor_status(void* queue, std::uint16_t offset) noexcept;
std::uint16_t rx_burst_of_each(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept;
/// Creates the queue and, unless its start is deferred, fills and readies it; on failure nothing of it is
/// left.
Status start_rxq(RxSlot& slot);
void stop_rxq(RxSlot& slot) noexcept;
/// Fills and readies a queue that is made. On failure it is as before.
Status resume_rxq(RxSlot& slot);
/// What came and was not polled is discarded, and counted; the queue's place in the RQT stays.
Status pause_rxq(RxSlot& slot);

// txq.cpp
int tx_queue_setup(rte_eth_dev* dev, std::uint16_t queue, std::uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) noexcept;
void tx_queue_release(rte_eth_dev* dev, std::uint16_t queue) noexcept;
void txq_info_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_txq_info* info) noexcept;
int tx_descriptor_status(void* queue, std::uint16_t offset) noexcept;
int tx_done_cleanup(void* queue, std::uint32_t free_count) noexcept;
std::uint16_t tx_prepare(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept;
Status start_txq(TxSlot& slot);
void stop_txq(TxSlot& slot) noexcept;
Status resume_txq(TxSlot& slot);
/// Waits for what was posted; what does not go is dropped, and counted.
Status pause_txq(TxSlot& slot);

// queue_state.cpp
int rx_queue_start(rte_eth_dev* dev, std::uint16_t queue) noexcept;
int rx_queue_stop(rte_eth_dev* dev, std::uint16_t queue) noexcept;
int tx_queue_start(rte_eth_dev* dev, std::uint16_t queue) noexcept;
int tx_queue_stop(rte_eth_dev* dev, std::uint16_t queue) noexcept;

// rss.cpp
int reta_update(rte_eth_dev* dev, rte_eth_rss_reta_entry64* conf, std::uint16_t size) noexcept;
int reta_query(rte_eth_dev* dev, rte_eth_rss_reta_entry64* conf, std::uint16_t size) noexcept;
int rss_hash_update(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;
int rss_hash_conf_get(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;
Status configure_rss(Port& port);
/// Builds RQT, TIRs and rules anew from the port's configuration; the receive queues run.
Status apply_steering(Port& port);

// filters.cpp
int promiscuous_enable(rte_eth_dev* dev) noexcept;
int promiscuous_disable(rte_eth_dev* dev) noexcept;
int allmulticast_enable(rte_eth_dev* dev) noexcept;
int allmulticast_disable(rte_eth_dev* dev) noexcept;
int mac_addr_add(rte_eth_dev* dev, rte_ether_addr* mac, std::uint32_t index, std::uint32_t pool) noexcept;
void mac_addr_remove(rte_eth_dev* dev, std::uint32_t index) noexcept;
int mac_addr_set(rte_eth_dev* dev, rte_ether_addr* mac) noexcept;
int set_mc_addr_list(rte_eth_dev* dev, rte_ether_addr* macs, std::uint32_t count) noexcept;
/// The filters that the port's addresses and modes ask for.
std::vector<ibv::FlowMatch> wanted_filters(const Port& port);

// interrupts.cpp
int rx_queue_intr_enable(rte_eth_dev* dev, std::uint16_t queue) noexcept;
int rx_queue_intr_disable(rte_eth_dev* dev, std::uint16_t queue) noexcept;
/// Below `percent` of the spare WQE buffers (those beyond the posted ones) RTE_ETH_EVENT_RX_AVAIL_THRESH
/// comes once; 0: never.
int rx_avail_thresh_set(rte_eth_dev* dev, std::uint16_t queue, std::uint8_t percent) noexcept;
int rx_avail_thresh_query(rte_eth_dev* dev, std::uint16_t* queue, std::uint8_t* percent) noexcept;

// stats.cpp
int stats_reset(rte_eth_dev* dev) noexcept;
int xstats_get(rte_eth_dev* dev, rte_eth_xstat* stats, unsigned count) noexcept;
int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count) noexcept;
void keep_stats(RxSlot& slot) noexcept; ///< adds those of the running queue to the slot's past
void keep_stats(TxSlot& slot) noexcept;

// link.cpp
int link_update(rte_eth_dev* dev, int wait_to_complete) noexcept;

// mtu.cpp
int mtu_set(rte_eth_dev* dev, std::uint16_t mtu) noexcept;

} // namespace stride::pmd
