// SPDX-License-Identifier: BSD-3-Clause
/// A counter that one thread adds to and any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace stride {

/// Adding is a load and a store, never a locked instruction: one writer at a time.
class Counter {
  public:
    void add(std::uint64_t n) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

} // namespace stride
