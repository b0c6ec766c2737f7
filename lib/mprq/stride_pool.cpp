// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/stride_pool.hpp"

#include "base/format.hpp"
#include "base/ring.hpp"
#include "base/shared_calls.hpp"
#include "mprq/bind_pool.hpp"
#include "mprq/iova.hpp"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_malloc.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace stride::mprq {
namespace {

constexpr std::size_t cache_line_bytes = 64;
std::atomic<std::uint32_t> pools_alive{0};

/// Pools that were released while packets were out. Of the process that made them: they hold registrations.
struct Released {
    std::mutex lock{};
    StridePool* first{};
    bool alarm_set{}; ///< reap_again will come
};
Released released;
constexpr std::uint64_t reap_interval_us = 100000;

template <class T>
T* allocate(std::size_t count, int socket_id) {
    return static_cast<T*>(rte_zmalloc_socket("stride_pool", count * sizeof(T), cache_line_bytes, socket_id));
}

} // namespace

StridePool* StridePool::allocate_pool(int socket_id) noexcept {
    void* place = rte_zmalloc_socket("stride_pool", sizeof(StridePool), cache_line_bytes, socket_id);
    if (place == nullptr) return nullptr;
    pools_alive.fetch_add(1, std::memory_order_relaxed);
    return new (place) StridePool;
}

Result<StridePool*> StridePool::create(const StridePoolConfig& config) {
    reap();
    StridePool* pool = allocate_pool(config.socket_id);
    if (pool == nullptr) return Error{ENOMEM, "stride pool: no memory"};
    if (!pool->lay_out(config)) {
        pool->destroy();
        return Error{ENOMEM, strprintf("stride pool: no memory for %u WQE buffers of %u bytes on socket %d",
                                       config.buffers, config.wqe_bytes, config.socket_id)};
    }
    if (Status status = pool->register_range(config, pool->data_, pool->data_bytes_); !status) {
        pool->destroy();
        return status.take_error();
    }
    return pool;
}

Result<StridePool*> StridePool::create_bound(const StridePoolConfig& config, BindPool& bind,
                                             std::uint32_t least) {
    StridePool* pool = allocate_pool(config.socket_id);
    if (pool == nullptr) return Error{ENOMEM, "stride pool: no memory"};
    pool->bind_ = &bind;
    bind.enlist(*pool);
    if (!pool->lay_out_bound(config, least)) {
        const std::uint32_t got = pool->spare_count_;
        pool->release();
        return Error{ENOBUFS,
                     strprintf("mempool %s has %u runs of %u mbufs side by side at home, %u are needed",
                               bind.mempool()->name, got, config.strides_per_wqe + 1, least)};
    }
    if (Status status = pool->register_range(config, bind.base(), bind.bytes()); !status) {
        pool->release();
        return status.take_error();
    }
    return pool;
}

Status StridePool::register_range(const StridePoolConfig& config, std::byte* base, std::size_t bytes) {
    Result<RegisteredMemory> registered = config.owner.register_memory(config.owner.context, base, bytes);
    if (!registered) return registered.take_error();
    memory_ = std::move(registered).value();
    return {};
}

bool StridePool::lay_out_bound(const StridePoolConfig& config, std::uint32_t least) {
    buffers_ = allocate<WqeBuffer>(config.buffers, config.socket_id);
    spare_ = allocate<WqeBuffer*>(config.buffers, config.socket_id);
    if (buffers_ == nullptr || spare_ == nullptr) return false;
    buffer_count_ = bind_->claim(buffers_, config.buffers, config.strides_per_wqe);
    for (std::uint32_t n = buffer_count_; n-- > 0;) {
        WqeBuffer& buffer = buffers_[n];
        buffer.credits.store(posted_credits, std::memory_order_relaxed);
        buffer.pool = this;
        buffer.iova = rte_mem_virt2iova(buffer.strides);
        spare_[spare_count_++] = &buffer;
    }
    return buffer_count_ >= least;
}

bool StridePool::lay_out(const StridePoolConfig& config) {
    // Headroom before each buffer also keeps the buffers from starting at the same cache set.
    const std::size_t pitch_bytes =
        align_up(std::size_t{config.headroom_bytes}, cache_line_bytes) + config.wqe_bytes;
    data_bytes_ = config.buffers * pitch_bytes;
    data_bytes_ += iova_slack_bytes(data_bytes_, pitch_bytes);
    // Copies of short packets read whole blocks, and a shifted packet ends two bytes behind its stride.
    data_ = allocate<std::byte>(data_bytes_ + cache_line_bytes, config.socket_id);
    buffers_ = allocate<WqeBuffer>(config.buffers, config.socket_id);
    shares_ = allocate<StrideShare>(std::size_t{config.buffers} * config.shares_per_wqe, config.socket_id);
    spare_ = allocate<WqeBuffer*>(config.buffers, config.socket_id);
    counts_ = FreeCounts::create(config.buffers, config.socket_id);
    if (data_ == nullptr || buffers_ == nullptr || shares_ == nullptr || spare_ == nullptr ||
        counts_ == nullptr)
        return false;
    buffer_count_ = config.buffers;
    iova_contiguous_ = lay_out_buffers(config, pitch_bytes, true);
    return iova_contiguous_ || lay_out_buffers(config, pitch_bytes, false);
}

