// SPDX-License-Identifier: BSD-3-Clause
/// Frames as tests compare them.
#pragma once

#include "swhca/wire/wire.hpp"

#include <cstdint>
#include <vector>

namespace swhca::test {

using Bytes = std::vector<std::uint8_t>;

/// What a frame holds, in one piece.
inline Bytes bytes_of(const Frame& frame) {
    Bytes bytes;
    for (const Segment& segment : frame.segments) {
        const auto* data = reinterpret_cast<const std::uint8_t*>(segment.data);
        bytes.insert(bytes.end(), data, data + segment.length_bytes);
    }
    return bytes;
}

/// A frame of one segment; `segment` and `bytes` must stay.
inline Frame frame_over(const Bytes& bytes, Segment& segment) {
    segment = {reinterpret_cast<const std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size())};
    return {{&segment, 1}, segment.length_bytes};
}

} // namespace swhca::test
