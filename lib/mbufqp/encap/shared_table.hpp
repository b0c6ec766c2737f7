// SPDX-License-Identifier: BSD-3-Clause
/// A hash table of a few thousand short entries that bursts read while another thread changes it.
///
/// A reader takes no lock and writes nothing: each slot carries a version that says whether what was read is
/// one entry. Writers take turns. Probing is linear and as long as the longest displacement that was needed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace stride::mbufqp {

/// Entries of `key_words` and `value_words` 64-bit words.
template <std::size_t key_words, std::size_t value_words>
class SharedTable {
  public:
    using Key = std::array<std::uint64_t, key_words>;
    using Value = std::array<std::uint64_t, value_words>;

    /// Room for `entries`; twice as many slots.
    explicit SharedTable(std::uint32_t entries)
        : capacity_{std::max(entries, 1U)}
        , mask_{std::bit_ceil(2 * std::max(capacity_, 4U)) - 1}
        , slots_{std::make_unique<Slot[]>(std::size_t{mask_} + 1)} {}

    std::uint32_t capacity() const noexcept { return capacity_; }
    std::uint32_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

    /// Any thread. False: not there, or just being changed.
    bool find(const Key& key, Value& value) const noexcept {
        const std::uint32_t probes = probes_.load(std::memory_order_acquire);
        const std::uint32_t home = hash(key);
        for (std::uint32_t i = 0; i < probes; ++i) {
            const Slot& slot = slots_[(home + i) & mask_];
            switch (read(slot, key, value)) {
            case Look::match:
                return true;
            case Look::never_used:
                return false;
            case Look::other:
                break;
            }
        }
        return false;
    }

    /// Adds or changes an entry; false: the table is full.
    bool insert(const Key& key, const Value& value) noexcept {
        const Turn turn{*this};
        if (Slot* known = locate(key)) {
            write(*known, key, value);
            return true;
        }
        if (size() >= capacity_) return false;
        const std::uint32_t home = hash(key);
        std::uint32_t i = 0;
        while ((state_of(home + i) & occupied) != 0)
            ++i;
        place(home, i, key, value);
        return true;
    }

    /// Adds or changes an entry of a cache: an entry nearby gives way where there is no room. Does nothing if
    /// somebody else is writing, for whatever is worth knowing is said again.
    void remember(const Key& key, const Value& value) noexcept {
        Value known;
        if (find(key, known) && known == value) return;
        const Turn turn{*this, std::try_to_lock};
        if (!turn.taken) return;
        if (Slot* slot = locate(key)) {
            write(*slot, key, value);
            return;
        }
        const std::uint32_t home = hash(key);
        std::uint32_t i = 0;
        while (i < cache_window && (state_of(home + i) & occupied) != 0)
            ++i;
        if (i < cache_window) {
            place(home, i, key, value);
            return;
        }
        const std::uint32_t displacement = victim_++ % cache_window;
        write(slots_[(home + displacement) & mask_], key, value);
        probe_as_far_as(displacement);
    }

    /// False: was not there.
    bool erase(const Key& key) noexcept {
        const Turn turn{*this};
        Slot* slot = locate(key);
        if (slot == nullptr) return false;
        const std::uint64_t state = slot->state.load(std::memory_order_relaxed);
        slot->state.store((state + version_step) & ~occupied, std::memory_order_release);
        size_.store(size() - 1, std::memory_order_relaxed);
        return true;
    }

  private:
    static constexpr std::uint64_t writing = 1;
    static constexpr std::uint64_t occupied = 2;
    static constexpr std::uint64_t version_step = 4;
    static constexpr std::uint32_t cache_window = 8;
    /// Looks at a slot that is being written, before the reader gives up.
    static constexpr unsigned max_looks = 64;

    struct Slot {
        std::atomic<std::uint64_t> state{0}; ///< version, occupied, writing; 0: never used
        std::array<std::atomic<std::uint64_t>, key_words + value_words> words{};
    };
    enum class Look : std::uint8_t { match, other, never_used };

    /// One writer at a time; never held over anything but a few stores.
    struct Turn {
        explicit Turn(SharedTable& owner) noexcept
            : table{owner} {
            while (table.writer_.test_and_set(std::memory_order_acquire)) {
            }
        }
        Turn(SharedTable& owner, std::try_to_lock_t) noexcept
            : table{owner}
            , taken{!owner.writer_.test_and_set(std::memory_order_acquire)} {}
        ~Turn() {
            if (taken) table.writer_.clear(std::memory_order_release);
        }
        Turn(const Turn&) = delete;
        SharedTable& table;
        bool taken{true};
    };

    std::uint32_t hash(const Key& key) const noexcept {
        std::uint64_t mixed = 0;
        for (const std::uint64_t word : key)
            mixed = (std::rotl(mixed, 29) ^ word) * 0x9e3779b97f4a7c15ULL;
        return static_cast<std::uint32_t>(mixed >> 32) & mask_;
    }
    std::uint64_t state_of(std::uint32_t index) const noexcept {
        return slots_[index & mask_].state.load(std::memory_order_relaxed);
    }

    static Look read(const Slot& slot, const Key& key, Value& value) noexcept {
        for (unsigned look = 0; look < max_looks; ++look) {
            const std::uint64_t before = slot.state.load(std::memory_order_acquire);
            if (before == 0) return Look::never_used;
            if ((before & writing) != 0) continue;
            if ((before & occupied) == 0) return Look::other;
            bool same = true;
            for (std::size_t i = 0; i < key_words; ++i)
                same = same && slot.words[i].load(std::memory_order_acquire) == key[i];
            Value read_value;
            for (std::size_t i = 0; i < value_words; ++i)
                read_value[i] = slot.words[key_words + i].load(std::memory_order_acquire);
            if (slot.state.load(std::memory_order_relaxed) != before) continue;
            if (!same) return Look::other;
            value = read_value;
            return Look::match;
        }
        return Look::other;
    }

    Slot* locate(const Key& key) noexcept {
        const std::uint32_t home = hash(key);
        Value value;
        for (std::uint32_t i = 0; i < probes_.load(std::memory_order_relaxed); ++i) {
            Slot& slot = slots_[(home + i) & mask_];
            if (read(slot, key, value) == Look::match) return &slot;
        }
        return nullptr;
    }
    void place(std::uint32_t home, std::uint32_t displacement, const Key& key, const Value& value) noexcept {
        write(slots_[(home + displacement) & mask_], key, value);
        probe_as_far_as(displacement);
        size_.store(size() + 1, std::memory_order_relaxed);
    }
    void probe_as_far_as(std::uint32_t displacement) noexcept {
        if (displacement >= probes_.load(std::memory_order_relaxed))
            probes_.store(displacement + 1, std::memory_order_release);
    }
    static void write(Slot& slot, const Key& key, const Value& value) noexcept {
        const std::uint64_t before = slot.state.load(std::memory_order_relaxed);
        slot.state.store(before | writing, std::memory_order_relaxed);
        for (std::size_t i = 0; i < key_words; ++i)
            slot.words[i].store(key[i], std::memory_order_release);
        for (std::size_t i = 0; i < value_words; ++i)
            slot.words[key_words + i].store(value[i], std::memory_order_release);
        slot.state.store(((before | occupied) + version_step) & ~writing, std::memory_order_release);
    }

    std::uint32_t capacity_;
    std::uint32_t mask_;
    std::unique_ptr<Slot[]> slots_;
    std::atomic<std::uint32_t> size_{0};
    std::atomic<std::uint32_t> probes_{0};
    std::atomic_flag writer_{};
    std::uint32_t victim_{0};
};

} // namespace stride::mbufqp
