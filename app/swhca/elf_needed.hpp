// SPDX-License-Identifier: BSD-3-Clause
/// Which shared objects a shared object needs, read from its file.
#pragma once

#include <string>
#include <vector>

/// The DT_NEEDED names of the 64-bit ELF file at `path`, in order; empty if it is none.
std::vector<std::string> elf_needed(const std::string& path);
