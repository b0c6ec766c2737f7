// SPDX-License-Identifier: BSD-3-Clause
/// Counters of port and model around a measurement.
#pragma once

#include "lockstep.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace bench {

using Counters = std::map<std::string, std::uint64_t>;

/// Extended statistics of the port.
Counters read_xstats(std::uint16_t port);
/// Numbers of the HCA's report by their last name (`rx_wqes`, `tx_doorbells`), summed over its ports.
Counters read_model(const Lockstep& engine);
/// after - before of those that grew.
Counters difference(const Counters& before, const Counters& after);

} // namespace bench
