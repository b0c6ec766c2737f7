// SPDX-License-Identifier: BSD-3-Clause
#include "arena.hpp"

#include "swhca/hca/user_memory.hpp"

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace fuzz {

std::byte* fresh_arena() {
    static std::byte* const arena = [] {
        void* const at = mmap(std::bit_cast<void*>(arena_address), arena_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == MAP_FAILED) std::abort();
        return static_cast<std::byte*>(at);
    }();
    std::memset(arena, 0, arena_bytes);
    return arena;
}

} // namespace fuzz

namespace swhca {

bool is_mapped(std::uint64_t address, std::uint64_t length_bytes, bool) {
    return address >= fuzz::arena_address && address - fuzz::arena_address <= fuzz::arena_bytes &&
           length_bytes <= fuzz::arena_bytes - (address - fuzz::arena_address);
}

int copy_to_user(std::uint64_t address, const void* from, std::size_t length_bytes) noexcept {
    if (length_bytes == 0) return 0;
    if (!is_mapped(address, length_bytes, true)) return EFAULT;
    std::memcpy(std::bit_cast<void*>(address), from, length_bytes);
    return 0;
}

} // namespace swhca
