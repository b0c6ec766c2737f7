// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/iova.hpp"

#include <rte_eal.h>
#include <rte_memory.h>

#include <cstdint>

namespace stride::mprq {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t hugepage_bytes = std::size_t{2} << 20; // the smallest kind

/// Bytes from `at` to the next page.
std::size_t to_next_page(const std::byte* at) noexcept {
    return page_bytes - reinterpret_cast<std::uintptr_t>(at) % page_bytes;
}

} // namespace

bool physical_iova() noexcept { return rte_eal_iova_mode() == RTE_IOVA_PA && rte_eal_has_hugepages() != 0; }

std::size_t iova_range_bytes(const std::byte* base, std::size_t bytes) noexcept {
    if (!physical_iova()) return bytes;
    const rte_iova_t first = rte_mem_virt2iova(base);
    if (first == RTE_BAD_IOVA) return 0;
    for (std::size_t offset = to_next_page(base); offset < bytes; offset += page_bytes)
        if (rte_mem_virt2iova(base + offset) != first + offset) return offset;
    return bytes;
}

std::byte* iova_place(std::byte* from, const std::byte* end, std::size_t bytes) noexcept {
    while (from + bytes <= end) {
        const std::size_t range_bytes = iova_range_bytes(from, bytes);
        if (range_bytes == bytes) return from;
        from += range_bytes == 0 ? to_next_page(from) : range_bytes;
    }
    return nullptr;
}

std::size_t iova_slack_bytes(std::size_t bytes, std::size_t piece_bytes) noexcept {
    return physical_iova() ? (bytes / hugepage_bytes + 1) * piece_bytes : 0;
}

} // namespace stride::mprq
