// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/user_memory.hpp"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>

namespace swhca {

bool is_mapped(std::uint64_t address, std::uint64_t length_bytes, bool writable) {
    const std::uint64_t end = address + length_bytes;
    if (address == 0 || end < address) return false;
    std::FILE* maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return true; // no proc file system: nothing to check against
    std::uint64_t reached = address;  // everything before is mapped
    char line[512];
    while (reached < end && std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long long from = 0;
        unsigned long long to = 0;
        char access[5] = "";
        if (std::sscanf(line, "%llx-%llx %4s", &from, &to, access) != 3) continue;
        if (to <= reached) continue;
        if (from > reached || access[0] != 'r' || (writable && access[1] != 'w')) break;
        reached = to;
    }
    std::fclose(maps);
    return reached >= end;
}

int copy_to_user(std::uint64_t address, const void* from, std::size_t length_bytes) noexcept {
    if (length_bytes == 0) return 0;
    iovec local{const_cast<void*>(from), length_bytes};
    iovec remote{std::bit_cast<void*>(address), length_bytes};
    const ssize_t copied = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    if (copied == static_cast<ssize_t>(length_bytes)) return 0;
    if (copied >= 0 || errno == EFAULT) return EFAULT;
    // A sandbox forbids the call: trust the program as far as it trusts itself.
    std::memcpy(remote.iov_base, from, length_bytes);
    return 0;
}

} // namespace swhca
