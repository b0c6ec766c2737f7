// SPDX-License-Identifier: BSD-3-Clause
/// A set of flags of one enumeration; testing with a flag of another does not compile.
#pragma once

#include <initializer_list>
#include <type_traits>

namespace stride {

/// E's enumerators are single bits (or unions of bits).
template <class E>
requires std::is_enum_v<E>
class Flags {
  public:
    using Bits = std::make_unsigned_t<std::underlying_type_t<E>>;

    constexpr Flags() = default;
    constexpr Flags(E flag) noexcept
        : bits_{static_cast<Bits>(flag)} {} // NOLINT(google-explicit-constructor)
    constexpr Flags(std::initializer_list<E> flags) noexcept {
        for (E flag : flags)
            bits_ |= static_cast<Bits>(flag);
    }
    static constexpr Flags from_bits(Bits bits) noexcept {
        Flags flags;
        flags.bits_ = bits;
        return flags;
    }

    constexpr Bits bits() const noexcept { return bits_; }
    constexpr bool any() const noexcept { return bits_ != 0; }
    constexpr bool has(Flags all_of) const noexcept { return (bits_ & all_of.bits_) == all_of.bits_; }
    constexpr Flags without(Flags other) const noexcept { return from_bits(bits_ & ~other.bits_); }
    constexpr Flags& operator|=(Flags other) noexcept {
        bits_ |= other.bits_;
        return *this;
    }
    friend constexpr Flags operator|(Flags a, Flags b) noexcept { return from_bits(a.bits_ | b.bits_); }
    friend constexpr Flags operator&(Flags a, Flags b) noexcept { return from_bits(a.bits_ & b.bits_); }
    friend constexpr bool operator==(Flags, Flags) = default;

  private:
    Bits bits_{};
};

} // namespace stride
