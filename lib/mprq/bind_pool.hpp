// SPDX-License-Identifier: BSD-3-Clause
/// Mempool ops "stride": a pktmbuf pool whose memory can become WQE buffers.
///
/// Every object is an ordinary, direct mbuf in a slot of 2^log_pitch bytes, the pitch of a stride. The data
/// of all of them start at the same place in their slots, so that any run of mbufs that lie side by side is a
/// WQE buffer, each stride of it already inside the mbuf that will carry it: stride s of such a run is where
/// mbuf s keeps its data, and the tail of that stride, which the HCA does not reach with frames that fit an
/// mbuf, holds the header of mbuf s + 1.
///
///     slot:  | pad | object header | rte_mbuf | private area | headroom | data ...            |
///     stride:                                                           | data ... next slot's headers |
///
/// The pad differs from slot to slot, so that headers do not all fall into the same few sets of a cache.
///
/// Until a queue claims some of it the pool is like any other. A claim takes runs of mbufs that are all home,
/// one for each WQE buffer and one slot behind it, which the last stride reaches into. Enqueued again, such
/// an mbuf counts its buffer towards home and goes nowhere else; whatever keeps it meanwhile (an application,
/// an lcore's cache that hands it out to be sent) has an mbuf like any other. When the queue is gone, all
/// that are home belong to the pool again, and every other one as soon as it comes.
#pragma once

#include "mprq/stride_pool.hpp"

#include <rte_mempool.h>
#include <rte_spinlock.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace stride::mprq {

/// Where things are in a slot.
struct BindLayout {
    std::uint32_t log_pitch{};   ///< slot and stride
    std::uint32_t data_offset{}; ///< slot -> first byte the HCA writes
    std::uint32_t head_bytes{};  ///< mbuf -> that byte, in slots of colour 0
    std::uint32_t colour_mask{}; ///< colours - 1; slot n has colour n & mask
    std::uint32_t frame_bytes{}; ///< longest frame that stays within every mbuf of the pool

    static constexpr std::uint32_t colour_bytes = 64;
    static constexpr std::uint32_t max_colours = 8;

    /// What has to fit a slot.
    struct Object {
        std::uint32_t header_bytes{}, trailer_bytes{}; ///< the mempool's own
        std::uint32_t private_bytes{};                 ///< of an mbuf
        std::uint32_t room_bytes{};                    ///< data room, headroom included
    };
    /// nullopt: mbufs without a headroom, or larger than the largest stride.
    static std::optional<BindLayout> of(const Object& object) noexcept;

    std::uint32_t pitch_bytes() const noexcept { return 1U << log_pitch; }
    std::uint32_t colours() const noexcept { return colour_mask + 1; }
    /// From a slot to its mbuf.
    std::uint32_t mbuf_offset(std::uint32_t slot) const noexcept {
        return data_offset - head_bytes - (slot & colour_mask) * colour_bytes;
    }
};

/// pool_data of a pool with these ops. Shared between processes: no pointer to code in it.
class BindPool {
  public:
    /// Of `pool`, if it has these ops and was laid out for binding; else nullptr.
    static BindPool* of(const rte_mempool* pool) noexcept;

    const BindLayout& layout() const noexcept { return layout_; }
    rte_mempool* mempool() const noexcept { return mempool_; }
    /// The memory that WQE buffers lie in.
    std::byte* base() const noexcept { return slots_; }
    std::size_t bytes() const noexcept { return std::size_t{slot_count_} << layout_.log_pitch; }

    /// Takes runs of `strides` mbufs (and one more slot each) that are all home out of the pool, for buffers
    /// [0, wanted) of `claim`; returns how many there were. Control thread; other threads may use the pool.
    std::uint32_t claim(WqeBuffer* buffers, std::uint32_t wanted, std::uint32_t strides);
    /// Gives a buffer's mbufs, all home, back to the pool. Any thread.
    void give_back(WqeBuffer& buffer) noexcept;
    /// Gives those of a buffer's mbufs back that are home and were not given back yet, and leaves the others
    /// to later calls. Nothing is posted in it any more. Any thread.
    void give_back_home(WqeBuffer& buffer) noexcept;
    /// Makes headers good again that a frame longer than an mbuf has overwritten, in the strides [first,
    /// first
    /// + count) of a buffer; no mbuf behind the first of these is out. Their private areas are zeroed.
    void repair(const WqeBuffer& buffer, std::uint32_t first, std::uint32_t count) noexcept;

    /// A StridePool made of this pool lives; to be told if the memory goes first.
    void enlist(StridePool& claimer) noexcept;
    void strike(StridePool& claimer) noexcept;

    // The ops.
    static int create(rte_mempool* pool) noexcept;
    static void destroy(rte_mempool* pool) noexcept;
    static int enqueue(rte_mempool* pool, void* const* objects, unsigned count) noexcept;
    static int dequeue(rte_mempool* pool, void** objects, unsigned count) noexcept;
    static unsigned count(const rte_mempool* pool) noexcept;
    static ssize_t memory_bytes(const rte_mempool* pool, std::uint32_t objects, std::uint32_t page_shift,
                                std::size_t* min_chunk_bytes, std::size_t* align) noexcept;
    static int populate(rte_mempool* pool, unsigned max_objects, void* memory, rte_iova_t iova,
                        std::size_t bytes, rte_mempool_populate_obj_cb_t* add, void* context) noexcept;

  private:
    friend struct BindPoolOps;
    BindPool() = default;
    ~BindPool() = default;

    std::byte* slot(std::uint32_t index) const noexcept {
        return slots_ + (std::size_t{index} << layout_.log_pitch);
    }
    std::byte* object(std::uint32_t index) const noexcept { return slot(index) + layout_.mbuf_offset(index); }
    rte_mempool_objhdr* header_of(std::uint32_t index) const noexcept {
        return rte_mempool_get_header(object(index));
    }
    /// slot_count_ or more: of another chunk.
    std::size_t index_of(const void* object) const noexcept {
        return static_cast<std::size_t>(static_cast<const std::byte*>(object) - slots_) >> layout_.log_pitch;
    }
    WqeBuffer* owner_of(std::size_t index) const noexcept {
        return index < slot_count_ ? owner_[index] : nullptr;
    }
    void put(void* const* objects, std::uint32_t count) noexcept;
    void sort_home(void* const* objects, std::uint32_t count) noexcept;
    std::uint32_t find_runs(WqeBuffer* buffers, std::uint32_t wanted, std::uint32_t strides,
                            const std::uint8_t* home) noexcept;
    void drop_owned() noexcept;
    void take_back(std::uint32_t index) noexcept;
    void relink() noexcept;
    /// Headers of an mbuf that is home, as new.
    void renew(std::uint32_t index) noexcept;

    rte_mempool* mempool_{};
    BindLayout layout_{};
    std::byte* slots_{};
    std::uint32_t slot_count_{}; ///< 0: not laid out for binding
    WqeBuffer** owner_{};        ///< by slot; nullptr: not claimed. Never changes while the mbuf is out
    std::uint8_t* home_{};       ///< by slot; of claimed ones: the mbuf is not out
    std::atomic<std::uint32_t> claimed_{}; ///< slots

    alignas(64) rte_spinlock_t lock_{}; ///< guards what follows
    std::uint32_t stacked_{};
    void** stack_{}; ///< of mbufs that are home and not claimed
    StridePool* claimers_{};
};

} // namespace stride::mprq
