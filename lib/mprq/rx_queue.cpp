// SPDX-License-Identifier: BSD-3-Clause
/// Creation, start, stop and counters of a receive queue.
#include "mprq/rx_queue.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "mlx5/mini_cqe.hpp"
#include "mprq/rx_state.hpp"

#include <rte_malloc.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace stride::mprq {
namespace {

constexpr std::size_t cache_line_bytes = 64;
constexpr std::uint32_t max_shift_bytes = 2; // two_byte_shift

bool is_pinned(const RxQueueConfig& config) {
    return (rte_pktmbuf_priv_flags(config.pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0;
}

} // namespace

std::uint32_t room_of(const RxQueueConfig& config) noexcept {
    if (config.pool == nullptr) return 0;
    const std::uint32_t data_room = rte_pktmbuf_data_room_size(config.pool);
    return data_room > RTE_PKTMBUF_HEADROOM ? data_room - RTE_PKTMBUF_HEADROOM : 0;
}

RxQueueState* allocate_state(const RxQueueConfig& config, QueueKind kind) {
    void* place = rte_zmalloc_socket("rx_queue", sizeof(RxQueueState), cache_line_bytes, config.socket_id);
    if (place == nullptr) return nullptr;
    auto* queue = new (place) RxQueueState;
    queue->kind = kind;
    queue->config = config;
    queue->room_bytes = room_of(config);
    RxHot& hot = queue->hot;
    hot.reserve = queue->reserve;
    hot.max_frame_bytes = config.max_frame_bytes;
    hot.rearm = {RTE_PKTMBUF_HEADROOM, 1, 1, config.port_id};
    hot.copy_flags = is_pinned(config) ? RTE_MBUF_F_EXTERNAL : 0;
    return queue;
}

Error no_queue_memory(const RxQueueConfig& config) {
    return Error{ENOMEM, strprintf("port %u rxq %u: no memory on socket %d", config.port_id, config.queue_id,
                                   config.socket_id)};
}

namespace {

Error invalid(const RxQueueConfig& config, const std::string& why) {
    return Error{EINVAL, strprintf("port %u rxq %u: %s", config.port_id, config.queue_id, why.c_str())};
}

Status check_pool(const RxQueueConfig& config) {
    if (config.pool == nullptr) return invalid(config, "no mbuf pool");
    if (room_of(config) == 0)
        return invalid(config, strprintf("pool %s: mbufs of %u bytes have no room behind the headroom of %u",
                                         config.pool->name, rte_pktmbuf_data_room_size(config.pool),
                                         RTE_PKTMBUF_HEADROOM));
    return {};
}

Status check_striding(const RxQueueConfig& config, const Geometry& shape, const mlx5::CqRing& cq,
                      const mlx5::RqRing& rq) {
    if (rq.size.entries() != shape.wqes() || rq.log_wqe_bytes < 5)
        return invalid(config,
                       strprintf("the WQ has %u WQEs of %u bytes, the geometry needs %u of 32 at least",
                                 rq.size.entries(), 1U << rq.log_wqe_bytes, shape.wqes()));
    if (cq.size.entries() < shape.cq_entries())
        return invalid(config, strprintf("a CQ of %u entries can overrun, %u are needed", cq.size.entries(),
                                         shape.cq_entries()));
    if (config.max_frame_bytes == 0 || config.max_frame_bytes > shape.max_frame_bytes)
        return invalid(config, strprintf("frames of %u bytes, planned for %u", config.max_frame_bytes,
                                         shape.max_frame_bytes));
    if (config.compressed && config.offloads.has(RxOffload::timestamp))
        return invalid(config, "mini-CQEs have no timestamp");
    if (config.owner.register_memory == nullptr) return invalid(config, "the owner cannot register memory");
    const std::uint32_t room = room_of(config);
    const bool copies = config.always_copy || is_pinned(config);
    if (copies && !config.scatter && config.max_frame_bytes > room)
        return invalid(
            config, strprintf("all packets are copied, frames have up to %u bytes and mbufs of pool %s hold "
                              "%u: enable scatter or give larger mbufs",
                              config.max_frame_bytes, config.pool->name, room));
    return {};
}

void choose_policy(RxQueueState& queue) {
    const RxQueueConfig& config = queue.config;
    queue.always_copy = config.always_copy || is_pinned(config);
    if (!queue.always_copy && !queue.striding.pool->iova_contiguous()) {
        queue.always_copy = true;
        log_line(LogLevel::warning,
                 "port %u rxq %u: WQE buffers are not contiguous for IOVA as PA: all packets are copied",
                 config.port_id, config.queue_id);
    }
    if (queue.always_copy) queue.hot.copy_threshold_bytes = 0;
    queue.hot.headroom_bytes = std::min<std::uint32_t>(config.headroom_bytes, RTE_PKTMBUF_HEADROOM);
}

Status start_striding(RxQueueState& queue) {
    StridingRing& ring = queue.striding;
    for (std::uint32_t slot = 0; slot < ring.rq.size.entries(); ++slot)
        mlx5::prepare_striding_wqe(ring.rq, slot, ring.geometry.wqe_bytes(), ring.pool->lkey());
    ring.pool->collect_all();
    for (std::uint32_t slot = 0; slot < ring.geometry.posted_wqes(); ++slot) {
        WqeBuffer* buffer = ring.pool->take();
        if (buffer == nullptr) // cannot be: buffers held are never more than the spare ones
            return Error{ENOBUFS, strprintf("port %u rxq %u: %u of %u WQE buffers are held by packets",
                                            queue.config.port_id, queue.config.queue_id, ring.pool->away(),
                                            ring.pool->buffers())};
        ring.pool->mark_posted();
        ring.posted[slot] = buffer;
        mlx5::set_striding_address(*mlx5::striding_wqe(ring.rq, slot), buffer->strides);
    }
    ring.ci = 0;
    ring.pi = ring.geometry.posted_wqes();
    queue.hot.wqes_due = ring.pi;
    enter_wqe(queue);
    ring_due_doorbells(queue);
    return {};
}

void stop_striding(RxQueueState& queue) noexcept {
    StridingRing& ring = queue.striding;
    RxHot& hot = queue.hot;
    for (std::uint32_t slot = 0; slot < ring.rq.size.entries(); ++slot) {
        WqeBuffer* buffer = std::exchange(ring.posted[slot], nullptr);
        if (buffer == nullptr) continue;
        if (queue.bound != nullptr) {
            // What nobody polled may have been long.
            const std::uint32_t seen = buffer == hot.buffer ? hot.consumed : 0;
            queue.bound->repair(*buffer, seen, hot.map.strides() - seen);
        }
        if (buffer != hot.buffer || hot.attached == 0 || ring.pool->settle(buffer, hot.attached))
            ring.pool->unpost(buffer);
    }
    if (hot.replacement != nullptr) ring.pool->give_back(std::exchange(hot.replacement, nullptr));
    hot.buffer = nullptr;
    hot.attached = 0;
}

void give_back_reserve(RxQueueState& queue) noexcept {
    RxHot& hot = queue.hot;
    if (hot.reserved != 0)
        rte_mempool_put_bulk(queue.config.pool, reinterpret_cast<void**>(hot.reserve), hot.reserved);
    hot.reserved = 0;
}

} // namespace

namespace {

/// Of the mbufs at home, what a queue may claim: some are left to copy into, and for the application to send.
std::uint32_t claimable_buffers(const RxQueueConfig& config, const Geometry& geometry) {
    const std::uint32_t home = rte_mempool_avail_count(config.pool);
    const std::uint32_t most = (home - home / 8) / (geometry.strides_per_wqe() + 1);
    return std::clamp(most, geometry.posted_wqes(), geometry.buffers());
}

StridePoolConfig stride_pool_config(const RxQueueConfig& config, const Geometry& geometry) {
    return {.buffers = geometry.buffers(),
            .wqe_bytes = geometry.wqe_bytes(),
            .strides_per_wqe = geometry.strides_per_wqe(),
            .headroom_bytes = RTE_PKTMBUF_HEADROOM,
            .socket_id = config.socket_id,
            .owner = config.owner};
}

/// Makes the WQE buffers of the application's mbufs, if it can be; false: not, and the log says why.
bool bind_buffers(RxQueueState& queue) {
    const RxQueueConfig& config = queue.config;
    StridingRing& ring = queue.striding;
    const BindFit fit = RxQueue::bind_fit(config);
    std::string why = fit.why;
    if (fit.stride_bytes == 0 && why.empty()) return false; // nobody asked
    if (fit.stride_bytes != 0 && fit.stride_bytes != ring.geometry.stride_bytes()) {
        why = strprintf("strides of %u bytes asked for, its mbufs have %u", ring.geometry.stride_bytes(),
                        fit.stride_bytes);
    } else if (fit.stride_bytes != 0) {
        BindPool& pool = *BindPool::of(config.pool);
        StridePoolConfig wanted = stride_pool_config(config, ring.geometry);
        wanted.buffers = claimable_buffers(config, ring.geometry);
        Result<StridePool*> made = StridePool::create_bound(wanted, pool, ring.geometry.posted_wqes());
        if (made) {
            ring.pool = made.value();
            queue.bound = &pool;
            queue.hot.bound_head_bytes = pool.layout().head_bytes;
            queue.hot.bound_colour_mask_bytes = pool.layout().colour_mask * BindLayout::colour_bytes;
            return true;
        }
        why = made.error().what;
    }
    log_line(LogLevel::notice, "port %u rxq %u: packets are attached, not bound to mbufs of pool %s: %s",
             config.port_id, config.queue_id, config.pool->name, why.c_str());
    return false;
}

Status make_buffers(RxQueueState& queue) {
    const bool bound = bind_buffers(queue);
    RxHot& hot = queue.hot;
    const std::uint32_t threshold = queue.config.copy_threshold_bytes.value_or(
        bound ? RxQueueConfig::copy_threshold_bound_bytes : RxQueueConfig::copy_threshold_attached_bytes);
    hot.copy_threshold_bytes = std::min(threshold, queue.room_bytes & -copy_block_bytes);
    if (bound) return {};
    StridePoolConfig config = stride_pool_config(queue.config, queue.striding.geometry);
    // Where one attached packet starts, none of the next `needed - 1` strides starts another.
    const std::uint32_t needed = hot.map.needed(hot.copy_threshold_bytes + 1);
    hot.log_strides_per_share =
        std::min(static_cast<std::uint32_t>(std::bit_width(needed)) - 1, queue.striding.geometry.log_strides);
    config.shares_per_wqe = config.strides_per_wqe >> hot.log_strides_per_share;
    hot.stride_a_packet =
        hot.log_strides_per_share == 0 &&
        hot.max_frame_bytes + hot.map.shift_bytes() + RTE_PKTMBUF_HEADROOM <= hot.map.stride_bytes();
    Result<StridePool*> pool = StridePool::create(config);
    if (!pool) return pool.take_error();
    queue.striding.pool = pool.value();
    return {};
}

} // namespace

BindFit RxQueue::bind_fit(const RxQueueConfig& config) {
    const BindPool* pool = config.pool != nullptr ? BindPool::of(config.pool) : nullptr;
    if (pool == nullptr || config.always_copy) return {};
    const BindLayout& layout = pool->layout();
    if (config.max_frame_bytes + max_shift_bytes > layout.frame_bytes)
        return {0, strprintf("frames have up to %u bytes, its mbufs hold %u", config.max_frame_bytes,
                             layout.frame_bytes)};
    return {layout.pitch_bytes(), {}};
}

Result<RxQueuePtr> RxQueue::create_striding(const RxQueueConfig& config, const Geometry& geometry,
                                            const mlx5::CqRing& cq, const mlx5::RqRing& rq) {
    if (Status valid = check_pool(config); !valid) return valid.take_error();
    if (Status valid = check_striding(config, geometry, cq, rq); !valid) return valid.take_error();
    RxQueuePtr owner{allocate_state(config, QueueKind::striding)};
    if (!owner) return no_queue_memory(config);
    RxQueueState& queue = state_of(*owner);
    queue.hot.cq = mlx5::CqCursor{cq};
    queue.hot.map = mlx5::StrideMap{geometry.log_stride_bytes, geometry.log_strides, geometry.two_byte_shift};
    queue.hot.limits = mlx5::QuadLimits::of(queue.hot.map, config.max_frame_bytes);
    StridingRing& ring = queue.striding;
    ring.rq = rq;
    ring.geometry = geometry;
    ring.posted = static_cast<WqeBuffer**>(rte_zmalloc_socket(
        "rx_queue", geometry.wqes() * sizeof(WqeBuffer*), cache_line_bytes, config.socket_id));
    if (ring.posted == nullptr) return no_queue_memory(config);
    if (Status made = make_buffers(queue); !made) return made.take_error();
    choose_policy(queue);
    return owner;
}

void RxQueueDelete::operator()(RxQueue* queue) const noexcept {
    RxQueueState& state = state_of(*queue);
    queue->stop();
    if (state.striding.pool != nullptr) state.striding.pool->release();
    rte_free(state.striding.posted);
    rte_free(state.single.mbufs);
    state.~RxQueueState();
    rte_free(queue);
}

Status RxQueue::start() {
    RxQueueState& queue = state_of(*this);
    if (queue.started) return {};
    queue.hot.broken = false;
    queue.retry_polls = 0;
    queue.started = true; // so that stop() undoes a start that failed half-way
    Status status = queue.kind == QueueKind::striding ? start_striding(queue) : start_single_packet(queue);
    if (!status) stop();
    return status;
}

void RxQueue::stop() noexcept {
    RxQueueState& queue = state_of(*this);
    if (!queue.started) return;
    queue.counters.discarded_at_stop.add(drain_completions(queue));
    if (queue.kind == QueueKind::striding)
        stop_striding(queue);
    else
        stop_single_packet(queue);
    give_back_reserve(queue);
    queue.hot.broken = false; // a poll finds nothing, and recovers nothing
    queue.started = false;
}

// Chosen anew at each call: the process that asks need not be the one that made the queue.
RxBurst RxQueue::burst() const noexcept {
    const RxQueueState& queue = state_of(*this);
    const RxOffloads offloads = queue.config.offloads;
    if (queue.kind != QueueKind::striding) return select_single_packet_burst(offloads);
    return queue.bound != nullptr ? select_bound_burst(offloads) : select_attach_burst(offloads);
}

void enter_shared_calls() noexcept { StridePool::enter_shared_calls(); }
void free_buffers_of_the_gone() noexcept { StridePool::reap(); }

const RxQueueConfig& RxQueue::config() const noexcept { return state_of(*this).config; }

std::uint16_t RxQueue::descriptors() const noexcept {
    const RxQueueState& queue = state_of(*this);
    if (queue.kind == QueueKind::striding) return queue.striding.geometry.descriptors();
    return static_cast<std::uint16_t>(std::min(queue.single.rq.size.entries(), 65535U));
}

const Geometry* RxQueue::geometry() const noexcept {
    const RxQueueState& queue = state_of(*this);
    return queue.kind == QueueKind::striding ? &queue.striding.geometry : nullptr;
}

const char* RxQueue::policy() const noexcept {
    const RxQueueState& queue = state_of(*this);
    if (queue.kind == QueueKind::single_packet) return "single-packet";
    if (queue.always_copy) return "copy";
    return queue.bound != nullptr ? "bind" : "attach";
}

void RxQueue::watch_spare(std::uint32_t percent) noexcept {
    RxQueueState& queue = state_of(*this);
    if (queue.kind != QueueKind::striding) return;
    const std::uint32_t spare = queue.striding.pool->buffers() - queue.striding.geometry.posted_wqes();
    queue.spare_low.store(div_round_up(spare * percent, 100U), std::memory_order_relaxed);
}

namespace {

bool is_ready_packet(const RxQueueState& queue, const mlx5_cqe64& cqe) noexcept {
    const bool filler = queue.kind == QueueKind::striding && mlx5::striding_byte_count(cqe).filler();
    return !filler && !mlx5::is_error(cqe.op_own);
}

/// Packets completed, up to `limit`.
std::uint32_t count_ready(const RxQueueState& queue, std::uint32_t limit) noexcept {
    std::uint32_t packets = 0;
    const mlx5::CqCursor& cq = queue.hot.cq;
    for (std::uint32_t ahead = 0; ahead < cq.size().entries() && packets < limit; ++ahead) {
        const mlx5_cqe64* cqe = cq.poll(ahead);
        if (cqe == nullptr) break;
        if (queue.config.compressed && mlx5::is_compressed(cqe->op_own)) {
            // Only packets are compressed. A count of more than the rest of the ring is wrong; the burst will
            // deal with it.
            const std::uint32_t count =
                std::clamp(mlx5::compressed_count(*cqe), 1U, cq.size().entries() - ahead);
            packets += std::min(count, limit - packets);
            ahead += count - 1;
            continue;
        }
        if (is_ready_packet(queue, *cqe)) ++packets;
    }
    return packets;
}

} // namespace

std::uint32_t RxQueue::completion_index() const noexcept { return state_of(*this).hot.cq.ci(); }

std::uint32_t RxQueue::ready_packets() const noexcept { return count_ready(state_of(*this), UINT32_MAX); }

DescriptorStatus RxQueue::descriptor_status(std::uint16_t offset) const noexcept {
    if (offset >= descriptors()) return DescriptorStatus::out_of_range;
    const std::uint32_t wanted = offset + 1U;
    return count_ready(state_of(*this), wanted) == wanted ? DescriptorStatus::done
                                                          : DescriptorStatus::available;
}

} // namespace stride::mprq
