// SPDX-License-Identifier: BSD-3-Clause
/// A port in a secondary process: bursts on the queues that the primary shows, and no control.
#pragma once

#include "base/result.hpp"
#include "compat.hpp"

namespace stride::pmd {

/// Makes the primary's port of that name usable here. ENODEV: there is none; ENOTSUP, EADDRINUSE: it can't be
/// used, and why.
Status attach_secondary(rte_vdev_device* vdev);
/// The port goes from this process; no burst of it runs here. Returns 0.
int detach_secondary(rte_vdev_device* vdev) noexcept;

} // namespace stride::pmd
