// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/shape_choice.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace stride::mprq {
namespace {

constexpr std::uint32_t max_log_wqe_bytes = 30; // a data segment's byte_count has 31 bits
constexpr std::uint32_t max_log_strides = 15;   // the CQE counts strides in 15 bits

/// WQEs that the burst takes, the most over bursts that begin at the lengths' start, middle and end.
std::uint64_t burst_wqes(std::span<const std::uint32_t> lengths, const mlx5::StrideMap& map,
                         const ShapeGoal& goal) {
    constexpr std::size_t starts = 3;
    std::uint64_t most = 0;
    for (std::size_t start = 0; start < starts; ++start) {
        WasteTally tally{map, goal.rule};
        std::size_t next = lengths.size() * start / starts;
        for (std::uint32_t i = 0; i < goal.burst_packets; ++i) {
            tally.add(lengths[next]);
            if (++next == lengths.size()) next = 0;
        }
        most = std::max(most, tally.wqes);
    }
    return most;
}

ShapeUse measure(std::span<const std::uint32_t> lengths, std::uint32_t log_stride_bytes,
                 std::uint32_t log_strides, const ShapeGoal& goal) {
    const mlx5::StrideMap map{log_stride_bytes, log_strides, goal.two_byte_shift};
    ShapeUse use{log_stride_bytes, log_strides, WasteTally{map, goal.rule}, 0, 0};
    // Repeated, so that few lengths also meet the ends of WQEs.
    for (std::size_t done = 0; done == 0 || done < goal.burst_packets; done += lengths.size())
        for (const std::uint32_t length : lengths)
            use.all.add(length);
    use.burst_wqes = burst_wqes(lengths, map, goal);
    const std::uint64_t wqe_bytes =
        std::uint64_t{use.stride_bytes() + goal.stride_header_bytes} * use.strides();
    use.burst_bytes = use.burst_wqes * wqe_bytes;
    return use;
}

/// How far a shape is from the goal's limits; 0 if it keeps both.
double shortfall(const ShapeUse& use, const ShapeGoal& goal) {
    const double few = std::max(0.0, 1.0 - use.all.packets_per_wqe() / goal.min_packets_per_wqe);
    return few + std::max(0.0, use.copied_share() - goal.max_copied_share);
}

std::string explain(const ShapeUse& use, const ShapeGoal& goal) {
    std::string why = strprintf(
        "a burst of %u packets takes the fewest bytes, %llu: %llu WQEs, %.1f packets each; %.1f %% of the "
        "strides' bytes hold no packet, %.1f %% of the packets longer than %u bytes lack headroom",
        goal.burst_packets, static_cast<unsigned long long>(use.burst_bytes),
        static_cast<unsigned long long>(use.burst_wqes), use.all.packets_per_wqe(),
        100 * use.all.waste_share(), 100 * use.copied_share(), goal.rule.copy_threshold_bytes);
    if (shortfall(use, goal) > 0)
        why +=
            strprintf("; no shape has %.0f packets in a WQE and at most %.0f %% without headroom, this one "
                      "comes closest",
                      goal.min_packets_per_wqe, 100 * goal.max_copied_share);
    return why;
}

} // namespace

double ShapeUse::copied_share() const noexcept {
    const std::uint64_t longer = all.packets - all.copied_short;
    return longer == 0 ? 0.0 : static_cast<double>(all.copied_no_headroom) / static_cast<double>(longer);
}

std::vector<ShapeUse> measure_shapes(std::span<const std::uint32_t> lengths, const StridingLimits& limits,
                                     const ShapeGoal& goal) {
    std::vector<ShapeUse> uses;
    if (lengths.empty()) return uses;
    for (std::uint32_t stride = limits.min_log_stride_bytes; stride <= limits.max_log_stride_bytes; ++stride)
        for (std::uint32_t count = limits.min_log_strides;
             count <= std::min(limits.max_log_strides, max_log_strides); ++count) {
            if (stride + count < limits.min_log_wqe_bytes || stride + count > max_log_wqe_bytes) continue;
            uses.push_back(measure(lengths, stride, count, goal));
        }
    return uses;
}

ShapeChoice choose_shape(std::span<const ShapeUse> uses, const ShapeGoal& goal) {
    const auto better = [&goal](const ShapeUse& a, const ShapeUse& b) {
        const double misses_a = shortfall(a, goal), misses_b = shortfall(b, goal);
        if (misses_a != misses_b) return misses_a < misses_b;
        if (a.burst_bytes != b.burst_bytes) return a.burst_bytes < b.burst_bytes;
        return a.burst_wqes * a.strides() < b.burst_wqes * b.strides();
    };
    const ShapeUse* best = nullptr;
    for (const ShapeUse& use : uses)
        if (use.all.too_long == 0 && use.all.packets != 0 && (best == nullptr || better(use, *best)))
            best = &use;
    if (best == nullptr) return {nullptr, "no shape takes the longest packet"};
    return {best, explain(*best, goal)};
}

} // namespace stride::mprq
