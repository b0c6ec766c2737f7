// SPDX-License-Identifier: BSD-3-Clause
/// One good request of every command of the model, for the fuzzer to spoil.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fuzz {

using Request = std::vector<std::byte>;

/// In an order in which each finds the objects it names: executed one after the other on a fresh context, all
/// succeed.
const std::vector<Request>& good_requests();

/// How many of them come before the first that takes something away again.
std::size_t creating_requests();

} // namespace fuzz
