// SPDX-License-Identifier: BSD-3-Clause
/// The uverbs write ABI: one write() on a command descriptor is one command.
#pragma once

#include "swhca/abi/call.hpp"

#include <span>

namespace swhca {

/// Executes the command in `request`. 0, or the errno that write() fails with. Takes the command lock.
int execute_command(Hca& hca, Context& context, DescriptorTable& descriptors,
                    std::span<const std::byte> request);

} // namespace swhca
