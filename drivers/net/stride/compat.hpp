// SPDX-License-Identifier: BSD-3-Clause
/// What differs for a driver between DPDK 22.11 and 25.11; nothing else in the tree asks for the version.
#pragma once

#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_version.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace stride::pmd {

#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
using QueueStats = eth_queue_stats;
#else
using QueueStats = rte_eth_stats;
#endif

/// What the rx_queue_count op returns: unsigned at first, a signed int later.
using QueueCount = std::invoke_result_t<eth_rx_queue_count_t, void*>;

/// Totals into `stats`; per-queue counters into `queues`, which may be nullptr.
int stats_get(rte_eth_dev* dev, rte_eth_stats* stats, QueueStats* queues) noexcept;

/// Packet types reported; `count` of them before RTE_PTYPE_UNKNOWN.
const std::uint32_t* packet_types(std::size_t& count) noexcept;

/// `Stats` is called as stats_get is.
template <auto Stats>
inline void set_versioned_ops(eth_dev_ops& ops) noexcept {
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
    ops.stats_get = Stats;
#else
    ops.stats_get = [](rte_eth_dev* dev, rte_eth_stats* stats) { return Stats(dev, stats, stats); };
#endif
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
    ops.dev_supported_ptypes_get = [](rte_eth_dev*, std::size_t* count) { return packet_types(*count); };
#else
    ops.dev_supported_ptypes_get = [](rte_eth_dev*) {
        std::size_t count = 0;
        return packet_types(count);
    };
#endif
}

} // namespace stride::pmd
