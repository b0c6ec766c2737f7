// SPDX-License-Identifier: BSD-3-Clause
/// The memory of a burst against the stride size, as SVG.
#pragma once

#include "mprq/shape_choice.hpp"

#include <span>
#include <string>

namespace plan {

/// One line for each number of strides, one dot for each shape, the chosen one marked.
std::string draw(std::span<const stride::mprq::ShapeUse> uses, const stride::mprq::ShapeUse* chosen,
                 std::uint32_t burst_packets);

} // namespace plan
