// SPDX-License-Identifier: BSD-3-Clause
/// The GID table a port starts with. Ethernet: the link-local address of its MAC, as RoCE v1 and as RoCE v2.
/// InfiniBand: the default subnet prefix with the port's GUID.
#pragma once

#include "swhca/hca/port.hpp"

#include <array>
#include <cstdint>

namespace swhca::gid {

constexpr std::size_t entries = 8; ///< those that are not used are zero

/// As sysfs names the type of an entry.
constexpr const char* type_name(const GidEntry& entry) noexcept {
    return entry.roce_v2 ? "RoCE v2" : "IB/RoCE v1";
}

/// fe80:: and the EUI-64 of `mac`, so that the MAC can be read back from it.
constexpr Gid link_local(const std::array<std::uint8_t, 6>& mac) noexcept {
    return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
            mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

/// The table itself. The GUID of an InfiniBand port is made from its MAC, so both come to the same GID.
inline std::vector<GidEntry> table_of(LinkLayer link_layer, const std::array<std::uint8_t, 6>& mac) {
    std::vector<GidEntry> table{{link_local(mac), false}};
    if (link_layer == LinkLayer::ethernet) table.push_back({link_local(mac), true});
    table.resize(entries);
    return table;
}

/// The MAC that a GID leads to on Ethernet, as the kernel resolves it without a neighbour table: from an
/// EUI-64 address or, for multicast, by the rule of RFC 2464 and RFC 1112. False for an address with neither.
constexpr bool to_mac(const Gid& gid, std::array<std::uint8_t, 6>& mac) noexcept {
    if (gid[0] == 0xff) {
        // rdma_get_mcast_mac: 33:33 and the last four bytes; IPv4 groups are mapped into ff0e::ffff:a.b.c.d.
        if (gid[10] == 0xff && gid[11] == 0xff) {
            mac = {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(gid[13] & 0x7f), gid[14], gid[15]};
        } else {
            mac = {0x33, 0x33, gid[12], gid[13], gid[14], gid[15]};
        }
        return true;
    }
    if (gid[0] != 0xfe || gid[1] != 0x80 || gid[11] != 0xff || gid[12] != 0xfe) return false;
    mac = {static_cast<std::uint8_t>(gid[8] ^ 2), gid[9], gid[10], gid[13], gid[14], gid[15]};
    return true;
}

} // namespace swhca::gid
