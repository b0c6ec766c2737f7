// SPDX-License-Identifier: BSD-3-Clause
/// One WQE buffer, and what a packet attached to it points at.
#pragma once

#include "mprq/free_counts.hpp"

#include <rte_mbuf.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stride::mprq {

class StridePool;
struct WqeBuffer;

/// What an mbuf attached to a stride points at. refcnt is 1 whenever no packet starts at that stride.
struct StrideShare {
    rte_mbuf_ext_shared_info info;
    WqeBuffer* buffer;
};

/// Part of a pool's memory; the first line changes, the second is constant.
struct alignas(64) WqeBuffer {
    // Bound: shared between threads.
    std::atomic<std::uint32_t> credits;
    std::atomic<std::uint32_t> out; ///< split up: mbufs that are not back yet
    WqeBuffer* next_home;           ///< of the stack of buffers brought home by other threads
    std::uint32_t first_slot;       ///< index of `slots` in the mempool
    std::uint32_t slot_count;

    // Of memory of the pool's own: written by the receiving thread alone.
    std::atomic<std::uint32_t> handed; ///< packets handed over in it, ever, as of the last WQE finished
    std::atomic<bool> waits;           ///< is in the pool's waiting list
    WqeBuffer *older, *newer;          ///< in that list

    alignas(64) StridePool* pool;
    std::byte* strides;   ///< first stride; headroom_bytes before it belong to the buffer too
    rte_iova_t iova;      ///< of `strides`
    StrideShare* shares;  ///< one for each stride that a packet may start at; nullptr if bound
    FreeCounts* counts;   ///< of packets of the pool's buffers; nullptr if bound
    std::byte* slots;     ///< bound: the mbufs it is made of, and the slot its last stride ends in
    std::uint8_t* home;   ///< bound, by slot: the mbuf is home; 0 from when it is handed over
    std::uint32_t number; ///< of the pool's buffers
    /// Bound: slot_count, or 0 if split up: then any of its slots may be another's already.
    std::atomic<std::uint32_t> whole_slots;

    /// No packet handed over in it is out. Not for bound ones. Any thread; true stays true until its next WQE
    /// is finished.
    bool is_home() const noexcept { return counts->of(number) == handed.load(std::memory_order_relaxed); }
};
static_assert(sizeof(WqeBuffer) == 128);

} // namespace stride::mprq
