// SPDX-License-Identifier: BSD-3-Clause
/// Shape of a striding receive queue: stride size, strides per WQE, WQEs in the ring, buffers behind it.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stride::mprq {

/// Most descriptors a queue offers: a power of two that ethdev's 16-bit nb_desc still holds.
inline constexpr std::uint32_t max_descriptors = 32768;

inline constexpr std::uint32_t roomy_ring_bytes = 4U << 20;

/// What the device offers (mlx5dv_striding_rq_caps, ibv_device_attr).
struct StridingLimits {
    std::uint32_t min_log_stride_bytes{6}, max_log_stride_bytes{13};
    std::uint32_t min_log_strides{3}, max_log_strides{16}; ///< strides per WQE
    std::uint32_t min_log_wqe_bytes{0}; ///< log_stride_bytes + log_strides at least; 0: no such limit
    std::uint32_t max_wqes{32768};      ///< max_wr of a WQ
    std::uint32_t max_cqes{4194304};    ///< entries of a CQ
};

/// What is wanted. A 0 (or nullopt) leaves the choice to plan_geometry.
struct GeometryRequest {
    std::uint32_t max_frame_bytes{}; ///< longest frame to accept, with L2 header (and CRC if it is kept)
    std::uint32_t descriptors{};     ///< packets of one stride that the posted WQEs take
    std::uint32_t headroom_bytes{};  ///< free bytes guaranteed in front of each packet
    bool two_byte_shift{};
    std::uint32_t stride_bytes{};              ///< override
    std::uint32_t strides_per_wqe{};           ///< override
    std::optional<std::uint32_t> spare_wqes{}; ///< override: WQE buffers beyond those posted
};

/// A shape that the device takes and whose CQ cannot overrun.
struct Geometry {
    std::uint32_t log_stride_bytes{};
    std::uint32_t log_strides{}; ///< strides per WQE
    std::uint32_t log_wqes{};    ///< WQEs that the ring has room for, 2 at least
    std::uint32_t spare_wqes{};  ///< WQE buffers beyond those posted
    std::uint32_t max_frame_bytes{};
    bool two_byte_shift{};
    std::uint32_t posted_limit{}; ///< WQEs posted at once, 2 at least; 0: as many as the ring has room for

    std::uint32_t stride_bytes() const noexcept { return 1U << log_stride_bytes; }
    std::uint32_t strides_per_wqe() const noexcept { return 1U << log_strides; }
    std::uint32_t wqe_bytes() const noexcept { return 1U << (log_stride_bytes + log_strides); }
    std::uint32_t wqes() const noexcept { return 1U << log_wqes; }
    std::uint32_t posted_wqes() const noexcept { return posted_limit != 0 ? posted_limit : wqes(); }
    /// WQE buffers of the queue, posted and spare.
    std::uint32_t buffers() const noexcept { return posted_wqes() + spare_wqes; }
    /// Strides the ring has room for. A CQ of as many entries (a power of two) cannot overrun: every
    /// CQE, filler and error ones too, stands for one stride at least, and RxQueue publishes its consumer
    /// index before it posts strides again.
    std::uint32_t cq_entries() const noexcept { return 1U << (log_wqes + log_strides); }
    /// ethdev's nb_desc: packets of at most one stride that the full ring takes.
    std::uint16_t descriptors() const noexcept {
        const std::uint32_t strides = posted_wqes() << log_strides;
        return static_cast<std::uint16_t>(strides < 65535U ? strides : 65535U);
    }
};

struct GeometryPlan {
    Geometry geometry{};
    std::string warning{}; ///< empty, or one line that says what was asked for and what it became
};

/// Chooses a shape within `limits`; overrides that don't fit are moved to the nearest that does, with one
/// warning. EINVAL: a request no device can serve (no frame size, too many descriptors); ENOTSUP: limits that
/// contradict themselves or have no WQE large enough for the frame; ENOSPC: more WQEs or CQEs than there are.
///
/// Default stride: the frame and its headroom in one stride, up to 2 KiB; longer frames take several, side by
/// side. Default WQEs: four, since a small ring stays in the caches, with room for four of the longest frames
/// each, since a frame that does not fit what is left of a WQE wastes it.
///
/// A ring that would be larger than roomy_ring_bytes this way is there to take bursts. It gets small strides
/// instead, and as many as `descriptors` packets of mixed lengths (IMIX) take, in the shape that choose_shape
/// (shape_choice.hpp, of stride-plan) recommends for them. The price: behind a frame that
/// fills its last stride the next one has no headroom and is copied.
Result<GeometryPlan> plan_geometry(const GeometryRequest& request, const StridingLimits& limits);

} // namespace stride::mprq
