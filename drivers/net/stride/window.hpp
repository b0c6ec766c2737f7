// SPDX-License-Identifier: BSD-3-Clause
/// A range of addresses that means the same in all processes of a primary: stubs of SharedCalls in front,
/// then pages for doorbell registers. Every process reserves it once and keeps it; each maps the pages it
/// rings.
#pragma once

#include "base/result.hpp"
#include "base/shared_calls.hpp"

#include <cstddef>
#include <cstdint>

namespace stride::pmd {

class Window {
  public:
    static constexpr std::size_t page_bytes = SharedCalls::page_bytes;
    static constexpr std::size_t bytes = std::size_t{2} << 20;
    static constexpr std::uint32_t uar_pages = bytes / page_bytes - SharedCalls::bytes / page_bytes;

    /// Reserves the range and lays the stubs. `at`: where it has to be; nullptr: where there is room. Once it
    /// is open, no more than a look whether it is at `at`. EADDRINUSE: it can't be there.
    static Status open(std::byte* at);
    /// nullptr: not open.
    static std::byte* base() noexcept;
    static std::byte* uar_page(std::uint32_t slot) noexcept {
        return base() + SharedCalls::bytes + slot * page_bytes;
    }
    /// Maps a page of doorbell registers, in the place of whatever was in the slot.
    static Status map_uar(std::uint32_t slot, int command_fd, std::int64_t offset);
    static void unmap_uar(std::uint32_t slot) noexcept;
};

/// A page of doorbell registers in the window.
struct UarPlace {
    std::uint32_t slot{};
    std::uint32_t generation{}; ///< tells it from those that were there before; 0: there is none
    std::int64_t offset{};      ///< in the command file
};

/// The primary's account of the pages. Control thread.
class UarPages {
  public:
    /// The place of the page at `offset` of a device's command file, mapped now if it is not there yet.
    /// `device` is a name for it, no more. ENOSPC: the window is full.
    static Result<UarPlace> place(const void* device, int command_fd, std::int64_t offset);
    /// The device goes.
    static void release(const void* device) noexcept;
};

} // namespace stride::pmd
