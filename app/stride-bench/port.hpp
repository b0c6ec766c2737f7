// SPDX-License-Identifier: BSD-3-Clause
/// The port under test: configured, started, with its mbufs.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <string>

struct rte_mempool;

namespace bench {

/// Memory that the receive side of the port holds, bytes, all queues.
struct Memory {
    std::uint64_t pool_mbufs{};   ///< mbufs taken from the application's pool, times their size
    std::uint64_t driver_pools{}; ///< mempools that the driver made for itself
    std::uint64_t heap{};         ///< all the driver took of DPDK's heaps, its mempools included
};

/// Throws std::runtime_error, which names call, port and reason.
class Port {
  public:
    /// Sets up port `id` and starts it, promiscuous.
    Port(std::uint16_t id, const Options& options);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    std::uint16_t id() const noexcept { return id_; }
    std::uint16_t queues() const noexcept { return queues_; }
    /// Of the receive queues; and, for `tx`, of what is sent.
    rte_mempool* pool() const noexcept { return pool_; }
    rte_mempool* tx_pool() const noexcept { return tx_pool_; }
    /// Descriptors of a receive queue, as the driver has made them.
    std::uint16_t rx_descriptors() const noexcept { return rx_descriptors_; }
    const std::string& driver() const noexcept { return driver_; }
    /// Names of the burst functions' modes, if the driver tells.
    std::string burst_modes() const;
    const Memory& rx_memory() const noexcept { return rx_memory_; }

  private:
    void make_pools(const Options& options);
    void configure(const Options& options);
    void set_up_queues(const Options& options);

    std::uint16_t id_;
    std::uint16_t queues_;
    std::uint16_t rx_descriptors_{}, tx_descriptors_{};
    rte_mempool* pool_{};
    rte_mempool* tx_pool_{};
    std::string driver_;
    Memory rx_memory_{};
};

} // namespace bench
