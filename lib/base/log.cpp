// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace stride {
namespace {

void write_to_stderr(LogLevel level, const char* line) noexcept {
    if (level <= LogLevel::warning) std::fprintf(stderr, "stride: %s\n", line);
}

std::atomic<LogSink> current_sink{write_to_stderr};

} // namespace

void set_log_sink(LogSink sink) noexcept { current_sink.store(sink != nullptr ? sink : write_to_stderr); }

void log_line(LogLevel level, const char* format, ...) noexcept {
    char line[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(line, sizeof line, format, args);
    va_end(args);
    current_sink.load()(level, line);
}

} // namespace stride
