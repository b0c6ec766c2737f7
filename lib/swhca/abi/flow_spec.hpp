// SPDX-License-Identifier: BSD-3-Clause
/// Flow specifications of the uverbs ABI, brought into the one form the engine matches by.
#pragma once

#include "swhca/hca/objects.hpp"

#include <cstddef>
#include <span>

namespace swhca {

/// Reads `count` specifications (ib_uverbs_flow_spec_*). 0, or EINVAL for what is malformed and EOPNOTSUPP
/// for what the device does not match by; either names the specification.
int parse_flow_specs(std::span<const std::byte> specs, unsigned count, FlowMatch& match);

} // namespace swhca
