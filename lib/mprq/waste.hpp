// SPDX-License-Identifier: BSD-3-Clause
/// What packets leave unused of striding WQEs, exactly: the HCA's arithmetic, run over lengths.
#pragma once

#include "mlx5/strides.hpp"

#include <algorithm>
#include <cstdint>

namespace stride::mprq {

/// Which packets a queue attaches rather than copies, as far as lengths decide it (RxQueueConfig).
struct AttachRule {
    std::uint32_t copy_threshold_bytes{128}; ///< packets up to this length are copied
    std::uint32_t headroom_bytes{128};       ///< an attached one needs so much in front of it
};

/// Sums over packets that arrive in one queue one after the other. All strides, fillers and WQEs are counted
/// when they are taken; the WQE in use counts as a whole one.
class WasteTally {
  public:
    constexpr WasteTally(const mlx5::StrideMap& map, AttachRule rule) noexcept
        : map_{map}
        , rule_{rule} {}

    /// A packet of `length` bytes (1 at least) arrives. One that no WQE can hold is only counted.
    constexpr void add(std::uint32_t length) noexcept {
        const std::uint32_t needed = map_.needed(length);
        if (needed > map_.strides()) {
            ++too_long;
            return;
        }
        if (next_ + needed > map_.strides()) {
            ++fillers;
            filler_strides += map_.strides() - next_;
            next_ = 0;
        }
        if (next_ == 0) begin_wqe();
        ++packets;
        bytes += length;
        strides += needed;
        stride_waste_bytes += map_.waste(length);
        place(length, needed);
        next_ += needed;
        if (next_ == map_.strides()) next_ = 0;
    }

    std::uint64_t wqe_bytes() const noexcept { return std::uint64_t{map_.stride_bytes()} * map_.strides(); }
    /// Bytes behind packets in their strides, and of strides that fillers skipped.
    std::uint64_t waste_bytes() const noexcept {
        return stride_waste_bytes + filler_strides * map_.stride_bytes();
    }
    /// Share of the strides' bytes, taken or skipped, that hold no packet.
    double waste_share() const noexcept {
        const std::uint64_t used = (strides + filler_strides) * map_.stride_bytes();
        return used == 0 ? 0.0 : static_cast<double>(waste_bytes()) / static_cast<double>(used);
    }
    /// The WQE in use counts as far as it is used.
    double packets_per_wqe() const noexcept {
        const std::uint64_t gone = strides + filler_strides;
        return gone == 0 ? 0.0 : static_cast<double>(packets) * map_.strides() / static_cast<double>(gone);
    }

    std::uint64_t packets{}, bytes{};
    std::uint64_t wqes{};    ///< begun
    std::uint64_t strides{}; ///< taken by packets
    std::uint64_t stride_waste_bytes{};
    std::uint64_t fillers{}, filler_strides{};
    std::uint64_t copied_short{}, copied_no_headroom{};
    std::uint64_t too_long{};

  private:
    constexpr void begin_wqe() noexcept {
        ++wqes;
        used_end_ = 0; // headroom in front of the buffer belongs to its first packet
    }
    /// As the queue decides: an attached packet owns its bytes and the tail up to the next one's headroom; a
    /// copied one owns nothing.
    constexpr void place(std::uint32_t length, std::uint32_t needed) noexcept {
        const std::uint32_t begin = rule_.headroom_bytes + map_.data_offset(next_);
        if (length <= rule_.copy_threshold_bytes) {
            ++copied_short;
        } else if (begin - used_end_ < rule_.headroom_bytes) {
            ++copied_no_headroom;
        } else {
            used_end_ = std::max(begin + length, map_.offset(next_ + needed));
        }
    }

    mlx5::StrideMap map_;
    AttachRule rule_;
    std::uint32_t next_{};     ///< first stride not taken
    std::uint32_t used_end_{}; ///< of the last attached packet, from the headroom in front of the buffer
};

} // namespace stride::mprq
