// SPDX-License-Identifier: BSD-3-Clause
/// The program's memory, looked at before it is touched: what silicon pins, the model checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swhca {

/// Every page of [address, address + length_bytes) is mapped readable, and writable if asked.
bool is_mapped(std::uint64_t address, std::uint64_t length_bytes, bool writable);

/// Copies from the program's memory. 0, or EFAULT if it is not there.
int copy_from_user(void* to, std::uint64_t address, std::size_t length_bytes) noexcept;

/// Copies to the program's memory. 0, or EFAULT if it is not there.
int copy_to_user(std::uint64_t address, const void* from, std::size_t length_bytes) noexcept;

} // namespace swhca
