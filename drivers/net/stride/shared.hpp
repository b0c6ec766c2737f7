// SPDX-License-Identifier: BSD-3-Clause
/// What of a port the secondary processes see, in EAL's memory. The primary makes it and says which queues
/// run; a secondary polls those (secondary.cpp) and asks the primary for what takes verbs (requests.hpp).
#pragma once

#include "base/result.hpp"
#include "compat.hpp"
#include "mbufqp/tx_queue.hpp"
#include "mprq/rx_queue.hpp"
#include "window.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <sys/types.h>

namespace stride::pmd {

inline constexpr std::uint16_t max_queues = 256;

struct RxSlot;
struct TxSlot;

/// A queue as other processes find it: its place never changes, what is there comes and goes.
template <class Queue, class Slot>
struct alignas(64) SharedQueue {
    std::atomic<Queue*> queue{}; ///< nullptr: it does not run
    std::atomic<pid_t> inside{}; ///< the secondary process that has a burst on it; 0: none
    std::uint16_t port_id{}, id{};
    Slot* slot{};   ///< of the primary process
    UarPlace uar{}; ///< send queues: the page they ring

    /// From here on no other process has a burst on it. Primary, control thread; no lock of the port is held:
    /// a burst may have asked the primary for something.
    void withdraw() noexcept;
    void show(Queue* running) noexcept { queue.store(running, std::memory_order_seq_cst); }
};
using SharedRxq = SharedQueue<mprq::RxQueue, RxSlot>;
using SharedTxq = SharedQueue<mbufqp::TxQueue, TxSlot>;

/// In memory of rte_malloc, as long as any process has the port.
struct PortShared {
    std::uint32_t bytes{sizeof(PortShared)}; ///< of another version: most likely others
    std::atomic<std::uint32_t> processes{1};
    std::atomic<std::uint32_t> key_generation{}; ///< of ibv::KeyTable
    std::byte* window{};                         ///< where it has to be; nullptr: not shared
    char why_not[160]{};                         ///< if it is not
    int bind_ops_index{-1};                      ///< of the mempool ops "stride"
    rte_eth_dev_info info{};
    rte_eth_stats stats{}; ///< as the primary last answered
    QueueStats queue_stats{};
    SharedRxq rxqs[max_queues]{};
    SharedTxq txqs[max_queues]{};

    static PortShared* create() noexcept; ///< nullptr: no memory
};

/// A process leaves; the last one frees it.
struct LeavePort {
    void operator()(PortShared* shared) const noexcept;
};
using PortSharedPtr = std::unique_ptr<PortShared, LeavePort>;

/// Index of the mempool ops "stride" in this process; -1: there are none.
int bind_ops_index() noexcept;

} // namespace stride::pmd