/// One after another; if `in_ranges`, each at the next place where it is one range for any device. False if
/// there are too few such places: buffers larger than a page have none.
bool StridePool::lay_out_buffers(const StridePoolConfig& config, std::size_t pitch_bytes, bool in_ranges) {
    std::byte* start = data_;
    for (std::uint32_t n = 0; n < config.buffers; ++n, start += pitch_bytes) {
        if (in_ranges) start = iova_place(start, data_ + data_bytes_, pitch_bytes);
        if (start == nullptr) return false;
        lay_out_buffer(buffers_[n], config, n, start + (pitch_bytes - config.wqe_bytes));
        spare_[config.buffers - 1 - n] = &buffers_[n]; // the first is taken first
    }
    spare_count_ = config.buffers;
    return true;
}

void StridePool::lay_out_buffer(WqeBuffer& buffer, const StridePoolConfig& config, std::uint32_t index,
                                std::byte* strides) {
    new (&buffer) WqeBuffer;
    buffer.pool = this;
    buffer.counts = counts_;
    buffer.number = index;
    buffer.strides = strides;
    buffer.iova = rte_mem_virt2iova(strides);
    buffer.shares = shares_ + std::size_t{index} * config.shares_per_wqe;
    for (std::uint32_t n = 0; n < config.shares_per_wqe; ++n) {
        StrideShare& share = buffer.shares[n];
        share.info.free_cb = SharedCalls::of(SharedCall::packet_freed, packet_freed);
        share.info.fcb_opaque = &share;
        rte_mbuf_ext_refcnt_set(&share.info, 1);
        share.buffer = &buffer;
    }
}

void StridePool::release() noexcept {
    if (bind_ != nullptr) release_bound();
    let_go();
    const std::scoped_lock locked{released.lock};
    next_released_ = std::exchange(released.first, this);
    reap_locked();
}

void StridePool::release_bound() noexcept {
    orphaned_.store(true); // before looking who came home; bring_home does it the other way round
    while (spare_count_ != 0)
        bind_->give_back(*spare_[--spare_count_]);
    return_homecomers();
    for (std::uint32_t n = 0; n < buffer_count_; ++n)
        split_up(buffers_[n]);
}

void StridePool::reap() noexcept {
    const std::scoped_lock locked{released.lock};
    reap_locked();
}

void StridePool::reap_locked() noexcept {
    for (StridePool** at = &released.first; *at != nullptr;) {
        StridePool* const pool = *at;
        if (pool->bind_ == nullptr) pool->collect_all(); // bound buffers come home without being looked for
        if (pool->away_.load(std::memory_order_acquire) != 0) {
            at = &pool->next_released_;
            continue;
        }
        *at = pool->next_released_;
        pool->destroy();
    }
    if (released.first == nullptr || released.alarm_set) return;
    released.alarm_set = rte_eal_alarm_set(reap_interval_us, reap_again, nullptr) == 0;
}

/// EAL's alarm: nobody may make or release another pool. It waits for no lock: whoever has it may wait for
/// EAL's interrupt thread, which this is.
void StridePool::reap_again(void*) noexcept {
    const std::unique_lock locked{released.lock, std::try_to_lock};
    if (!locked) {
        rte_eal_alarm_set(reap_interval_us, reap_again, nullptr);
        return;
    }
    released.alarm_set = false;
    reap_locked();
}

/// Gives back of a buffer that packets hold what is home. No WQE is posted any more, so that its credits are
/// the mbufs that are out; taken away, all of these go back one by one, and the last lets go of the pool.
void StridePool::split_up(WqeBuffer& buffer) noexcept {
    std::uint32_t out = buffer.credits.load(std::memory_order_relaxed);
    do {
        if (out == 0 || out == posted_credits) return; // home, or brought home just now
        buffer.out.store(out, std::memory_order_relaxed);
    } while (
        !buffer.credits.compare_exchange_weak(out, 0, std::memory_order_acq_rel, std::memory_order_relaxed));
    bind_->give_back_home(buffer);
}

