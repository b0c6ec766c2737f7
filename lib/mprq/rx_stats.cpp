// SPDX-License-Identifier: BSD-3-Clause
/// Counters of a receive queue, as its owner reads them.
#include "mprq/rx_state.hpp"

namespace stride::mprq {
namespace {

RxStats read_counters(const RxQueueState& queue) noexcept {
    const RxHot& hot = queue.hot;
    const RxCounters& counters = queue.counters;
    RxStats stats;
    stats.packets = hot.packets.read();
    stats.bytes = hot.bytes.read();
    stats.attached = hot.attached_packets.read();
    stats.direct = queue.kind == QueueKind::single_packet ? stats.packets : 0;
    stats.copied_short = hot.copied_short.read();
    stats.copied_no_spare = counters.copied_no_spare.read();
    stats.copied_no_headroom = counters.copied_no_headroom.read();
    stats.copied_asked = counters.copied_asked.read();
    stats.scattered = counters.scattered.read();
    stats.fillers = counters.fillers.read();
    stats.filler_strides = counters.filler_strides.read();
    stats.wqes_posted = counters.wqes_posted.read();
    stats.doorbells = counters.doorbells.read();
    stats.dropped_no_mbuf = counters.dropped_no_mbuf.read();
    stats.dropped_oversize = counters.dropped_oversize.read();
    stats.dropped_no_room = counters.dropped_no_room.read();
    stats.dropped_error = counters.dropped_error.read();
    stats.dropped_bad_cqe = counters.dropped_bad_cqe.read();
    stats.discarded_at_stop = counters.discarded_at_stop.read();
    stats.recoveries = counters.recoveries.read();
    stats.failed_recoveries = counters.failed_recoveries.read();
    stats.mbuf_shortages = counters.mbuf_shortages.read();
    stats.compressed = counters.compressed.read();
    stats.key_misses = counters.key_misses.read();
    return stats;
}

/// Every counter of RxStats that only grows.
constexpr std::uint64_t RxStats::*const counting[] = {
    &RxStats::packets,
    &RxStats::bytes,
    &RxStats::attached,
    &RxStats::direct,
    &RxStats::copied_short,
    &RxStats::copied_no_spare,
    &RxStats::copied_no_headroom,
    &RxStats::copied_asked,
    &RxStats::scattered,
    &RxStats::fillers,
    &RxStats::filler_strides,
    &RxStats::wqes_posted,
    &RxStats::doorbells,
    &RxStats::dropped_no_mbuf,
    &RxStats::dropped_oversize,
    &RxStats::dropped_no_room,
    &RxStats::dropped_error,
    &RxStats::dropped_bad_cqe,
    &RxStats::discarded_at_stop,
    &RxStats::recoveries,
    &RxStats::failed_recoveries,
    &RxStats::mbuf_shortages,
    &RxStats::compressed,
    &RxStats::key_misses,
};
static_assert(sizeof(RxStats) == sizeof counting + 5 * sizeof(std::uint64_t),
              "a counter is missing here, or in the five gauges");

} // namespace

RxStats RxQueue::stats() const noexcept {
    const RxQueueState& queue = state_of(*this);
    RxStats stats = read_counters(queue);
    for (auto counter : counting)
        stats.*counter -= queue.baseline.*counter;
    if (queue.kind != QueueKind::striding) return stats;
    const std::uint64_t away = queue.striding.pool->away();
    stats.buffers_total = queue.striding.pool->buffers();
    stats.buffer_bytes = stats.buffers_total * queue.striding.geometry.wqe_bytes();
    stats.buffers_posted = queue.started ? queue.striding.geometry.posted_wqes() : 0;
    // Read while a burst runs, these may be one off.
    stats.buffers_held = away > stats.buffers_posted ? away - stats.buffers_posted : 0;
    stats.buffers_spare = stats.buffers_total - stats.buffers_posted - stats.buffers_held;
    return stats;
}

void RxQueue::reset_stats() noexcept {
    RxQueueState& queue = state_of(*this);
    queue.baseline = read_counters(queue);
}

} // namespace stride::mprq
