// SPDX-License-Identifier: BSD-3-Clause
/// The mbuf QP: the send queues of one port and encap as one object.
///
/// Each queue has one user at a time; different queues may be used by different threads. The set owns the
/// queues, not the rings they work on.
#pragma once

#include "base/result.hpp"
#include "mbufqp/tx_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stride::mbufqp {

struct QueueSetConfig {
    std::span<const TxQueueConfig> queues{}; ///< one each; the rings outlive the set
    TxBurst burst{};                         ///< of the set's encap, for the features all its queues have
    /// A queue with less room than `stop_below` counts as full until it has `wake_at` again, so that its user
    /// is not woken for every packet. At most half of the queue; 0, 0: no hysteresis.
    std::uint32_t stop_below{}, wake_at{};
};

class QueueSet {
  public:
    /// EINVAL: no queues, features that differ, or water marks that could never be reached.
    static Result<QueueSet> open(const QueueSetConfig& config);
    /// Frees everything in flight. The owner has moved the QPs to RESET.
    void close() noexcept { members_.clear(); }

    std::size_t queues() const noexcept { return members_.size(); }
    TxQueue& queue(std::size_t index) noexcept { return *members_[index].queue; }

    /// Takes packets from the front; returns how many. Queue `index` is the caller's alone meanwhile.
    std::uint16_t put(std::size_t index, rte_mbuf** mbufs, std::uint16_t count) noexcept {
        return burst_(members_[index].queue.get(), mbufs, count);
    }
    /// Single-segment packets that put takes for certain; 0 from high water until low water. Frees what is
    /// completed.
    std::uint32_t write_avail(std::size_t index) noexcept;
    /// The queue of a flow: the same for the same `entropy` and `virtual_lane` as long as the set lives.
    std::size_t select_queue(std::uint32_t entropy, std::uint8_t virtual_lane = 0) const noexcept {
        // An odd multiplier carries every bit of both to the top, and the top is scaled: no division.
        const std::uint32_t mixed = (entropy ^ std::uint32_t{virtual_lane} << 24) * 0x9e3779b1U;
        const std::uint32_t folded = (mixed ^ mixed >> 15) * 0x85ebca6bU;
        return static_cast<std::size_t>(std::uint64_t{folded} * members_.size() >> 32);
    }
    TxStats stats(std::size_t index) const noexcept { return members_[index].queue->stats(); }

  private:
    struct Member {
        TxQueuePtr queue{};
        bool stopped{};
    };

    QueueSet() = default;

    std::vector<Member> members_{};
    TxBurst burst_{};
    std::uint32_t stop_below_{}, wake_at_{};
};

} // namespace stride::mbufqp
