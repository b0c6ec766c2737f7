// SPDX-License-Identifier: BSD-3-Clause
/// The system's clocks in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace stride {

/// Nanoseconds of `clock` (CLOCK_MONOTONIC: since the start of the machine; CLOCK_REALTIME: since 1970). Any
/// thread.
inline std::uint64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace stride
