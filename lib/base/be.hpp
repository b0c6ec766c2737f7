// SPDX-License-Identifier: BSD-3-Clause
/// Big-endian integers as a device stores them.
///
/// A `be32` in a structure is the wire's four bytes; reading it as a number is a conversion, never a cast,
/// so that a missing byte swap does not compile.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace stride {

/// Reverses the bytes of `value`.
template <std::unsigned_integral T>
constexpr T byte_swap(T value) noexcept {
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(T) == 1) return value;
}

/// An unsigned integer stored in big-endian order; trivially copyable, no alignment beyond T's.
template <std::unsigned_integral T>
class Be {
  public:
    Be() = default;
    constexpr Be(T value) noexcept
        : raw_{to_wire(value)} {} // NOLINT(google-explicit-constructor): a store
    constexpr operator T() const noexcept { return to_wire(raw_); } // NOLINT(google-explicit-constructor)
    constexpr T host() const noexcept { return to_wire(raw_); }
    /// The bytes as they lie in memory; for precomputed templates only.
    constexpr T wire() const noexcept { return raw_; }
    static constexpr Be from_wire(T raw) noexcept {
        Be be{};
        be.raw_ = raw;
        return be;
    }
    friend constexpr bool operator==(Be a, Be b) noexcept { return a.raw_ == b.raw_; }

  private:
    static constexpr T to_wire(T value) noexcept {
        return std::endian::native == std::endian::little ? byte_swap(value) : value;
    }
    T raw_;
};

using be16 = Be<std::uint16_t>;
using be32 = Be<std::uint32_t>;
using be64 = Be<std::uint64_t>;

} // namespace stride
