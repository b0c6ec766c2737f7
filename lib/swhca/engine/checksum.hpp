// SPDX-License-Identifier: BSD-3-Clause
/// Internet checksums (RFC 1071).
///
/// Sums are over 16-bit words as they lie in memory: the result is in wire order on either endianness.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swhca {

/// Folds a sum to 16 bits, not complemented.
constexpr std::uint16_t fold_sum(std::uint64_t sum) noexcept {
    sum = (sum & 0xffffffffU) + (sum >> 32);
    sum = (sum & 0xffffU) + (sum >> 16);
    sum = (sum & 0xffffU) + (sum >> 16);
    sum = (sum & 0xffffU) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

/// A 16-bit number, host order, as a term of a sum.
constexpr std::uint64_t sum_term(std::uint16_t value) noexcept {
    return std::endian::native == std::endian::little ? __builtin_bswap16(value) : value;
}

/// The sum of a long stretch, SIMD; `length` any.
std::uint64_t sum_long(const std::byte* data, std::size_t length) noexcept;

/// The sum of `length` bytes at an even offset of the packet; an odd last byte counts as followed by 0.
inline std::uint64_t sum_bytes(const std::byte* data, std::size_t length) noexcept {
    if (length >= 128) return sum_long(data, length);
    std::uint64_t sum = 0;
    for (; length >= 8; data += 8, length -= 8) {
        std::uint64_t word;
        std::memcpy(&word, data, 8);
        sum += (word & 0xffffffffU) + (word >> 32);
    }
    if ((length & 4U) != 0) {
        std::uint32_t word;
        std::memcpy(&word, data, 4);
        sum += word;
        data += 4;
    }
    if ((length & 2U) != 0) {
        std::uint16_t word;
        std::memcpy(&word, data, 2);
        sum += word;
        data += 2;
    }
    if ((length & 1U) != 0) {
        std::uint16_t word = 0;
        std::memcpy(&word, data, 1);
        sum += word;
    }
    return sum;
}

/// The sum of a whole number of 4-byte words; unrolled.
template <std::size_t Length>
std::uint64_t sum_fixed(const std::byte* data) noexcept {
    static_assert(Length % 4 == 0);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < Length; i += 4) {
        std::uint32_t word;
        std::memcpy(&word, data + i, 4);
        sum += word;
    }
    return sum;
}

/// The sum of bytes that begin at an odd offset of the packet.
constexpr std::uint64_t sum_at_odd(std::uint64_t sum) noexcept {
    const std::uint16_t folded = fold_sum(sum);
    return static_cast<std::uint16_t>(folded << 8 | folded >> 8);
}

} // namespace swhca
