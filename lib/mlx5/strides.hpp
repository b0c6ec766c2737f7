// SPDX-License-Identifier: BSD-3-Clause
/// Stride arithmetic: how a striding WQE is cut, and whether a completion can be true.
///
/// A packet starts at a stride and takes ceil((bytes + shift) / stride). One that does not fit what is left
/// of its WQE goes to the next; a filler accounts for the rest. The WQE is finished exactly when a completion
/// ends at its last stride.
#pragma once

#include <cstdint>

namespace stride::mlx5 {

/// Strides that a completion stands for: [first, first + count).
struct StrideRange {
    std::uint32_t first{};
    std::uint32_t count{};

    constexpr std::uint32_t end() const noexcept { return first + count; }
};

class StrideMap {
  public:
    StrideMap() = default;
    constexpr StrideMap(std::uint32_t log_stride_bytes, std::uint32_t log_strides,
                        bool two_byte_shift) noexcept
        : stride_bytes_{1U << log_stride_bytes}
        , log_stride_bytes_{static_cast<std::uint8_t>(log_stride_bytes)}
        , log_strides_{static_cast<std::uint8_t>(log_strides)}
        , shift_bytes_{static_cast<std::uint8_t>(two_byte_shift ? 2 : 0)} {}

    constexpr std::uint32_t log_stride_bytes() const noexcept { return log_stride_bytes_; }
    constexpr std::uint32_t stride_bytes() const noexcept { return stride_bytes_; }
    constexpr std::uint32_t strides() const noexcept { return 1U << log_strides_; } ///< per WQE
    constexpr std::uint32_t shift_bytes() const noexcept { return shift_bytes_; }

    /// Strides a packet of `bytes` takes.
    constexpr std::uint32_t needed(std::uint32_t bytes) const noexcept {
        return (bytes + shift_bytes_ + stride_bytes() - 1) >> log_stride_bytes_;
    }
    /// Where stride `index` starts, from the start of the WQE's buffer.
    constexpr std::uint32_t offset(std::uint32_t index) const noexcept { return index * stride_bytes_; }
    /// Where the bytes of a packet start.
    constexpr std::uint32_t data_offset(std::uint32_t index) const noexcept {
        return offset(index) + shift_bytes_;
    }
    /// The range lies behind the `consumed` first strides and within the WQE. A gap is allowed: devices may
    /// leave strides out.
    constexpr bool possible(StrideRange range, std::uint32_t consumed) const noexcept {
        return range.count != 0 && range.first >= consumed && range.end() <= strides();
    }
    /// The range also holds a packet of `bytes`.
    constexpr bool holds(StrideRange range, std::uint32_t bytes) const noexcept {
        return bytes != 0 && range.count >= needed(bytes);
    }
    constexpr bool finishes(StrideRange range) const noexcept { return range.end() == strides(); }
    /// Bytes of its strides that a packet leaves unused.
    constexpr std::uint32_t waste(std::uint32_t bytes) const noexcept {
        return offset(needed(bytes)) - bytes - shift_bytes_;
    }

  private:
    std::uint32_t stride_bytes_{1};
    std::uint8_t log_stride_bytes_{};
    std::uint8_t log_strides_{};
    std::uint8_t shift_bytes_{};
};

} // namespace stride::mlx5
