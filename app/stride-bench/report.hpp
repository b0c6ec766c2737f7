// SPDX-License-Identifier: BSD-3-Clause
/// What was measured, as text and as JSON.
#pragma once

#include "counters.hpp"
#include "options.hpp"
#include "port.hpp"
#include "quiet.hpp"

#include <optional>
#include <string>
#include <vector>

namespace bench {

struct SeriesResult {
    Series series{};
    Rounds rounds{};
    std::optional<double> instructions{}; ///< per packet
};

struct Results {
    std::string driver, burst_modes;
    std::uint64_t best_calibration{UINT64_MAX}; ///< cycles of the fixed loop at its fastest
    std::vector<SeriesResult> series{};
    std::uint64_t packets{};    ///< between the two readings of the counters
    Counters xstats{}, model{}; ///< what they grew by meanwhile
    Memory rx_memory{};
    std::uint16_t queues{}, rx_descriptors{};
    std::optional<std::uint64_t> absorbed{}; ///< packets taken while nobody polled
};

void print(const Options& options, const Results& results);
/// Throws std::runtime_error if the file can't be written.
void write_json(const Options& options, const Results& results);

} // namespace bench
