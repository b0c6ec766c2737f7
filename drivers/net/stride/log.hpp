// SPDX-License-Identifier: BSD-3-Clause
/// Log of the driver: type pmd.net.stride.
#pragma once

#include "base/log.hpp"

namespace stride::pmd {

/// LogSink that hands lines to rte_log; from then on the libraries' lines go there too.
void log_to_rte(LogLevel level, const char* line) noexcept;

} // namespace stride::pmd
