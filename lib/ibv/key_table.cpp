// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/key_table.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <iterator>

namespace stride::ibv {

const MemoryKey* KeyTable::find_locked(std::uintptr_t address) const noexcept {
    const auto after =
        std::upper_bound(keys_.begin(), keys_.end(), address,
                         [](std::uintptr_t at, const MemoryKey& key) { return at < key.range().base; });
    if (after == keys_.begin()) return nullptr;
    const MemoryKey& candidate = *std::prev(after);
    return candidate.range().contains(address) ? &candidate : nullptr;
}

Result<KeyEntry> KeyTable::register_locked(MemoryRange range) {
    auto key = MemoryKey::register_range(device_, range);
    if (!key) return key.take_error();
    retire_locked(range);
    const KeyEntry entry{range, key->lkey().value};
    const auto place = std::upper_bound(
        keys_.begin(), keys_.end(), range.base,
        [](std::uintptr_t base, const MemoryKey& other) { return base < other.range().base; });
    keys_.insert(place, std::move(key).value());
    return entry;
}

// Memory mapped next to a registered range makes the resolver answer with both. Look-ups must find the larger
// key from now on (an mbuf may straddle the seam), but WQEs in flight still name the smaller one: it stays.
void KeyTable::retire_locked(MemoryRange range) {
    const auto first = std::stable_partition(
        keys_.begin(), keys_.end(), [&range](const MemoryKey& key) { return !key.range().overlaps(range); });
    if (first == keys_.end()) return;
    std::move(first, keys_.end(), std::back_inserter(retired_));
    keys_.erase(first, keys_.end());
    generation_->fetch_add(1, std::memory_order_release);
}

Result<KeyEntry> KeyTable::find_or_register(std::uintptr_t address) {
    {
        const std::lock_guard lock{mutex_};
        if (const MemoryKey* key = find_locked(address)) return KeyEntry{key->range(), key->lkey().value};
    }
    // The resolver takes locks of its own (EAL's memory map), which whoever calls forget() holds already.
    MemoryRange range{};
    if (resolver_ == nullptr || !resolver_(resolver_context_, address, range) || !range.contains(address))
        return Error{EFAULT, strprintf("%s: no known memory at %#zx", device_->name().c_str(), address)};
    const std::lock_guard lock{mutex_};
    if (const MemoryKey* key = find_locked(address)) return KeyEntry{key->range(), key->lkey().value};
    return register_locked(range);
}

bool KeyTable::find_or_log(std::uintptr_t address, KeyEntry& entry, const char* who,
                           unsigned number) noexcept {
    auto found = find_or_register(address);
    if (found) {
        entry = found.value();
        return true;
    }
    if (!failure_logged_.exchange(true))
        log_line(LogLevel::error, "%s %u: memory key: %s (further failures are counted only)", who, number,
                 found.error().what.c_str());
    return false;
}

Result<KeyEntry> KeyTable::add(MemoryRange range) {
    const std::lock_guard lock{mutex_};
    const MemoryKey* key = find_locked(range.base);
    if (key != nullptr && key->range().contains(range.base + range.bytes - 1))
        return KeyEntry{key->range(), key->lkey().value};
    return register_locked(range);
}

void KeyTable::forget(MemoryRange range) {
    const std::lock_guard lock{mutex_};
    const auto touched = [&range](const MemoryKey& key) { return key.range().overlaps(range); };
    std::erase_if(retired_, touched);
    if (std::erase_if(keys_, touched) > 0) generation_->fetch_add(1, std::memory_order_release);
}

std::size_t KeyTable::size() const {
    const std::lock_guard lock{mutex_};
    return keys_.size();
}

be32 KeyCache::lkey_elsewhere(std::uintptr_t address) noexcept {
    for (KeyEntry& entry : spare_) {
        if (!entry.range.contains(address)) continue;
        std::swap(entry, last_);
        return last_.lkey;
    }
    ++misses_;
    auto entry = table_->find_or_register(address);
    if (!entry) {
        if (failures_++ == 0) log_line(LogLevel::error, "memory key: %s", entry.error().what.c_str());
        return no_lkey;
    }
    spare_[victim_] = last_;
    victim_ = (victim_ + 1) % spare_entries;
    last_ = entry.value();
    return last_.lkey;
}

void KeyCache::drop() noexcept {
    last_ = KeyEntry{};
    spare_.fill(KeyEntry{});
    generation_ = table_->generation();
}

} // namespace stride::ibv
