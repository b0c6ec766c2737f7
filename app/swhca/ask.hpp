// SPDX-License-Identifier: BSD-3-Clause
/// Talking to a running instance: one request, one answer.
#pragma once

#include "base/result.hpp"

#include <string>

namespace swhca::cli {

/// Sends the line `request` to the control socket `path` and returns all that comes back.
stride::Result<std::string> ask(const std::string& path, const std::string& request);

} // namespace swhca::cli
