// SPDX-License-Identifier: BSD-3-Clause
/// Faults on request: what silicon does once in a year, when a test wants it.
///
/// A fault is a line `DEVICE KIND key=value ...`; numbers may be hexadecimal (0x..). The kinds, their keys
/// and what they do are listed in doc/guides/swhca.md, "Faults".
#pragma once

#include "base/result.hpp"
#include "swhca/hca/device.hpp"

#include <string_view>

namespace swhca {

/// Commands held; quiesces the device's engine itself. Error: no such device, kind or key; names it.
stride::Status inject_fault(Hca& hca, std::string_view text);

/// 0, or the errno with which a fault refuses the command `name`. Commands held.
int refused_by_fault(Device& device, std::string_view name) noexcept;

} // namespace swhca
