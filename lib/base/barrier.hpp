// SPDX-License-Identifier: BSD-3-Clause
/// Memory shared with a device: every ordered access has a name, and they are all here.
///
/// The software HCA is a thread, so on it these are the acquire and release of C++. On silicon the same names
/// must order DMA: on x86 the same instructions do; an architecture with weaker DMA ordering adds its
/// barriers in this file. Names follow what the access is for, after rdma-core's util/udma_barrier.h.
#pragma once

#include <atomic>
#include <cstdint>

#if !defined(__x86_64__)
#error "lib/base/barrier.hpp: only x86-64 is done; add this architecture's DMA barriers here"
#endif

namespace stride {

/// Reads a word the device writes last (owner byte, doorbell record); what was written before it is visible
/// after.
template <class T>
inline T load_from_device(const T* word) noexcept {
    T value;
    __atomic_load(word, &value, __ATOMIC_ACQUIRE);
    return value;
}

/// Reads a word that may change under us and orders nothing (a peek).
template <class T>
inline T peek_from_device(const T* word) noexcept {
    T value;
    __atomic_load(word, &value, __ATOMIC_RELAXED);
    return value;
}

/// Writes a word the device reads first (doorbell record, owner bit); what was written before it is visible
/// to whoever sees it.
template <class T>
inline void store_to_device(T* word, T value) noexcept {
    __atomic_store(word, &value, __ATOMIC_RELEASE);
}

/// Rings a doorbell register: one 8-byte store after everything before it. On silicon the UAR page is mapped
/// write-combining or uncached; the store is complete when it is issued, so a burst ends with it.
inline void ring_doorbell(void* reg, std::uint64_t wire_value) noexcept {
    __atomic_store_n(static_cast<std::uint64_t*>(reg), wire_value, __ATOMIC_RELEASE);
}

/// Orders a doorbell in write-combining memory before whatever follows (another doorbell, an unlock).
inline void flush_doorbell() noexcept { __builtin_ia32_sfence(); }

} // namespace stride
