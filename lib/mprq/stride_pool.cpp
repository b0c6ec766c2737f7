// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/stride_pool.hpp"

#include "base/format.hpp"
#include "base/ring.hpp"

#include <rte_eal.h>
#include <rte_malloc.h>

#include <new>

namespace stride::mprq {
namespace {

constexpr std::size_t cache_line_bytes = 64;
std::atomic<std::uint32_t> pools_alive{0};

template <class T>
T* allocate(std::size_t count, int socket_id) {
    return static_cast<T*>(rte_zmalloc_socket("stride_pool", count * sizeof(T), cache_line_bytes, socket_id));
}

/// IOVA as PA: whether [base, base + bytes) is one range for a device without an IOMMU.
bool one_iova_range(const std::byte* base, std::size_t bytes) {
    if (rte_eal_iova_mode() != RTE_IOVA_PA) return true;
    constexpr std::size_t page_bytes = 4096;
    const rte_iova_t first = rte_mem_virt2iova(base);
    for (std::size_t offset = 0; offset < bytes; offset += page_bytes)
        if (rte_mem_virt2iova(base + offset) != first + offset) return false;
    return first != RTE_BAD_IOVA;
}

} // namespace

Result<StridePool*> StridePool::create(const StridePoolConfig& config) {
    void* place = rte_zmalloc_socket("stride_pool", sizeof(StridePool), cache_line_bytes, config.socket_id);
    if (place == nullptr) return Error{ENOMEM, "stride pool: no memory"};
    pools_alive.fetch_add(1, std::memory_order_relaxed);
    auto* pool = new (place) StridePool;
    if (!pool->lay_out(config)) {
        pool->destroy();
        return Error{ENOMEM, strprintf("stride pool: no memory for %u WQE buffers of %u bytes on socket %d",
                                       config.buffers, config.wqe_bytes, config.socket_id)};
    }
    Result<RegisteredMemory> registered =
        config.owner.register_memory(config.owner.context, pool->data_, config.buffers * pool->pitch_bytes_);
    if (!registered) {
        pool->destroy();
        return registered.take_error();
    }
    pool->memory_ = std::move(registered).value();
    return pool;
}

bool StridePool::lay_out(const StridePoolConfig& config) {
    // Headroom before each buffer also keeps the buffers from starting at the same cache set.
    pitch_bytes_ = align_up(std::size_t{config.headroom_bytes}, cache_line_bytes) + config.wqe_bytes;
    data_ = allocate<std::byte>(config.buffers * pitch_bytes_, config.socket_id);
    buffers_ = allocate<WqeBuffer>(config.buffers, config.socket_id);
    shares_ = allocate<StrideShare>(std::size_t{config.buffers} * config.strides_per_wqe, config.socket_id);
    spare_ = allocate<WqeBuffer*>(config.buffers, config.socket_id);
    if (data_ == nullptr || buffers_ == nullptr || shares_ == nullptr || spare_ == nullptr) return false;
    buffer_count_ = config.buffers;
    for (std::uint32_t n = config.buffers; n-- > 0;) {
        lay_out_buffer(buffers_[n], config, n);
        spare_[spare_count_++] = &buffers_[n];
    }
    return true;
}

void StridePool::lay_out_buffer(WqeBuffer& buffer, const StridePoolConfig& config, std::uint32_t index) {
    std::byte* start = data_ + index * pitch_bytes_;
    new (&buffer) WqeBuffer;
    buffer.credits.store(posted_credits, std::memory_order_relaxed);
    buffer.pool = this;
    buffer.strides = start + (pitch_bytes_ - config.wqe_bytes);
    buffer.iova = rte_mem_virt2iova(buffer.strides);
    iova_contiguous_ = iova_contiguous_ && one_iova_range(start, pitch_bytes_);
    buffer.shares = shares_ + std::size_t{index} * config.strides_per_wqe;
    for (std::uint32_t n = 0; n < config.strides_per_wqe; ++n) {
        StrideShare& share = buffer.shares[n];
        share.info.free_cb = packet_freed;
        share.info.fcb_opaque = &share;
        rte_mbuf_ext_refcnt_set(&share.info, 1);
        share.buffer = &buffer;
    }
}

void StridePool::destroy() noexcept {
    void* const parts[] = {data_, buffers_, shares_, spare_};
    this->~StridePool(); // deregisters, while the memory is still there
    for (void* part : parts)
        rte_free(part);
    rte_free(this);
    pools_alive.fetch_sub(1, std::memory_order_relaxed);
}

std::uint32_t StridePool::alive() noexcept { return pools_alive.load(std::memory_order_relaxed); }

void StridePool::packet_freed(void*, void* share_of_packet) noexcept {
    auto* share = static_cast<StrideShare*>(share_of_packet);
    rte_mbuf_ext_refcnt_set(&share->info, 1);
    WqeBuffer* buffer = share->buffer;
    if (buffer->credits.fetch_sub(1, std::memory_order_acq_rel) == 1) bring_home(buffer);
}

void StridePool::bring_home(WqeBuffer* buffer) noexcept {
    StridePool* pool = buffer->pool;
    buffer->credits.store(posted_credits, std::memory_order_relaxed);
    // Only the receiving thread pops, and it takes the whole stack: no ABA.
    WqeBuffer* top = pool->home_.load(std::memory_order_relaxed);
    do {
        buffer->next_home = top;
    } while (!pool->home_.compare_exchange_weak(top, buffer, std::memory_order_release,
                                                std::memory_order_relaxed));
    pool->let_go();
}

void StridePool::collect() noexcept {
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
