// SPDX-License-Identifier: BSD-3-Clause
/// Comparison of two captures: frames and bytes, never time stamps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pcap_diff {

/// The frames of a capture as they were captured (a snap length cuts them), in order.
struct Capture {
    std::vector<std::string> frames{};
    std::uint64_t bytes{};
};

/// Reads a pcap or pcapng file; on failure returns nothing and says why in `error`, naming the file.
std::optional<Capture> read_capture(const std::string& path, std::string& error);

/// What the far end may have changed or reordered.
struct Rules {
    bool any_order{};              ///< frames may come in any order, but each as often as it was sent
    bool ignore_macs{};            ///< the first 12 bytes may differ (mac, macswap forwarding)
    std::uint32_t repeats{1};      ///< the second capture holds the first this many times
    std::size_t longest{SIZE_MAX}; ///< frames longer than this are left out of the first capture
};

struct Difference {
    std::size_t frame{}; ///< counted from 1, in the first capture (in the second if it has too many)
    std::string what{};
};

/// The first difference, or nothing if `got` is `sent` under `rules`.
std::optional<Difference> first_difference(const Capture& sent, const Capture& got, const Rules& rules);

} // namespace pcap_diff
