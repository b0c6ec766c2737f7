// SPDX-License-Identifier: BSD-3-Clause
/// Memory keys by address.
///
/// The key of a packet is found by where its bytes are, never by the pool its mbuf came from: an mbuf may
/// point into a stride of another port, or into memory of the application. A miss registers the whole range
/// around the address once; a hit in a queue's cache is one comparison.
#pragma once

#include "base/be.hpp"
#include "ibv/memory_key.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace stride::ibv {

/// Tells which range to register for `address`: all of the memory area it lies in. False: unknown memory.
using RangeResolver = bool (*)(void* context, std::uintptr_t address, MemoryRange& range) noexcept;

/// What no device ever hands out: looking up memory that cannot be registered gives this.
inline constexpr std::uint32_t no_lkey = 0xffffffffU;

/// A key with its range, as a cache keeps it.
struct KeyEntry {
    MemoryRange range{};
    be32 lkey{no_lkey}; ///< as a data segment holds it
};

/// Keys of one device. Thread-safe; shared by the queues of a port.
class KeyTable {
  public:
    /// `generation`: where it is counted, if others than this process are to see it; outlives the table.
    KeyTable(std::shared_ptr<Device> device, RangeResolver resolver, void* resolver_context,
             std::atomic<std::uint32_t>* generation = nullptr) noexcept
        : device_{std::move(device)}
        , resolver_{resolver}
        , resolver_context_{resolver_context}
        , generation_{generation != nullptr ? generation : &own_generation_} {}

    /// The key of the range around `address`, registering it on the first use. May allocate and lock.
    Result<KeyEntry> find_or_register(std::uintptr_t address);
    /// The same for a data path, which may ask again for every packet: false if there is none. That is logged
    /// for `who` once a table; the queues' counters say how often.
    bool find_or_log(std::uintptr_t address, KeyEntry& entry, const char* who, unsigned number) noexcept;
    /// Registers `range` ahead of its first use (memory of pools known at start); no-op where it is already.
    Result<KeyEntry> add(MemoryRange range);
    /// Memory in `range` is about to be unmapped: forgets keys that touch it and makes every cache stale.
    void forget(MemoryRange range);
    /// Grows with every forget(); a cache of an older generation is stale.
    std::uint32_t generation() const noexcept { return generation_->load(std::memory_order_acquire); }
    /// The same as a word that a burst may watch without a call.
    const std::atomic<std::uint32_t>* generation_word() const noexcept { return generation_; }
    std::size_t size() const;

  private:
    Result<KeyEntry> register_locked(MemoryRange range);
    void retire_locked(MemoryRange range);
    const MemoryKey* find_locked(std::uintptr_t address) const noexcept;

    std::shared_ptr<Device> device_;
    RangeResolver resolver_;
    void* resolver_context_;
    std::atomic<std::uint32_t> own_generation_{0};
    std::atomic<std::uint32_t>* generation_;
    std::atomic<bool> failure_logged_{false};
    mutable std::mutex mutex_;
    std::vector<MemoryKey> keys_;      ///< sorted by base; ranges do not overlap
    std::vector<MemoryKey> retired_{}; ///< swallowed by a larger key; WQEs in flight may name them
};

/// One queue's view of the table; not thread-safe. Call begin_burst() before the first look-up of a burst.
class KeyCache {
  public:
    explicit KeyCache(KeyTable& table) noexcept
        : table_{&table} {}

    void begin_burst() noexcept {
        if (table_->generation() != generation_) [[unlikely]]
            drop();
    }
    /// The key that covers `address`, in wire order; no_lkey if that memory cannot be registered (counted).
    be32 lkey(std::uintptr_t address) noexcept {
        if (last_.range.contains(address)) [[likely]]
            return last_.lkey;
        return lkey_elsewhere(address);
    }
    be32 lkey(const void* address) noexcept { return lkey(reinterpret_cast<std::uintptr_t>(address)); }
    std::uint64_t misses() const noexcept { return misses_; }     ///< look-ups that went to the table
    std::uint64_t failures() const noexcept { return failures_; } ///< look-ups that found no key

  private:
    be32 lkey_elsewhere(std::uintptr_t address) noexcept;
    void drop() noexcept;

    static constexpr std::size_t spare_entries = 7;

    KeyEntry last_{};
    KeyTable* table_;
    std::uint32_t generation_{0};
    std::uint32_t victim_{0};
    std::array<KeyEntry, spare_entries> spare_{}; ///< used before last_; replaced in turn
    std::uint64_t misses_{0};
    std::uint64_t failures_{0};
};

} // namespace stride::ibv
