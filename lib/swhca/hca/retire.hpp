// SPDX-License-Identifier: BSD-3-Clause
/// Memory that went away under the engine: what lay in it ends in an error, as far as the program can see.
#pragma once

#include "swhca/hca/device.hpp"

namespace swhca {

/// Looks for everything that lies in the page of `address`: keys stop working, CQs are overrun, queues go to
/// error, and what the engine reads and writes of them from now on is memory of the model. Between two passes
/// of `own`, the engine that has met a fault there; the other engines are quiesced. False if a command is at
/// work: try again. Ends the process if nobody owns the page, for then the fault is the model's own.
bool retire_memory(Hca& hca, const Engine& own, const void* address);

} // namespace swhca
