// SPDX-License-Identifier: BSD-3-Clause
/// From configuration to an HCA, and contexts on it.
#pragma once

#include "base/result.hpp"
#include "swhca/hca/config.hpp"
#include "swhca/hca/device.hpp"

namespace swhca {

/// Makes devices, wires and the engine (not started). Opens the wires' files.
stride::Result<std::unique_ptr<Hca>> build_hca(const Config& config);

/// Makes the wires and lets them go again: whether build_hca will find what it needs.
stride::Status try_wires(const Config& config);

/// A new context; `context->fd` is a descriptor for the program, which owns it. Starts the engine.
/// Commands held.
int open_context(Hca& hca, Device& device, Context*& context);
/// Destroys everything in it. The program's descriptor is already closed. Commands held.
void close_context(Context& context);

/// Stops the engine and closes the wires. Objects stay.
void shut_down(Hca& hca);

} // namespace swhca
