// SPDX-License-Identifier: BSD-3-Clause
/// Instructions executed by a stretch of code on this thread, counted one by one with the CPU's trap flag:
/// exact, and about a microsecond each. For machines without performance counters.
#pragma once

#include <csignal>
#include <cstdint>

namespace bench {

class InstructionCounter {
  public:
    InstructionCounter();
    ~InstructionCounter();
    InstructionCounter(const InstructionCounter&) = delete;
    InstructionCounter& operator=(const InstructionCounter&) = delete;

    void begin() noexcept;
    /// Instructions since begin(), without those of begin() and end(). A repeated string instruction is one.
    std::uint64_t end() noexcept;

  private:
    struct sigaction before_ {};
    std::uint64_t overhead_{};
};

} // namespace bench
