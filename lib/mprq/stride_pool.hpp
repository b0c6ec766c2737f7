// SPDX-License-Identifier: BSD-3-Clause
/// WQE buffers of one receive queue: who holds them, how they come home.
///
/// Their memory is the pool's own, and packets are attached to it; or it is claimed from the application's
/// mempool (bind_pool.hpp), and packets are mbufs that lie in it.
///
/// A buffer is posted, then held by packets, then spare again. Credits count who holds it: posting gives it a
/// large credit, every packet freed takes one away, and when the WQE is finished the receiving thread takes
/// away what is left of the large credit beyond the packets attached. Whoever reaches zero brings the buffer
/// home. So receiving a packet touches no shared counter at all.
///
/// Of a bound buffer it is known besides which of its mbufs are home. When the queue is gone nobody waits for
/// the whole buffer any more: what is home goes back to the mempool at once, the rest one by one.
///
/// The pool is counted too: by the queue, and by every buffer that is away. The last to let go frees the
/// memory, deregisters it and, through the keeper, lets go of the device: packets outlive queue and port.
#pragma once

#include "base/ids.hpp"
#include "mprq/rx_queue.hpp"

#include <rte_mbuf.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stride::mprq {

class BindPool;
class StridePool;
struct WqeBuffer;

/// What an mbuf attached to a stride points at. refcnt is 1 whenever no packet starts at that stride.
struct StrideShare {
    rte_mbuf_ext_shared_info info;
    WqeBuffer* buffer;
};

/// Part of the pool's memory; the first line is shared between threads, the second is constant.
struct alignas(64) WqeBuffer {
    std::atomic<std::uint32_t> credits;
    WqeBuffer* next_home;           ///< of the stack of buffers brought home by other threads
    std::atomic<std::uint32_t> out; ///< bound and split up: mbufs that are not back yet

    alignas(64) StridePool* pool;
    std::byte* strides;       ///< first stride; headroom_bytes before it belong to the buffer too
    rte_iova_t iova;          ///< of `strides`
    StrideShare* shares;      ///< one for each stride that a packet may start at; nullptr if bound
    std::byte* slots;         ///< bound: the mbufs it is made of, and the slot its last stride ends in
    std::uint8_t* home;       ///< bound, by slot: the mbuf is home; 0 from when it is handed over
    std::uint32_t first_slot; ///< bound: index of `slots` in the mempool
    std::uint32_t slot_count;
    /// slot_count, or 0 if split up: then any of its slots may be another's already.
    std::atomic<std::uint32_t> whole_slots;
};

struct StridePoolConfig {
    std::uint32_t buffers{};
    std::uint32_t wqe_bytes{};
    std::uint32_t strides_per_wqe{};
    std::uint32_t shares_per_wqe{}; ///< attached packets of a buffer at once; not for bound ones
    std::uint32_t headroom_bytes{}; ///< in front of each buffer's first stride
    int socket_id{-1};
    RxQueueOwner owner{};
};

class StridePool {
  public:
    /// The caller is the queue: it holds the pool until it calls release(). All buffers are spare. ENOMEM, or
    /// the error of register_memory.
    static Result<StridePool*> create(const StridePoolConfig& config);

    /// As create, from mbufs of `bind` that are home: `buffers` if it has so many, `least` at least
    /// (ENOBUFS).
    static Result<StridePool*> create_bound(const StridePoolConfig& config, BindPool& bind,
                                            std::uint32_t least);

