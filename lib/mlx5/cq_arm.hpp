// SPDX-License-Identifier: BSD-3-Clause
/// Asking a CQ for an event: the arm doorbell record and the CQ's register (PRM "CQ Doorbell").
#pragma once

#include "base/barrier.hpp"
#include "base/be.hpp"
#include "mlx5/rings.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mlx5 {

inline constexpr std::size_t cq_doorbell_offset = 0x20;
inline constexpr std::size_t cq_arm_dword = 1;

/// An event for the next CQE behind `ci`; at once if there is one already, for the HCA compares `ci` with its
/// own index. `sequence`: events this CQ has given so far; a record that does not change arms nothing.
inline void arm_cq(const CqRing& cq, std::uint32_t sequence, std::uint32_t ci) noexcept {
    const be32 words[2] = {be32{(sequence & 3U) << 28 | (ci & 0xffffffU)}, be32{cq.cqn.value}};
    store_to_device(cq.dbrec + cq_arm_dword, words[0]);
    std::uint64_t doorbell;
    std::memcpy(&doorbell, words, sizeof doorbell);
    ring_doorbell(cq.uar + cq_doorbell_offset, doorbell);
    flush_doorbell();
}

} // namespace stride::mlx5
