// SPDX-License-Identifier: BSD-3-Clause
/// Links that come and go: who has a context of the device is told by an asynchronous event.
#pragma once

#include "swhca/hca/device.hpp"

namespace swhca {

/// Tells the contexts of every port of `engine` whose link changed since the last call (PORT_ACTIVE,
/// PORT_ERR). Between two passes of that engine; does nothing while a command is at work.
void announce_links(Hca& hca, const Engine& engine);

} // namespace swhca
