// SPDX-License-Identifier: BSD-3-Clause
/// What a switch looks at in a frame.
#pragma once

#include "swhca/wire/infiniband.hpp"
#include "swhca/wire/wire.hpp"

#include <cstdint>
#include <cstring>

namespace swhca {

/// Addresses as numbers: MACs, LIDs (InfiniBand) or 24-bit LIDs (Omni-Path).
struct FrameAddresses {
    std::uint64_t source{}, destination{};
    bool group{};
    bool valid{}; ///< the frame is long enough to have them
};

namespace opa16b {
/// Words 0 and 2 of the two little-endian quad words (kernel Documentation/infiniband/opa_vnic.rst).
constexpr std::uint32_t bytes = 16;
constexpr std::uint32_t first_multicast_lid = 0xf00000;
} // namespace opa16b

inline FrameAddresses addresses_of(WireFormat format, const Frame& frame) noexcept {
    const Segment& first = frame.segments.front();
    const std::byte* data = first.data;
    FrameAddresses found;
    if (format == WireFormat::ethernet) {
        if (first.length_bytes < 12) return found;
        std::memcpy(&found.destination, data, 6);
        std::memcpy(&found.source, data + 6, 6);
        found.group = (data[0] & std::byte{1}) != std::byte{0};
    } else if (format == WireFormat::infiniband) {
        if (first.length_bytes < ib::Lrh::bytes) return found;
        found.destination = ib::Lrh::destination_lid::get(data);
        found.source = ib::Lrh::source_lid::get(data);
        found.group = found.destination >= ib::first_multicast_lid;
    } else {
        if (first.length_bytes < opa16b::bytes) return found;
        std::uint64_t words[2];
        std::memcpy(words, data, sizeof words);
        found.source = (words[0] & 0xfffffU) | (words[1] >> 8 & 0xfU) << 20;
        found.destination = (words[0] >> 32 & 0xfffffU) | (words[1] >> 12 & 0xfU) << 20;
        found.group = found.destination >= opa16b::first_multicast_lid;
    }
    found.valid = true;
    return found;
}

} // namespace swhca
