// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/geometry.hpp"

#include "base/format.hpp"
#include "base/ring.hpp"
#include "mprq/rx_queue.hpp"
#include "mprq/shape_choice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace stride::mprq {
namespace {

constexpr std::uint32_t default_min_log_stride_bytes = 8;  // below, per-stride bookkeeping outweighs the data
constexpr std::uint32_t default_max_log_stride_bytes = 11; // above, longer frames only waste more
constexpr std::uint32_t default_log_wqes = 2;
constexpr std::uint32_t default_frames_per_wqe = 4;
constexpr std::uint32_t max_log_wqe_bytes = 30; // a data segment's byte_count has 31 bits
constexpr std::uint32_t max_byte_count = 65535; // 16 bits in the CQE, and in an mbuf's lengths

std::uint32_t log2_up(std::uint32_t value) { return RingSize::at_least(value).log(); }

/// Adds "what N becomes M" to the warning.
void note(std::string& warning, const char* what, std::uint64_t asked, std::uint64_t got) {
    if (asked == got) return;
    if (!warning.empty()) warning += "; ";
    warning += strprintf("%s %llu becomes %llu", what, static_cast<unsigned long long>(asked),
                         static_cast<unsigned long long>(got));
}

Status check_request(const GeometryRequest& request) {
    if (request.max_frame_bytes == 0) return Error{EINVAL, "receive geometry: the longest frame has 0 bytes"};
    if (request.max_frame_bytes + std::uint64_t{request.headroom_bytes} + 2 > max_byte_count)
        return Error{EINVAL,
                     strprintf("receive geometry: frames of %u bytes with %u bytes of headroom do not "
                               "fit the 16-bit lengths of CQE and mbuf",
                               request.max_frame_bytes, request.headroom_bytes)};
    if (request.descriptors > max_descriptors)
        return Error{EINVAL, strprintf("receive geometry: %u descriptors asked for, at most %u can be had",
                                       request.descriptors, max_descriptors)};
    return {};
}

Status check_limits(const StridingLimits& limits) {
    if (limits.min_log_stride_bytes > limits.max_log_stride_bytes ||
        limits.min_log_strides > limits.max_log_strides || limits.max_log_strides > 31 ||
        limits.min_log_stride_bytes + limits.min_log_strides > max_log_wqe_bytes)
        return Error{ENOTSUP,
                     strprintf("receive geometry: the device's striding limits make no sense (log stride "
                               "bytes %u..%u, log strides %u..%u)",
                               limits.min_log_stride_bytes, limits.max_log_stride_bytes,
                               limits.min_log_strides, limits.max_log_strides)};
    return {};
}

std::uint32_t choose_log_stride_bytes(const GeometryRequest& request, const StridingLimits& limits) {
    std::uint32_t wanted = request.stride_bytes != 0
                               ? log2_up(request.stride_bytes)
                               : std::clamp(log2_up(request.max_frame_bytes + request.headroom_bytes),
                                            default_min_log_stride_bytes, default_max_log_stride_bytes);
    return std::clamp(wanted, limits.min_log_stride_bytes, limits.max_log_stride_bytes);
}

/// Log of the strides that `frames` of the longest frames take in one WQE.
std::uint32_t log_strides_for(const GeometryRequest& request, std::uint32_t log_stride_bytes,
                              std::uint32_t frames) {
    const std::uint32_t frame_bytes = request.max_frame_bytes + (request.two_byte_shift ? 2U : 0U);
    return log2_up(div_round_up(frame_bytes, 1U << log_stride_bytes) * frames);
}

std::uint32_t choose_log_strides(const GeometryRequest& request, const StridingLimits& limits,
                                 std::uint32_t log_stride_bytes) {
    std::uint32_t wanted = 0;
    if (request.strides_per_wqe != 0) {
        wanted = std::min(log2_up(request.strides_per_wqe), 31U);
    } else {
        const std::uint32_t log_total = log2_up(request.descriptors);
        wanted = std::max(log_total > default_log_wqes ? log_total - default_log_wqes : 0U,
                          log_strides_for(request, log_stride_bytes, default_frames_per_wqe));
    }
    if (limits.min_log_wqe_bytes > log_stride_bytes)
        wanted = std::max(wanted, limits.min_log_wqe_bytes - log_stride_bytes);
    wanted = std::max(wanted, log_strides_for(request, log_stride_bytes, 1));
    // The CQE counts strides in 15 bits.
    const std::uint32_t most = std::min({limits.max_log_strides, 15U, max_log_wqe_bytes - log_stride_bytes});
    return std::clamp(wanted, std::min(limits.min_log_strides, most), most);
}

/// The frame fits one WQE, and the WQE is as large as the device demands.
bool wqe_serves(const GeometryRequest& request, const StridingLimits& limits, const Geometry& shape) {
    return log_strides_for(request, shape.log_stride_bytes, 1) <= shape.log_strides &&
           shape.log_stride_bytes + shape.log_strides >= limits.min_log_wqe_bytes &&
           shape.log_strides >= limits.min_log_strides;
}

Status choose_wqes(const GeometryRequest& request, const StridingLimits& limits, Geometry& shape) {
    const std::uint32_t log_total = log2_up(request.descriptors);
    shape.log_wqes = std::max(1U, log_total > shape.log_strides ? log_total - shape.log_strides : 0U);
    if (shape.wqes() > limits.max_wqes || shape.cq_entries() > limits.max_cqes)
        return Error{ENOSPC,
                     strprintf("receive geometry: %u WQEs of %u strides and %u CQEs needed, the device has "
                               "%u and %u",
                               shape.wqes(), shape.strides_per_wqe(), shape.cq_entries(), limits.max_wqes,
                               limits.max_cqes)};
    // Packets on their way through a send queue of as many descriptors hold that many WQEs, and one more.
    shape.spare_wqes = std::min(request.spare_wqes.value_or(2 * shape.wqes()), max_descriptors);
    return {};
}

/// IMIX as far as it fits the longest frame, which stands for its longest where it is longer.
std::array<std::uint32_t, imix_bytes.size()> imix_lengths(std::uint32_t max_frame_bytes) {
    constexpr std::uint32_t standard_frame_bytes = 1522;
    auto lengths = imix_bytes;
    for (std::uint32_t& length : lengths) {
        if (length == 1514 && max_frame_bytes > standard_frame_bytes) length = max_frame_bytes;
        length = std::min(length, max_frame_bytes);
    }
    return lengths;
}

/// The shape for bursts, as stride-plan would choose it for IMIX; nullopt if nobody wants it, or the device
/// has no such.
std::optional<Geometry> compact(const GeometryRequest& request, const StridingLimits& limits,
                                const Geometry& roomy) {
    const std::uint64_t roomy_bytes = std::uint64_t{roomy.wqes()} * roomy.wqe_bytes();
    if (request.stride_bytes != 0 || request.strides_per_wqe != 0 || roomy_bytes <= roomy_ring_bytes)
        return std::nullopt;
    const ShapeGoal goal{.burst_packets = request.descriptors,
                         .two_byte_shift = request.two_byte_shift,
                         .rule = {RxQueueConfig::copy_threshold_attached_bytes, request.headroom_bytes}};
    const std::vector<ShapeUse> uses = measure_shapes(imix_lengths(request.max_frame_bytes), limits, goal);
    const ShapeChoice choice = choose_shape(uses, goal);
    if (choice.use == nullptr) return std::nullopt;
    Geometry shape = roomy;
    shape.log_stride_bytes = choice.use->log_stride_bytes;
    shape.log_strides = choice.use->log_strides;
    // 1/32 more, for mixes that are not exactly that one.
    shape.posted_limit = std::max(2U, static_cast<std::uint32_t>(choice.use->burst_wqes * 33 / 32) + 1);
    shape.log_wqes = log2_up(shape.posted_limit);
    shape.spare_wqes = request.spare_wqes.value_or(std::max(2U, shape.posted_limit / 8));
    const bool fits = wqe_serves(request, limits, shape) && shape.wqes() <= limits.max_wqes &&
                      shape.cq_entries() <= limits.max_cqes;
    return fits ? std::optional{shape} : std::nullopt;
}

} // namespace

