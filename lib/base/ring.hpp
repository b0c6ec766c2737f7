// SPDX-License-Identifier: BSD-3-Clause
/// Ring arithmetic: free-running indices (pi, ci) and the power-of-two size that masks them.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <type_traits>

namespace stride {

/// Size of a ring in entries, a power of two up to 2^31.
class RingSize {
  public:
    constexpr RingSize() = default;
    static constexpr RingSize from_log(unsigned log_entries) noexcept {
        assert(log_entries < 32);
        return RingSize{log_entries};
    }
    /// The smallest ring of at least `entries` entries (1 if 0).
    static constexpr RingSize at_least(std::uint32_t entries) noexcept {
        return RingSize{entries <= 1 ? 0U : static_cast<unsigned>(std::bit_width(entries - 1))};
    }

    constexpr unsigned log() const noexcept { return log_; }
    constexpr std::uint32_t entries() const noexcept { return 1U << log_; }
    constexpr std::uint32_t mask() const noexcept { return entries() - 1; }
    /// Position of a free-running index in the ring.
    constexpr std::uint32_t slot(std::uint32_t index) const noexcept { return index & mask(); }
    /// Parity of the round that `index` is in: the owner bit of a CQ.
    constexpr bool round_parity(std::uint32_t index) const noexcept { return ((index >> log_) & 1U) != 0; }

  private:
    constexpr explicit RingSize(unsigned log_entries) noexcept
        : log_{log_entries} {}
    unsigned log_{};
};

/// `a` is before `b`, for free-running indices less than half their range apart.
template <class T>
constexpr bool ring_before(T a, T b) noexcept {
    using Signed = std::make_signed_t<T>;
    return static_cast<Signed>(static_cast<T>(a - b)) < 0;
}

/// Rounds `value` up to a multiple of `align`, a power of two.
template <class T>
constexpr T align_up(T value, T align) noexcept {
    assert(std::has_single_bit(align));
    return (value + align - 1) & ~(align - 1);
}

constexpr std::uint32_t div_round_up(std::uint32_t value, std::uint32_t by) noexcept {
    return (value + by - 1) / by;
}

} // namespace stride
