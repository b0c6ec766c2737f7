// SPDX-License-Identifier: BSD-3-Clause
/// What the send side changes in a frame: VLAN tags and checksums.
#pragma once

#include "swhca/wire/wire.hpp"

#include <cstddef>
#include <cstdint>

namespace swhca {

/// What the Ethernet segment of a WQE asks for.
struct SendOffloads {
    bool l3_checksum{}, l4_checksum{};
    bool insert_vlan{}, insert_svlan{};
    std::uint16_t vlan_tci{};
    bool any() const noexcept { return l3_checksum || l4_checksum || insert_vlan; }
};

/// Copies the first min(length, header_bytes) bytes of the frame, whose pieces are `pieces[1...count]`, to
/// `scratch`, inserting the tag, and makes the frame of `scratch` and the rest. `pieces[0]` is free for use.
Frame rebuild_header(std::byte* scratch, Segment* pieces, std::uint32_t count, const SendOffloads& offloads);

/// Writes the checksums asked for into the frame, whose first segment is `scratch`. Frames without an IP
/// header, or without TCP or UDP, stay as they are.
void insert_checksums(std::byte* scratch, const Frame& frame, const SendOffloads& offloads) noexcept;

/// Which segment of a TSO packet a frame is.
struct TsoSegment {
    std::uint32_t index{};
    std::uint32_t mss{};
    std::uint32_t header_bytes{}; ///< of the program's header, without an inserted tag
    bool last{};
};

/// Makes the copy of the packet's header in `scratch` that of this segment: lengths, identification, sequence
/// number, flags. False if the header is not Ethernet, IP and TCP, or not exactly these.
bool make_tso_header(std::byte* scratch, const Frame& frame, const TsoSegment& segment,
                     const SendOffloads& offloads) noexcept;

} // namespace swhca
