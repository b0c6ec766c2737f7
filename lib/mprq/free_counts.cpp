// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/free_counts.hpp"

#include "base/ring.hpp"

#include <rte_malloc.h>

#include <new>

namespace stride::mprq {

FreeCounts* FreeCounts::create(std::uint32_t buffers, int socket_id) noexcept {
    constexpr std::uint32_t line_bytes = alignof(FreeCounts);
    const auto row_bytes = align_up(static_cast<std::uint32_t>(buffers * sizeof(std::uint32_t)), line_bytes);
    const std::size_t bytes = first_row + std::size_t{max_rows} * row_bytes;
    void* const place = rte_zmalloc_socket("free_counts", bytes, line_bytes, socket_id);
    if (place == nullptr) return nullptr;
    auto* const counts = new (place) FreeCounts; // the counters are 0 already
    counts->row_bytes_ = row_bytes;
    counts->end_.store(first_row + row_bytes, std::memory_order_relaxed);
    return counts;
}

void FreeCounts::destroy(FreeCounts* counts) noexcept { rte_free(counts); }

std::uint32_t FreeCounts::take_row() noexcept {
    std::uint32_t row = end_.load(std::memory_order_relaxed);
    do {
        if (row == first_row + max_rows * row_bytes_) return 0;
    } while (!end_.compare_exchange_weak(row, row + row_bytes_, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
    return row;
}

void FreeCounts::add_first(std::uint32_t buffer, std::uint32_t count) noexcept {
    const unsigned lcore = rte_lcore_id();
    const std::uint32_t row = lcore < RTE_MAX_LCORE ? take_row() : 0;
    if (row == 0) {
        at(first_row, buffer).fetch_add(count, std::memory_order_release);
        return;
    }
    row_of_[lcore + 1].store(row, std::memory_order_relaxed);
    add(buffer, count);
}

} // namespace stride::mprq
