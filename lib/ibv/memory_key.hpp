// SPDX-License-Identifier: BSD-3-Clause
/// A registered range of memory.
#pragma once

#include "base/ids.hpp"
#include "ibv/device.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace stride::ibv {

/// A range of addresses, [base, base + bytes).
struct MemoryRange {
    std::uintptr_t base{};
    std::size_t bytes{};

    bool contains(std::uintptr_t address) const noexcept { return address - base < bytes; }
    bool overlaps(const MemoryRange& other) const noexcept {
        return base < other.base + other.bytes && other.base < base + bytes;
    }
};

/// Owns an ibv_mr (local write access) and keeps its device alive.
class MemoryKey {
  public:
    static Result<MemoryKey> register_range(std::shared_ptr<Device> device, MemoryRange range);

    Lkey lkey() const noexcept { return Lkey{mr_->lkey}; }
    MemoryRange range() const noexcept { return range_; }

  private:
    MemoryKey(Owned<ibv_mr> mr, MemoryRange range) noexcept
        : mr_{std::move(mr)}
        , range_{range} {}

    Owned<ibv_mr> mr_;
    MemoryRange range_;
};

} // namespace stride::ibv
