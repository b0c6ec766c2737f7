// SPDX-License-Identifier: BSD-3-Clause
/// All the memory a fuzzed program has: what lies outside is not mapped, as far as the model is told.
///
/// It is in place of the model's own look at the process's memory (hca/user_memory.hpp): the fuzzer's process
/// holds more than the program's memory, and none of that may be handed to the model as a ring.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fuzz {

/// Always at the same address, so that inputs that name it stay good.
inline constexpr std::uint64_t arena_address = 0x2000'0000;
inline constexpr std::size_t arena_bytes = 256 * 1024;

/// Maps it, once; zeroes it.
std::byte* fresh_arena();

} // namespace fuzz
