// SPDX-License-Identifier: BSD-3-Clause
/// Packet lengths from captures or from a list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plan {

/// Appends the wire lengths of a capture's frames, in order. Throws std::runtime_error, naming the file.
void read_capture(const std::string& path, std::vector<std::uint32_t>& lengths);

/// `64`, `64*7` (seven of them) or `imix`; comma-separated by the caller. Throws std::runtime_error.
void read_size(const std::string& text, std::vector<std::uint32_t>& lengths);

} // namespace plan
