// SPDX-License-Identifier: BSD-3-Clause
/// The state of the HCA as text: JSON for reports, single counters for sysfs.
#pragma once

#include "swhca/hca/device.hpp"

#include <span>
#include <string>

namespace swhca {

/// A counter of a port by its name in reports.
struct NamedCounter {
    const char* name;
    std::uint64_t PortCounters::*value;
};

/// All counters of a port, in report order.
std::span<const NamedCounter> port_counters() noexcept;

/// Reads a counter that the engine may be writing.
std::uint64_t read_counter(const Port& port, std::uint64_t PortCounters::*value) noexcept;

/// Everything as one JSON object, a line a port: ports with counters and wire counters, broken rules by name.
/// Commands held.
std::string report_json(const Hca& hca);

} // namespace swhca
