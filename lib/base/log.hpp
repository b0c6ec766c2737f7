// SPDX-License-Identifier: BSD-3-Clause
/// Logging of the libraries: formatted here, written by whoever set the sink (the ethdev sends it to
/// rte_log).
///
/// Never called in a burst. A line holds the object, what was tried, why not, and the numbers.
#pragma once

#include <cstdint>

namespace stride {

enum class LogLevel : std::uint8_t { error, warning, notice, info, debug };

using LogSink = void (*)(LogLevel level, const char* line) noexcept;

/// Sets where lines go, for the whole process; the default writes warnings and worse to stderr.
void set_log_sink(LogSink sink) noexcept;

/// printf-formatted; lines longer than 511 bytes are cut.
[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...) noexcept;

} // namespace stride
