// SPDX-License-Identifier: BSD-3-Clause
/// WQE buffers of one receive queue: who holds them, how they come home.
///
/// Their memory is the pool's own, and packets are attached to it; or it is claimed from the application's
/// mempool (bind_pool.hpp), and packets are mbufs that lie in it.
///
/// A buffer is posted, then held by packets, then spare again. Receiving a packet touches no counter that
/// others write.
///
/// Memory of the pool's own: whoever frees a packet counts it in a row of its lcore (free_counts.hpp),
/// without a locked operation, and that is all. A buffer whose WQE is finished waits (waiting_list.hpp) until
/// as many packets were freed as had been handed over in it; the receiving thread looks. When the queue is
/// gone, the thread that makes or releases another pool looks, and an alarm of EAL's does.
///
/// Bound: credits count who holds a buffer. Posting gives it a large credit, every run of packets freed takes
/// some away, and when the WQE is finished the receiving thread takes away what is left of the large credit
/// beyond the packets handed over. Whoever reaches zero brings the buffer home. Of a bound buffer it is known
/// besides which of its mbufs are home. When the queue is gone nobody waits for the whole buffer any more:
/// what is home goes back to the mempool at once, the rest one by one.
///
/// The pool is counted too: by the queue, and by every buffer that is away. The last to let go frees the
/// memory, deregisters it and, through the keeper, lets go of the device: packets outlive queue and port.
#pragma once

#include "base/ids.hpp"
#include "mprq/rx_queue.hpp"
#include "mprq/waiting_list.hpp"
#include "mprq/wqe_buffer.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stride::mprq {

class BindPool;

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
        if (!waiting_.empty() || home_.load(std::memory_order_relaxed) != nullptr) collect();
        return spare_count_ != 0 ? spare_[--spare_count_] : nullptr;
    }
    /// Buffers that take() has, those not counted that came home since.
    std::uint32_t spare() const noexcept { return spare_count_; }
    /// Looks for every buffer that came home, so that spare() is what there is.
    void collect_all() noexcept;
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
    bool settle(WqeBuffer* buffer, std::uint32_t attached) noexcept {
        if (bind_ != nullptr) return settle_credits(*buffer, attached);
        buffer->handed.store(buffer->handed.load(std::memory_order_relaxed) + attached,
                             std::memory_order_relaxed);
        if (buffer->is_home()) return true;
        waiting_.add(*buffer);
        return false;
    }
    /// The queue lets go; its buffers must be given back or settled before. The pool lives on until the last
    /// packet is freed; of a bound one only the mbufs that are out are missing from the mempool.
    void release() noexcept;
    /// `count` packets of a bound buffer were freed. Any thread.
    static void packets_freed(WqeBuffer* buffer, std::uint32_t count) noexcept {
        const std::uint32_t left = buffer->credits.fetch_sub(count, std::memory_order_acq_rel) - count;
        if (static_cast<std::int32_t>(left) <= 0) last_freed(buffer, left, count);
    }
    /// A mempool goes: the released pools made of it go first, packets or not. In the process that made them.
    static void memory_goes(const BindPool& bind) noexcept;
    /// What memory_goes() left: false if a queue still runs on it.
    bool forget_memory() noexcept;
    /// What it was made of; nullptr: its own memory.
    BindPool* bound() const noexcept { return bind_; }

    Lkey lkey() const noexcept { return memory_.lkey; }
    /// False: another NIC could not be given an IOVA for packets in here (IOVA as PA, pages scattered).
    bool iova_contiguous() const noexcept { return iova_contiguous_; }
    std::uint32_t buffers() const noexcept { return buffer_count_; }
    /// Buffers posted or held by packets now. Any thread; while the queue runs it may be one off.
    std::uint32_t away() const noexcept;
    /// Frees the pools that were released and whose last packet was freed since. Control threads.
    static void reap() noexcept;
    /// Pools that exist in this process, after reaping, for tests and for a driver that wants to know at its
    /// end.
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
    bool lay_out_buffers(const StridePoolConfig& config, std::size_t pitch_bytes, bool in_ranges);
    void lay_out_buffer(WqeBuffer& buffer, const StridePoolConfig& config, std::uint32_t index,
                        std::byte* strides);
    Status register_range(const StridePoolConfig& config, std::byte* base, std::size_t bytes);
    void return_homecomers() noexcept;
    void split_up(WqeBuffer& buffer) noexcept;
    void destroy() noexcept;
    static bool settle_credits(WqeBuffer& buffer, std::uint32_t attached) noexcept;
    void collect() noexcept;
    void collect_stack() noexcept;
    void add_spare(WqeBuffer* found) noexcept;
    void release_bound() noexcept;
    static void reap_locked() noexcept;
    static void reap_again(void*) noexcept;
    /// Of a bound buffer that is home, by whoever brought it there, or of the queue: the last access to the
    /// pool. Another process may be the last, so that reap() frees it.
    void let_go() noexcept { away_.fetch_sub(1, std::memory_order_acq_rel); }
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
    std::size_t data_bytes_{};
    bool iova_contiguous_{true};
    RegisteredMemory memory_{};
    BindPool* bind_{};
    FreeCounts* counts_{};
    WaitingList waiting_{};
    StridePool* next_released_{}; ///< of those that wait for their last packet

    // Any thread.
    alignas(64) std::atomic<WqeBuffer*> home_{};
    std::atomic<std::uint32_t> away_{1}; ///< buffers not spare, and the queue
    std::atomic<bool> orphaned_{};       ///< bound: the queue is gone; buffers that come home go back at once
};

} // namespace stride::mprq
