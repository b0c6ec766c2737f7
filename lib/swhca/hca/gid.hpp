// SPDX-License-Identifier: BSD-3-Clause
/// The GID table of an Ethernet port: the link-local address of its MAC, as RoCE v1 and as RoCE v2.
#pragma once

#include <array>
#include <cstdint>

namespace swhca::gid {

constexpr unsigned entries = 2;

inline constexpr std::array<const char*, entries> types = {"IB/RoCE v1", "RoCE v2"};

/// fe80:: and the EUI-64 of `mac`, so that the MAC can be read back from it.
constexpr std::array<std::uint8_t, 16> link_local(const std::array<std::uint8_t, 6>& mac) noexcept {
    return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
            mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

} // namespace swhca::gid