Result<GeometryPlan> plan_geometry(const GeometryRequest& request, const StridingLimits& limits) {
    if (Status valid = check_request(request); !valid) return valid.take_error();
    if (Status valid = check_limits(limits); !valid) return valid.take_error();

    GeometryPlan plan;
    Geometry& shape = plan.geometry;
    shape.max_frame_bytes = request.max_frame_bytes;
    shape.two_byte_shift = request.two_byte_shift;
    shape.log_stride_bytes = choose_log_stride_bytes(request, limits);
    shape.log_strides = choose_log_strides(request, limits, shape.log_stride_bytes);
    while (!wqe_serves(request, limits, shape)) {
        if (shape.log_stride_bytes == limits.max_log_stride_bytes)
            return Error{ENOTSUP,
                         strprintf("receive geometry: no WQE the device offers (%u to %u strides of %u to %u "
                                   "bytes, at least 2^%u bytes in all) takes a frame of %u bytes",
                                   1U << limits.min_log_strides, 1U << limits.max_log_strides,
                                   1U << limits.min_log_stride_bytes, 1U << limits.max_log_stride_bytes,
                                   limits.min_log_wqe_bytes, request.max_frame_bytes)};
        ++shape.log_stride_bytes;
        shape.log_strides = choose_log_strides(request, limits, shape.log_stride_bytes);
    }
    if (Status chosen = choose_wqes(request, limits, shape); !chosen) return chosen.take_error();
    shape = compact(request, limits, shape).value_or(shape);

    if (request.stride_bytes != 0)
        note(plan.warning, "stride size", request.stride_bytes, shape.stride_bytes());
    if (request.strides_per_wqe != 0)
        note(plan.warning, "strides per WQE", request.strides_per_wqe, shape.strides_per_wqe());
    if (request.spare_wqes) note(plan.warning, "spare WQEs", *request.spare_wqes, shape.spare_wqes);
    return plan;
}

} // namespace stride::mprq
