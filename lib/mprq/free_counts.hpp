// SPDX-License-Identifier: BSD-3-Clause
/// How many packets of each WQE buffer were freed, ever: counted by those who free, each lcore in a row of
/// its own, and summed by the one who wants to know.
///
/// A row has one writer, so that counting takes no locked operation. That one thread at a time has an lcore
/// id is DPDK's own rule, which the caches of mempools live by: it forbids processes to share lcores
/// (prog_guide/multi_proc_support), and rte_thread_register refuses threads where there may be several
/// processes. Threads without an lcore, and lcores for which no row is left, share a row and lock.
///
/// Counts only grow, and wrap: a sum that is behind is a sum that was right a moment ago.
#pragma once

#include <rte_lcore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stride::mprq {

/// In memory that all processes share; the counters lie behind it, row by row, rows in cache lines of their
/// own.
class alignas(64) FreeCounts {
  public:
    static constexpr std::uint32_t max_rows = 32; ///< the shared one is the first

    /// All 0. nullptr: no memory.
    static FreeCounts* create(std::uint32_t buffers, int socket_id) noexcept;
    /// Takes nullptr too.
    static void destroy(FreeCounts* counts) noexcept;

    /// `count` packets of a buffer were freed: the caller's last access to anything of its pool. Any thread.
    void add(std::uint32_t buffer, std::uint32_t count) noexcept {
        // LCORE_ID_ANY is the largest number, and finds the first entry, which stays 0.
        const std::uint32_t row = row_of_[rte_lcore_id() + 1U].load(std::memory_order_relaxed);
        if (row == 0) [[unlikely]]
            return add_first(buffer, count);
        std::atomic<std::uint32_t>& counter = at(row, buffer);
        counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_release);
    }
    /// Of a buffer. What the freeing threads did with the packets counted happened before. Any thread.
    std::uint32_t of(std::uint32_t buffer) const noexcept {
        const std::uint32_t end = end_.load(std::memory_order_acquire);
        std::uint32_t sum = 0;
        for (std::uint32_t row = first_row; row < end; row += row_bytes_)
            sum += at(row, buffer).load(std::memory_order_acquire);
        return sum;
    }

  private:
    FreeCounts() = default;

    /// `row`: bytes from here.
    std::atomic<std::uint32_t>& at(std::size_t row, std::size_t buffer) const noexcept {
        auto* const here = reinterpret_cast<std::byte*>(const_cast<FreeCounts*>(this));
        return reinterpret_cast<std::atomic<std::uint32_t>*>(here + row)[buffer];
    }
    /// The caller's first for this pool, or it has no row.
    [[gnu::cold, gnu::noinline]] void add_first(std::uint32_t buffer, std::uint32_t count) noexcept;
    /// A row that is the caller's from now on; 0: none is left.
    std::uint32_t take_row() noexcept;

    static const std::uint32_t first_row;

    /// By lcore id + 1, its row; 0: none. Written by the lcore itself.
    std::atomic<std::uint32_t> row_of_[RTE_MAX_LCORE + 1]{};
    std::uint32_t row_bytes_{};
    std::atomic<std::uint32_t> end_{}; ///< of the rows in use
};

inline constexpr std::uint32_t FreeCounts::first_row = sizeof(FreeCounts);

} // namespace stride::mprq
