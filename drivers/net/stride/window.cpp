// SPDX-License-Identifier: BSD-3-Clause
#include "window.hpp"

#include "base/format.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace stride::pmd {
namespace {

std::byte* opened = nullptr;

/// Below 4 GiB, where EAL's memory begins (eal_get_baseaddr) and hardly anything else is in any process.
constexpr std::uintptr_t usual_place = 0xffe00000;
static_assert(usual_place + Window::bytes == 0x100000000);

Error refused(std::byte* at, int code) {
    return Error{
        code, strprintf("the addresses %p to %p, which the primary process uses for doorbells and code, "
                        "are not free in this one: %s",
                        static_cast<void*>(at), static_cast<void*>(at + Window::bytes), std::strerror(code))};
}

struct UarSlot {
    const void* device{}; ///< nullptr: free
    UarPlace place{};
};
std::array<UarSlot, Window::uar_pages> uar_slots;
std::uint32_t last_generation = 0;

} // namespace

std::byte* Window::base() noexcept { return opened; }

Status Window::open(std::byte* at) {
    if (opened != nullptr) return at == nullptr || at == opened ? Status{} : refused(at, EADDRINUSE);
    void* const wanted = at != nullptr ? at : std::bit_cast<void*>(usual_place);
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const got =
        mmap(wanted, bytes, PROT_NONE, at != nullptr ? flags | MAP_FIXED_NOREPLACE : flags, -1, 0);
    if (got == MAP_FAILED)
        return refused(static_cast<std::byte*>(wanted), errno == EEXIST ? EADDRINUSE : errno);
    Status status;
    if (at != nullptr && got != at) // a kernel that takes the flag for a hint
        status = refused(at, EADDRINUSE);
    else if (mprotect(got, SharedCalls::bytes, PROT_READ | PROT_WRITE) != 0)
        status = Error{errno, "no memory for two pages"};
    else
        status = SharedCalls::lay(static_cast<std::byte*>(got));
    if (status)
        opened = static_cast<std::byte*>(got);
    else
        munmap(got, bytes);
    return status;
}

Status Window::map_uar(std::uint32_t slot, int command_fd, std::int64_t offset) {
    void* const page = uar_page(slot);
    if (mmap(page, page_bytes, PROT_WRITE, MAP_SHARED | MAP_FIXED, command_fd, offset) == page) return {};
    return Error{errno, strprintf("map the doorbell page at offset %#llx: %s",
                                  static_cast<unsigned long long>(offset), std::strerror(errno))};
}

void Window::unmap_uar(std::uint32_t slot) noexcept {
    mmap(uar_page(slot), page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
}

Result<UarPlace> UarPages::place(const void* device, int command_fd, std::int64_t offset) {
    UarSlot* unused = nullptr;
    for (UarSlot& slot : uar_slots) {
        if (slot.device == device && slot.place.offset == offset) return slot.place;
        if (slot.device == nullptr && unused == nullptr) unused = &slot;
    }
    if (unused == nullptr)
        return Error{ENOSPC, strprintf("all %u places for doorbell pages are taken", Window::uar_pages)};
    const auto number = static_cast<std::uint32_t>(unused - uar_slots.data());
    if (auto status = Window::map_uar(number, command_fd, offset); !status) return status.take_error();
    *unused = {device, {number, ++last_generation, offset}};
    return unused->place;
}

void UarPages::release(const void* device) noexcept {
    for (UarSlot& slot : uar_slots) {
        if (slot.device != device) continue;
        Window::unmap_uar(slot.place.slot);
        slot = {};
    }
}

} // namespace stride::pmd
