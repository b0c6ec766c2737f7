// SPDX-License-Identifier: BSD-3-Clause
/// Which stride size and count serve given packet lengths best.
#pragma once

#include "mprq/geometry.hpp"
#include "mprq/waste.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stride::mprq {

/// A dozen packets of the Internet mix, 7 to 4 to 1, no long run of one length.
inline constexpr std::array<std::uint32_t, 12> imix_bytes{64,   590, 64,  64, 590, 64,
                                                          1514, 64,  590, 64, 590, 64};

/// What a receive queue should be good at.
struct ShapeGoal {
    std::uint32_t burst_packets{16384};    ///< to be taken without a WQE posted meanwhile
    std::uint32_t stride_header_bytes{64}; ///< of the queue's own memory that each stride costs: share, CQE
    bool two_byte_shift{};
    AttachRule rule{};
    double min_packets_per_wqe{64}; ///< fewer make posting WQEs a cost
    double max_copied_share{0.1};   ///< of packets longer than the threshold, copied for lack of headroom
};

/// One stride size and count, measured against lengths.
struct ShapeUse {
    std::uint32_t log_stride_bytes{}, log_strides{};
    WasteTally all;              ///< of the lengths, repeated until they are a burst or more
    std::uint64_t burst_wqes{};  ///< that the goal's burst takes
    std::uint64_t burst_bytes{}; ///< of these WQEs' buffers and headers

    std::uint32_t stride_bytes() const noexcept { return 1U << log_stride_bytes; }
    std::uint32_t strides() const noexcept { return 1U << log_strides; }
    /// Of the packets longer than the threshold.
    double copied_share() const noexcept;
};

/// Every shape within `limits` that a data segment can describe, by stride size, then count.
std::vector<ShapeUse> measure_shapes(std::span<const std::uint32_t> lengths, const StridingLimits& limits,
                                     const ShapeGoal& goal);

struct ShapeChoice {
    const ShapeUse* use{}; ///< element of what was chosen from; nullptr: no shape takes the longest packet
    std::string why{};
};

/// The shape that takes the burst in the fewest bytes, among those that take every packet and keep the goal's
/// two limits; if none keeps them, the one that misses them least. Equal bytes: the fewest strides.
ShapeChoice choose_shape(std::span<const ShapeUse> uses, const ShapeGoal& goal);

} // namespace stride::mprq
