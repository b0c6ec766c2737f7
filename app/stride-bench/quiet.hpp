// SPDX-License-Identifier: BSD-3-Clause
/// Which rounds were measured on a quiet machine: a fixed loop before and after each tells.
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

/// TSC, ordered against the loads and stores around it.
inline std::uint64_t cycles_now() noexcept {
    unsigned aux;
    __builtin_ia32_lfence();
    const std::uint64_t now = __builtin_ia32_rdtscp(&aux);
    __builtin_ia32_lfence();
    return now;
}

/// Runs the fixed loop (about 30 us, first cache and ALUs only); TSC cycles it took.
std::uint64_t calibrate() noexcept;

struct Round {
    double cycles_per_packet{};
    std::uint64_t calibration{}; ///< the slower of the loops around it
};

/// Rounds of one series.
class Rounds {
  public:
    void add(Round round) { rounds_.push_back(round); }
    std::size_t total() const noexcept { return rounds_.size(); }
    const std::vector<Round>& all() const noexcept { return rounds_; }
    /// Cycles per packet of the rounds whose loops took at most 3 % more than `best`, in order of time.
    std::vector<double> kept(std::uint64_t best) const;

  private:
    std::vector<Round> rounds_;
};

double median(std::vector<double> values);

} // namespace bench
