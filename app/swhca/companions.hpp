// SPDX-License-Identifier: BSD-3-Clause
/// Network interfaces beside the devices, for drivers that want one (net/mlx5 asks it for MAC, MTU and link).
#pragma once

#include "base/result.hpp"
#include "swhca/hca/config.hpp"

#include <string>

namespace swhca::cli {

/// Name of the interface that goes with the `index`-th port.
std::string companion_name(unsigned index);

/// Takes this process into a network namespace of its own (and a /sys that shows it), with one interface for
/// every port: one end of a veth pair, with the port's MAC, up. Nothing of the machine is touched; all is
/// gone with the last process in it. Needs root, or a kernel that lets users make namespaces, and the command
/// `ip`.
stride::Status make_companions(const Config& config);

} // namespace swhca::cli
