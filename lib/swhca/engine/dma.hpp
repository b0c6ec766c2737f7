// SPDX-License-Identifier: BSD-3-Clause
/// The model's way to program memory: data segments through memory keys, rings by their address.
///
/// Everything the engine dereferences for a program comes from here, so that protection against memory
/// that was unmapped under a live region or ring has one place to go.
#pragma once

#include "swhca/hca/device.hpp"
#include "swhca/hca/rules.hpp"

#include <cstddef>
#include <cstdint>

namespace swhca {

enum class Access : std::uint8_t { read, write };

/// What a data segment asks for.
struct DmaRequest {
    Lkey lkey{};
    std::uint64_t address{};
    std::uint64_t length_bytes{};
};

/// Where it lies; or null and the rule it breaks.
struct DmaAnswer {
    std::byte* data{};
    Rule broken{};
};

/// Checks, in this order: key registered, same PD, range inside the region, access allowed.
inline DmaAnswer dma(const MrTable& mrs, Pdn pd, const DmaRequest& request, Access access) noexcept {
    const Mr* mr = mrs.find(request.lkey);
    if (mr == nullptr || mr->pd != pd) [[unlikely]]
        return {nullptr, Rule::bad_lkey};
    const std::uint64_t offset = request.address - mr->iova;
    if (offset > mr->length_bytes || request.length_bytes > mr->length_bytes - offset) [[unlikely]]
        return {nullptr, Rule::lkey_range};
    if (access == Access::write && !mr->local_write) [[unlikely]]
        return {nullptr, Rule::lkey_access};
    // The one place where an address of the program becomes a pointer of the model.
    return {reinterpret_cast<std::byte*>(mr->start + offset), {}}; // NOLINT(performance-no-int-to-ptr)
}

/// WQEBB `index` (free running) of a send queue.
inline const std::byte* sq_wqebb(const Sq& sq, std::uint32_t index) noexcept {
    return sq.ring + std::size_t{sq.size.slot(index)} * 64;
}

/// WQE `index` (free running) of a receive queue.
inline const std::byte* rq_wqe(const Rq& rq, std::uint32_t index) noexcept {
    return rq.ring + (std::size_t{rq.size.slot(index)} << rq.log_wqe_bytes);
}

/// The 64 bytes of CQE `index` (free running): the second half of a 128-byte one.
inline std::byte* cq_slot(const Cq& cq, std::uint32_t index) noexcept {
    return cq.ring + std::size_t{cq.size.slot(index)} * cq.cqe_bytes + (cq.cqe_bytes - 64);
}

/// Fetches a line that will be read, or written, soon.
inline void prefetch_read(const void* line) noexcept { __builtin_prefetch(line, 0, 3); }
inline void prefetch_write(const void* line) noexcept { __builtin_prefetch(line, 1, 3); }

/// Adds to a counter that other threads read at any time; one writer.
inline void count(std::uint64_t& counter, std::uint64_t by) noexcept {
    __atomic_store_n(&counter, counter + by, __ATOMIC_RELAXED);
}

} // namespace swhca
