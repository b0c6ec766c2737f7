// SPDX-License-Identifier: BSD-3-Clause
/// Memory that is one range for a device without an IOMMU (EAL's IOVA as PA): hugepages side by side are one
/// range for the program only.
#pragma once

#include <cstddef>

namespace stride::mprq {

/// Whether devices are given addresses of hugepages that lie anywhere.
bool physical_iova() noexcept;

/// Bytes from `base` on, at most `bytes`, that are one range. Control path; any thread.
std::size_t iova_range_bytes(const std::byte* base, std::size_t bytes) noexcept;

/// The first place from `from` on where `bytes` are one range; nullptr if there is none before `end`.
std::byte* iova_place(std::byte* from, const std::byte* end, std::size_t bytes) noexcept;

/// What to add to `bytes` of memory so that pieces of `piece_bytes` can all be placed so: one piece for every
/// hugepage, nothing where addresses are the program's own.
std::size_t iova_slack_bytes(std::size_t bytes, std::size_t piece_bytes) noexcept;

} // namespace stride::mprq
