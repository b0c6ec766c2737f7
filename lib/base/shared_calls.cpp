// SPDX-License-Identifier: BSD-3-Clause
#include "base/shared_calls.hpp"

#include "base/format.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#if !defined(__x86_64__)
#error "lib/base/shared_calls.cpp: only x86-64 is done; add this architecture's jump here"
#endif

namespace stride {
namespace {

std::byte* stubs = nullptr;

/// Room in front, for those who look at what is before a function (-fsanitize=function).
constexpr std::size_t first_stub = 64;
constexpr std::size_t stub_bytes = 16;
constexpr auto calls = static_cast<std::size_t>(SharedCall::count);
static_assert(first_stub + calls * stub_bytes <= SharedCalls::page_bytes);

std::byte* stub_of(std::size_t call) noexcept { return stubs + first_stub + call * stub_bytes; }
std::byte* entry_of(std::size_t call) noexcept {
    return stubs + SharedCalls::page_bytes + call * sizeof(void (*)());
}

/// jmp *distance(%rip), which counts from behind the instruction (Intel SDM volume 2A, JMP, FF /4).
void write_stub(std::size_t call) noexcept {
    constexpr std::array<std::uint8_t, 2> jump_through{0xff, 0x25};
    std::byte* const stub = stub_of(call);
    const auto distance = static_cast<std::int32_t>(entry_of(call) - (stub + sizeof jump_through + 4));
    std::memcpy(stub, jump_through.data(), sizeof jump_through);
    std::memcpy(stub + sizeof jump_through, &distance, sizeof distance);
}

} // namespace

Status SharedCalls::lay(std::byte* place) {
    stubs = place;
    for (std::size_t call = 0; call < calls; ++call)
        write_stub(call);
    if (mprotect(place, page_bytes, PROT_READ | PROT_EXEC) == 0) return {};
    stubs = nullptr;
    return Error{errno, strprintf("make a page of code: %s", std::strerror(errno))};
}

SharedCalls::Code SharedCalls::enter(SharedCall call, Code own) noexcept {
    if (stubs == nullptr) return own;
    const auto number = static_cast<std::size_t>(call);
    std::memcpy(entry_of(number), &own, sizeof own);
    return std::bit_cast<Code>(stub_of(number));
}

} // namespace stride
