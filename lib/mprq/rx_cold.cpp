// SPDX-License-Identifier: BSD-3-Clause
/// What a striding burst calls when something is not the usual: no mbufs, no spare buffer, an odd completion,
/// the end of a WQE, a queue in error.
#include "mlx5/mini_cqe.hpp"
#include "mprq/rx_state.hpp"

#include <rte_memcpy.h>

#include <algorithm>
#include <utility>

namespace stride::mprq {

/// Mbufs to copy into. Of a bound pool not from the lcore's cache: bound ones in there would go round and
/// round, and keep their WQE buffers from home.
static bool get_mbufs(const RxQueueState& queue, rte_mbuf** mbufs, std::uint32_t count) noexcept {
    void** const objects = reinterpret_cast<void**>(mbufs);
    return (queue.bound != nullptr ? BindPool::dequeue(queue.config.pool, objects, count)
                                   : rte_mempool_get_bulk(queue.config.pool, objects, count)) == 0;
}

bool refill_reserve(RxQueueState& queue) noexcept {
    RxHot& hot = queue.hot;
    std::uint32_t want = reserve_size - hot.reserved;
    while (want != 0) {
        if (!get_mbufs(queue, hot.reserve + hot.reserved, want)) {
            want /= 2;
            continue;
        }
        hot.reserved += want;
        want = std::min(want, reserve_size - hot.reserved);
    }
    if (hot.reserved == 0) queue.counters.mbuf_shortages.add(1);
    return hot.reserved != 0;
}

/// The application keeps more and more: its last chance before packets are copied.
[[gnu::cold]] static void tell_spare_low(RxQueueState& queue) noexcept {
    const RxQueueOwner& owner = queue.config.owner;
    StridePool& pool = *queue.striding.pool;
    pool.collect_all();
    if (pool.spare() >= queue.spare_low.load(std::memory_order_relaxed)) return;
    if (queue.spare_low.exchange(0, std::memory_order_relaxed) != 0 && owner.spare_low != nullptr)
        owner.spare_low(owner.context);
}

void find_replacement(RxQueueState& queue) noexcept {
    if (queue.always_copy) return;
    StridePool& pool = *queue.striding.pool;
    queue.hot.replacement = pool.take();
    if (pool.spare() < queue.spare_low.load(std::memory_order_relaxed)) [[unlikely]]
        tell_spare_low(queue);
}

namespace {

/// Copies `bytes` into `m` and as many more mbufs of the pool as it takes, straight from the pool: the
/// reserve is for first segments.
bool scatter(RxQueueState& queue, rte_mbuf* m, const std::byte* data, std::uint32_t bytes) noexcept {
    const std::uint32_t room = queue.room_bytes;
    rte_mbuf* tail[max_scatter_segments];
    const std::uint32_t tail_count = div_round_up(bytes, room) - 1;
    if (tail_count > max_scatter_segments || !get_mbufs(queue, tail, tail_count)) {
        queue.counters.dropped_no_mbuf.add(1);
        return false;
    }
    rte_mbuf* segment = m;
    for (std::uint32_t n = 0;; ++n) {
        const std::uint32_t part = std::min(bytes, room);
        rearm_mbuf(segment, queue.hot.rearm);
        segment->data_len = static_cast<std::uint16_t>(part);
        rte_memcpy(rte_pktmbuf_mtod(segment, void*), data, part);
        data += part;
        bytes -= part;
        if (n == tail_count) break;
        segment->next = tail[n];
        segment = tail[n];
        segment->ol_flags = queue.hot.copy_flags;
    }
    m->nb_segs = static_cast<std::uint16_t>(tail_count + 1);
    queue.counters.scattered.add(1);
    return true;
}

void count_reason(RxQueueState& queue) noexcept {
    if (queue.always_copy)
        queue.counters.copied_asked.add(1);
    else if (queue.hot.replacement == nullptr)
        queue.counters.copied_no_spare.add(1);
    else
        queue.counters.copied_no_headroom.add(1);
}

} // namespace

bool copy_instead(RxQueueState& queue, rte_mbuf* m, const std::byte* data, std::uint32_t bytes) noexcept {
    if (bytes <= queue.room_bytes) {
        rearm_mbuf(m, queue.hot.rearm);
        rte_memcpy(rte_pktmbuf_mtod(m, void*), data, bytes);
    } else if (!queue.config.scatter) {
        queue.counters.dropped_no_room.add(1);
        return false;
    } else if (!scatter(queue, m, data, bytes)) {
        return false;
    }
    count_reason(queue);
    return true;
}

void enter_wqe(RxQueueState& queue) noexcept {
    RxHot& hot = queue.hot;
    StridingRing& ring = queue.striding;
    hot.buffer = ring.posted[ring.rq.size.slot(ring.ci)];
    hot.strides = hot.buffer->strides;
    if (queue.bound != nullptr)
        hot.home = hot.buffer->home;
    else
        hot.shares = hot.buffer->shares;
    hot.iova = hot.buffer->iova;
    hot.used_end = hot.strides - RTE_PKTMBUF_HEADROOM;
    hot.consumed = 0;
    hot.attached = 0;
}

/// The buffer to post in place of the current one: itself, if no packet holds it, else the replacement.
static WqeBuffer* next_buffer(RxQueueState& queue) noexcept {
    RxHot& hot = queue.hot;
    if (hot.attached == 0 || queue.striding.pool->settle(hot.buffer, hot.attached)) return hot.buffer;
    queue.striding.pool->mark_posted();
    return std::exchange(hot.replacement, nullptr); // there is one, or nothing would have been attached
}

/// Puts `buffer` into the next free slot of the ring.
static void post(StridingRing& ring, WqeBuffer* buffer) noexcept {
    const std::uint32_t slot = ring.rq.size.slot(ring.pi++);
    ring.posted[slot] = buffer;
    mlx5::set_striding_address(*mlx5::striding_wqe(ring.rq, slot), buffer->strides);
}

void finish_wqe(RxQueueState& queue) noexcept {
    StridingRing& ring = queue.striding;
    WqeBuffer* next = next_buffer(queue);
    ring.posted[ring.rq.size.slot(ring.ci++)] = nullptr;
    post(ring, next);
    ++queue.hot.wqes_due;
    enter_wqe(queue);
}

void ring_due_doorbells(RxQueueState& queue) noexcept {
    // CQEs first: the CQ is sized for the strides posted, so room must be there before strides are.
    queue.hot.cq.publish();
    mlx5::ring_receive_doorbell(queue.striding.rq.dbrec, queue.striding.pi);
    queue.counters.wqes_posted.add(queue.hot.wqes_due);
    queue.counters.doorbells.add(2);
    queue.hot.wqes_due = 0;
}

bool retry_is_due(RxQueueState& queue) noexcept { return --queue.polls_to_retry == 0; }

void note_recovery(RxQueueState& queue) noexcept {
    if (!queue.hot.broken) {
        queue.retry_polls = 0;
        return;
    }
    constexpr std::uint32_t first_retry_polls = 256, last_retry_polls = 1U << 20;
    queue.counters.failed_recoveries.add(1);
    queue.retry_polls = std::clamp(2 * queue.retry_polls, first_retry_polls, last_retry_polls);
    queue.polls_to_retry = queue.retry_polls;
}

bool expand_completions(RxQueueState& queue, const mlx5_cqe64& title) noexcept {
    if (!queue.config.compressed || !mlx5::is_compressed(title.op_own)) return false;
    const std::uint32_t count = mlx5::compressed_count(title);
    // Errors never come compressed; whoever claims so is not believed.
    const bool possible = mlx5::opcode_of(title.op_own) == MLX5_CQE_RESP_SEND && count != 0 &&
                          count <= queue.hot.cq.size().entries();
    if (possible) {
        if (queue.config.offloads.has(RxOffload::rss_hash))
            mlx5::expand_block<mlx5::HashMiniCqe>(queue.hot.cq, count);
        else
            mlx5::expand_block<mlx5::StrideMiniCqe>(queue.hot.cq, count);
        queue.counters.compressed.add(count);
    }
    return possible;
}

std::uint32_t drain_completions(RxQueueState& queue) noexcept {
    std::uint32_t packets = 0;
    const bool striding = queue.kind == QueueKind::striding;
    while (const mlx5_cqe64* cqe = queue.hot.cq.poll()) {
        if (expand_completions(queue, *cqe)) continue;
        const bool filler = striding && mlx5::striding_byte_count(*cqe).filler();
        if (!filler && mlx5::is_plain_receive(cqe->op_own)) ++packets;
        queue.hot.cq.consume();
    }
    queue.hot.cq.publish();
    return packets;
}

namespace {

/// Moves over a completion that hands nothing over.
void pass(RxQueueState& queue, mlx5::StrideRange range) noexcept {
    queue.hot.cq.consume();
    queue.hot.consumed = range.end();
    if (queue.hot.map.finishes(range)) finish_wqe(queue);
}

/// A frame longer than an mbuf may have run over the headers of the mbufs behind its first stride.
void repair_headers(RxQueueState& queue, mlx5::StrideRange range) noexcept {
    if (queue.bound != nullptr) queue.bound->repair(*queue.hot.buffer, range.first, range.count);
}

/// After RESET: all buffers of the ring once more, from index 0.
void post_afresh(RxQueueState& queue) noexcept {
    StridingRing& ring = queue.striding;
    // Posted ones are at ci and behind, without a gap.
    std::rotate(ring.posted, ring.posted + ring.rq.size.slot(ring.ci), ring.posted + ring.rq.size.entries());
    const std::uint32_t count = ring.geometry.posted_wqes();
    ring.ci = 0;
    ring.pi = 0;
    for (std::uint32_t n = 0; n < count; ++n) {
        WqeBuffer* const buffer = ring.posted[n];
        // The first is the current one, and seen to, or its replacement.
        if (queue.bound != nullptr && n != 0) queue.bound->repair(*buffer, 0, queue.hot.map.strides());
        post(ring, buffer);
    }
    queue.hot.wqes_due = count;
}

/// Takes the queue through RESET. Packets handed over stay valid; completions behind the fault are lost, and
/// counted in `lost`. All WQEs are posted afresh, from index 0.
bool recover(RxQueueState& queue, Counter& lost) noexcept {
    const RxQueueOwner& owner = queue.config.owner;
    StridingRing& ring = queue.striding;
    RxHot& hot = queue.hot;
    queue.counters.recoveries.add(1);
    queue.hot.broken = owner.reset_wq == nullptr || !owner.reset_wq(owner.context);
    if (!queue.hot.broken) {
        lost.add(drain_completions(queue));
        // What was lost may have been long.
        repair_headers(queue, {hot.consumed, hot.map.strides() - hot.consumed});
        ring.posted[ring.rq.size.slot(ring.ci)] = next_buffer(queue);
        post_afresh(queue);
        enter_wqe(queue);
        ring_due_doorbells(queue);
        queue.hot.broken = owner.ready_wq == nullptr || !owner.ready_wq(owner.context);
    }
    note_recovery(queue);
    return false; // what comes now is for the next burst
}

bool skip_error(RxQueueState& queue, const mlx5_cqe64& cqe, mlx5::StrideRange range) noexcept {
    const std::uint8_t syndrome = mlx5::syndrome(cqe);
    if (syndrome != MLX5_CQE_SYNDROME_WR_FLUSH_ERR) queue.counters.dropped_error.add(1);
    if (mlx5::stops_queue(syndrome)) return recover(queue, queue.counters.dropped_error);
    if (range.count == 0) {
        queue.hot.cq.consume();
        return true;
    }
    if (!queue.hot.map.possible(range, queue.hot.consumed))
        return recover(queue, queue.counters.dropped_error);
    repair_headers(queue, range);
    pass(queue, range);
    return true;
}

} // namespace

bool retry_recovery(RxQueueState& queue) noexcept {
    if (!retry_is_due(queue)) return false;
    return recover(queue, queue.counters.dropped_error);
}

bool skip_completion(RxQueueState& queue, const mlx5_cqe64& cqe) noexcept {
    if (queue.hot.broken) return retry_recovery(queue);
    if (expand_completions(queue, cqe)) return true;
    const mlx5::StridingByteCount count = mlx5::striding_byte_count(cqe);
    const mlx5::StrideRange range{mlx5::wqe_counter(cqe), count.strides()};
    const bool possible = queue.hot.map.possible(range, queue.hot.consumed);
    if (mlx5::is_error(cqe.op_own) && mlx5::format_of(cqe.op_own) == mlx5::CqeFormat::plain)
        return skip_error(queue, cqe, range);
    if (!mlx5::is_plain_receive(cqe.op_own)) queue.counters.dropped_bad_cqe.add(1);
    if (!mlx5::is_plain_receive(cqe.op_own) || !possible)
        return recover(queue, queue.counters.dropped_bad_cqe);
    if (count.filler()) {
        queue.counters.fillers.add(1);
        queue.counters.filler_strides.add(range.count);
        pass(queue, range);
        return true;
    }
    if (!queue.hot.map.holds(range, count.bytes())) return recover(queue, queue.counters.dropped_bad_cqe);
    queue.counters.dropped_oversize.add(1);
    repair_headers(queue, range);
    pass(queue, range);
    return true;
}

} // namespace stride::mprq