void StridePool::return_homecomers() noexcept {
    WqeBuffer* buffer = home_.exchange(nullptr);
    while (buffer != nullptr)
        bind_->give_back(*std::exchange(buffer, buffer->next_home));
}

void StridePool::memory_goes(const BindPool& bind) noexcept {
    const std::scoped_lock locked{released.lock};
    for (StridePool** at = &released.first; *at != nullptr;) {
        StridePool* const pool = *at;
        if (pool->bind_ != &bind) {
            at = &pool->next_released_;
            continue;
        }
        *at = pool->next_released_;
        pool->destroy();
    }
}

bool StridePool::forget_memory() noexcept {
    bind_ = nullptr;
    return orphaned_;
}

void StridePool::destroy() noexcept {
    if (bind_ != nullptr) bind_->strike(*this);
    void* const parts[] = {data_, buffers_, shares_, spare_};
    FreeCounts::destroy(counts_);
    this->~StridePool(); // deregisters, while the memory is still there
    for (void* part : parts)
        rte_free(part);
    rte_free(this);
    pools_alive.fetch_sub(1, std::memory_order_relaxed);
}

std::uint32_t StridePool::alive() noexcept {
    reap();
    return pools_alive.load(std::memory_order_relaxed);
}

std::uint32_t StridePool::away() const noexcept {
    std::uint32_t home = 0; // and not yet found to be
    for (std::uint32_t n = 0; bind_ == nullptr && n < buffer_count_; ++n)
        if (buffers_[n].waits.load(std::memory_order_acquire) && buffers_[n].is_home()) ++home;
    const std::uint32_t away = away_.load(std::memory_order_relaxed) - 1;
    return away - std::min(home, away);
}

void StridePool::enter_shared_calls() noexcept { SharedCalls::of(SharedCall::packet_freed, packet_freed); }

bool StridePool::settle_credits(WqeBuffer& buffer, std::uint32_t attached) noexcept {
    const std::uint32_t unused = posted_credits - attached;
    if (buffer.credits.fetch_sub(unused, std::memory_order_acq_rel) != unused) return false;
    buffer.credits.store(posted_credits, std::memory_order_relaxed);
    return true;
}

/// `left`: credits after `count` packets were freed; below 0 if the buffer is split up.
void StridePool::last_freed(WqeBuffer* buffer, std::uint32_t left, std::uint32_t count) noexcept {
    if (left == 0) return bring_home(buffer);
    StridePool* const pool = buffer->pool;
    pool->bind_->give_back_home(*buffer);
    if (buffer->out.fetch_sub(count, std::memory_order_acq_rel) == count) pool->let_go();
}

void StridePool::bring_home(WqeBuffer* buffer) noexcept {
    StridePool* pool = buffer->pool;
    buffer->credits.store(posted_credits, std::memory_order_relaxed);
    // Only the receiving thread pops, and it takes the whole stack: no ABA.
    WqeBuffer* top = pool->home_.load(std::memory_order_relaxed);
    do {
        buffer->next_home = top;
    } while (!pool->home_.compare_exchange_weak(top, buffer, std::memory_order_seq_cst,
                                                std::memory_order_relaxed));
    if (pool->orphaned_.load()) pool->return_homecomers();
    pool->let_go();
}

void StridePool::collect() noexcept {
    if (bind_ != nullptr) return collect_stack();
    add_spare(waiting_.find_some_home());
    if (spare_count_ == 0 && waiting_.search_is_due()) add_spare(waiting_.find_all_home());
}

void StridePool::collect_all() noexcept {
    if (bind_ != nullptr) return collect_stack();
    add_spare(waiting_.find_all_home());
}

/// A chain of the waiting list's: the newest is last, and taken first.
void StridePool::add_spare(WqeBuffer* found) noexcept {
    std::uint32_t count = 0;
    for (; found != nullptr; found = found->newer, ++count)
        spare_[spare_count_++] = found;
    if (count != 0) away_.fetch_sub(count, std::memory_order_relaxed);
}

void StridePool::collect_stack() noexcept {
    WqeBuffer* buffer = home_.exchange(nullptr, std::memory_order_acquire);
    // The stack's top came home last and is taken first: it goes on top of the spare ones, so reverse.
    WqeBuffer* reversed = nullptr;
    while (buffer != nullptr) {
        WqeBuffer* next = buffer->next_home;
        buffer->next_home = reversed;
        reversed = buffer;
        buffer = next;
    }
    for (; reversed != nullptr; reversed = reversed->next_home)
        spare_[spare_count_++] = reversed;
}

} // namespace stride::mprq
