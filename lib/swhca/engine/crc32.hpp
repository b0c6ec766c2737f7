// SPDX-License-Identifier: BSD-3-Clause
/// The Ethernet frame check sequence (IEEE 802.3, 3.2.9).
#pragma once

#include "swhca/wire/wire.hpp"

#include <array>
#include <cstdint>

namespace swhca {

namespace crc32_detail {

constexpr std::array<std::uint32_t, 256> make_table() noexcept {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
        table[i] = crc;
    }
    return table;
}

inline constexpr std::array<std::uint32_t, 256> table = make_table();

} // namespace crc32_detail

/// FCS of a whole frame, as a little-endian word in the order it goes on the wire.
inline std::uint32_t frame_check_sequence(const Frame& frame) noexcept {
    std::uint32_t crc = 0xffffffffU;
    for (const Segment& segment : frame.segments) {
        for (std::uint32_t i = 0; i < segment.length_bytes; ++i) {
            const std::uint32_t at = (crc ^ static_cast<std::uint8_t>(segment.data[i])) & 0xffU;
            crc = (crc >> 8) ^ crc32_detail::table[at];
        }
    }
    return ~crc;
}

} // namespace swhca