    /// Takes a spare buffer, the one that came home last; nullptr if there is none. It counts as spare until
    /// mark_posted. Receiving thread, like the next three.
    WqeBuffer* take() noexcept {
        if (home_.load(std::memory_order_relaxed) != nullptr) collect();
        return spare_count_ != 0 ? spare_[--spare_count_] : nullptr;
    }
    /// Buffers that take() has, those not counted that came home since.
    std::uint32_t spare() const noexcept { return spare_count_; }
    /// Gives back a buffer that was taken and not posted.
    void give_back(WqeBuffer* buffer) noexcept { spare_[spare_count_++] = buffer; }
    /// A buffer that was taken now belongs to the device, then to packets.
    void mark_posted() noexcept { away_.fetch_add(1, std::memory_order_relaxed); }
    /// Takes back a posted buffer that no packet holds.
    void unpost(WqeBuffer* buffer) noexcept {
        give_back(buffer);
        away_.fetch_sub(1, std::memory_order_relaxed);
    }
    /// The WQE is finished with `attached` packets handed over. True: all of them are free already, the
    /// buffer may be posted again or unposted. False: it comes home with the last of them.
    static bool settle(WqeBuffer* buffer, std::uint32_t attached) noexcept {
        const std::uint32_t unused = posted_credits - attached;
        if (buffer->credits.fetch_sub(unused, std::memory_order_acq_rel) != unused) return false;
        buffer->credits.store(posted_credits, std::memory_order_relaxed);
        return true;
    }
    /// The queue lets go; its buffers must be given back or settled before. The pool lives on until the last
    /// packet is freed; of a bound one only the mbufs that are out are missing from the mempool.
    void release() noexcept;
    /// `count` packets of a buffer were freed. Any thread.
    static void packets_freed(WqeBuffer* buffer, std::uint32_t count) noexcept {
        const std::uint32_t left = buffer->credits.fetch_sub(count, std::memory_order_acq_rel) - count;
        if (static_cast<std::int32_t>(left) <= 0) last_freed(buffer, left, count);
    }
    /// The mempool that a bound pool was made of goes, packets or not. False: a queue still runs on it.
    bool memory_gone() noexcept;
    /// What it was made of; nullptr: its own memory.
    BindPool* bound() const noexcept { return bind_; }

    Lkey lkey() const noexcept { return memory_.lkey; }
    /// False: another NIC could not be given an IOVA for packets in here (IOVA as PA, pages scattered).
    bool iova_contiguous() const noexcept { return iova_contiguous_; }
    std::uint32_t buffers() const noexcept { return buffer_count_; }
    /// Buffers posted or held by packets now. Any thread.
    std::uint32_t away() const noexcept { return away_.load(std::memory_order_relaxed) - 1; }
    /// What another process was the last to use; for now it stays.
    static void reap() noexcept {}
    /// Pools that exist in this process, for tests and for a driver that wants to know at its end.
    static std::uint32_t alive() noexcept;

    /// What frees attached packets, for a process that did not make the pools (base/shared_calls.hpp).
    static void enter_shared_calls() noexcept;

    StridePool* next_claimer{}; ///< BindPool's list

  private:
    static constexpr std::uint32_t posted_credits = 1U << 20; ///< above the strides of any WQE

    StridePool() = default;
    ~StridePool() = default;
    static StridePool* allocate_pool(int socket_id) noexcept;
    bool lay_out(const StridePoolConfig& config);
    bool lay_out_bound(const StridePoolConfig& config, std::uint32_t least);
    void lay_out_buffer(WqeBuffer& buffer, const StridePoolConfig& config, std::uint32_t index);
    Status register_range(const StridePoolConfig& config, std::byte* base, std::size_t bytes);
    void return_homecomers() noexcept;
    void split_up(WqeBuffer& buffer) noexcept;
    void destroy() noexcept;
    void collect() noexcept;
    void let_go() noexcept {
        if (away_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_let_go();
    }
    void last_let_go() noexcept;
    static void packet_freed(void* address, void* share) noexcept;
    static void last_freed(WqeBuffer* buffer, std::uint32_t left, std::uint32_t count) noexcept;
    static void bring_home(WqeBuffer* buffer) noexcept;

    // Receiving thread.
    WqeBuffer** spare_{};
    std::uint32_t spare_count_{};
    std::uint32_t buffer_count_{};
    WqeBuffer* buffers_{};
    StrideShare* shares_{};
    std::byte* data_{};
    std::size_t pitch_bytes_{}; ///< from one buffer to the next
    bool iova_contiguous_{true};
    RegisteredMemory memory_{};
    BindPool* bind_{};

    // Any thread.
    alignas(64) std::atomic<WqeBuffer*> home_{};
    std::atomic<std::uint32_t> away_{1}; ///< buffers not spare, and the queue
    std::atomic<bool> orphaned_{};       ///< bound: the queue is gone; buffers that come home go back at once
};

} // namespace stride::mprq
