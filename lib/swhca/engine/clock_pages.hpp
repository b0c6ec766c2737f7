// SPDX-License-Identifier: BSD-3-Clause
/// The device's clock, as programs read it from pages they map: the free-running counter (nanoseconds of
/// CLOCK_MONOTONIC, what CQEs carry) and what leads from it to the time of day (mlx5-abi.h,
/// mlx5_ib_clock_info).
///
/// Silicon's counter counts by itself; this one is set by the engine every few passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace swhca {

class ClockPages {
  public:
    /// Two pages of one context, shown until forget(). Engine quiesced.
    void show(std::byte* counter_page, std::byte* info_page);
    void forget(const std::byte* counter_page) noexcept;
    /// Sets all counters, and the time of day once a second. Engine's thread or quiesced.
    void refresh() noexcept;

  private:
    struct Pages {
        std::byte* counter;
        std::byte* info;
    };
    std::vector<Pages> pages_{};
    std::uint64_t next_info_ns_{};
};

} // namespace swhca
