// SPDX-License-Identifier: BSD-3-Clause
/// A field of a hardware structure as the PRM prints it: byte offset of a big-endian dword, high bit, low
/// bit.
///
/// `Field<0x2c, 31, 31>` is bit 31 of the dword at offset 0x2c. The only way the model reads or writes a bit.
#pragma once

#include "base/be.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride {

template <unsigned ByteOffset, unsigned High, unsigned Low>
struct Field {
    static_assert(ByteOffset % 4 == 0, "a field lies in a dword");
    static_assert(High < 32 && Low <= High, "bits are written high:low");

    static constexpr unsigned byte_offset = ByteOffset;
    static constexpr unsigned low_bit = Low;
    static constexpr unsigned width_bits = High - Low + 1;
    /// Largest value the field holds, also its mask before shifting.
    static constexpr std::uint32_t max = width_bits == 32 ? 0xffffffffU : (1U << width_bits) - 1;

    static std::uint32_t get(const void* base) noexcept { return (dword(base) >> Low) & max; }

    /// Leaves the other bits of the dword as they are; `value` beyond the field is cut.
    static void set(void* base, std::uint32_t value) noexcept {
        const std::uint32_t kept = dword(base) & ~(max << Low);
        const be32 whole = kept | ((value & max) << Low);
        std::memcpy(static_cast<std::byte*>(base) + ByteOffset, &whole, sizeof whole);
    }

  private:
    static std::uint32_t dword(const void* base) noexcept {
        be32 whole;
        std::memcpy(&whole, static_cast<const std::byte*>(base) + ByteOffset, sizeof whole);
        return whole;
    }
};

/// A whole dword: the fields named have the values, every other bit is 0. Values beyond their field are cut.
template <class First, class... Rest, class... Values>
be32 make_dword(std::uint32_t first, Values... rest) noexcept {
    static_assert(sizeof...(Rest) == sizeof...(Values), "a value for each field");
    static_assert(((Rest::byte_offset == First::byte_offset) && ...), "fields of one dword");
    return (((first & First::max) << First::low_bit) | ... |
            ((static_cast<std::uint32_t>(rest) & Rest::max) << Rest::low_bit));
}

/// Writes such a dword where its fields lie.
template <class First, class... Rest, class... Values>
void set_dword(void* base, std::uint32_t first, Values... rest) noexcept {
    const be32 whole = make_dword<First, Rest...>(first, rest...);
    std::memcpy(static_cast<std::byte*>(base) + First::byte_offset, &whole, sizeof whole);
}

/// Two consecutive dwords holding one 64-bit number, high dword first.
template <unsigned ByteOffset>
struct Field64 {
    static std::uint64_t get(const void* base) noexcept {
        be64 whole;
        std::memcpy(&whole, static_cast<const std::byte*>(base) + ByteOffset, sizeof whole);
        return whole;
    }
    static void set(void* base, std::uint64_t value) noexcept {
        const be64 whole = value;
        std::memcpy(static_cast<std::byte*>(base) + ByteOffset, &whole, sizeof whole);
    }
};

} // namespace stride
