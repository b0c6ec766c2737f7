// SPDX-License-Identifier: BSD-3-Clause
/// Single-packet receive queue, for devices (or ports) without striding: a WQE is one or several mbufs of the
/// pool and takes one packet.
#include "base/format.hpp"
#include "mprq/rx_state.hpp"

#include <rte_malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace stride::mprq {
namespace {

constexpr std::uint32_t max_sges = reserve_size; // all of a packet's mbufs are replaced at once

rte_mbuf** mbufs_of(PacketRing& ring, std::uint32_t slot) noexcept {
    return ring.mbufs + std::size_t{slot} * ring.sges;
}

/// Puts `m` into segment `n` of the WQE at `slot`. False: no key for its memory.
bool fill_segment(RxQueueState& queue, std::uint32_t slot, std::uint32_t n, rte_mbuf* m) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(m->buf_addr) + RTE_PKTMBUF_HEADROOM;
    const be32 lkey = queue.config.owner.lkey_of(queue.config.owner.context, address);
    if (lkey == be32{UINT32_MAX}) {
        queue.counters.key_misses.add(1);
        return false;
    }
    mlx5::write_data_segment(*mlx5::data_segment(queue.single.rq, slot, n), queue.room_bytes, lkey, address);
    mbufs_of(queue.single, slot)[n] = m;
    return true;
}

/// Makes the filled mbufs of a WQE a chain of `bytes`. Returns its first.
rte_mbuf* chain(RxQueueState& queue, std::uint32_t slot, std::uint32_t bytes,
                std::uint32_t segments) noexcept {
    rte_mbuf** mbufs = mbufs_of(queue.single, slot);
    std::uint32_t left = bytes;
    for (std::uint32_t n = 0; n < segments; ++n) {
        rte_mbuf* m = mbufs[n];
        rearm_mbuf(m, queue.hot.rearm);
        m->ol_flags = queue.hot.copy_flags;
        m->data_len = static_cast<std::uint16_t>(std::min(left, queue.room_bytes));
        left -= m->data_len;
        if (n + 1 < segments) m->next = mbufs[n + 1];
    }
    mbufs[0]->nb_segs = static_cast<std::uint16_t>(segments);
    mbufs[0]->pkt_len = bytes;
    return mbufs[0];
}

/// New mbufs for the first `segments` of the WQE, before the old ones are given away: all or nothing, so that
/// a WQE is never posted with a hole.
bool replace_mbufs(RxQueueState& queue, std::uint32_t slot, std::uint32_t segments) noexcept {
    RxHot& hot = queue.hot;
    if (hot.reserved < segments && (!refill_reserve(queue) || hot.reserved < segments)) return false;
    for (std::uint32_t n = 0; n < segments; ++n)
        if (!fill_segment(queue, slot, n, hot.reserve[hot.reserved - 1 - n])) return false;
    hot.reserved -= segments;
    return true;
}

/// The WQE at ci is consumed and its mbufs may be posted again as they are.
void pass_wqe(RxQueueState& queue) noexcept {
    queue.hot.cq.consume();
    ++queue.single.ci;
    ++queue.single.pi;
    ++queue.hot.wqes_due;
}

void ring_doorbells(RxQueueState& queue) noexcept {
    queue.hot.cq.publish();
    mlx5::ring_receive_doorbell(queue.single.rq.dbrec, queue.single.pi);
    queue.counters.wqes_posted.add(queue.hot.wqes_due);
    queue.counters.doorbells.add(2);
    queue.hot.wqes_due = 0;
}

bool recover(RxQueueState& queue, Counter& lost) noexcept {
    const RxQueueOwner& owner = queue.config.owner;
    PacketRing& ring = queue.single;
    queue.counters.recoveries.add(1);
    queue.hot.broken = owner.reset_wq == nullptr || !owner.reset_wq(owner.context);
    if (!queue.hot.broken) {
        lost.add(drain_completions(queue));
        ring.ci = 0;
        ring.pi = ring.rq.size.entries();
        queue.hot.wqes_due = ring.pi;
        ring_doorbells(queue);
        queue.hot.broken = owner.ready_wq == nullptr || !owner.ready_wq(owner.context);
    }
    note_recovery(queue);
    return false;
}

[[gnu::noinline]] bool skip(RxQueueState& queue, const mlx5_cqe64& cqe) noexcept {
    if (queue.hot.broken) return retry_is_due(queue) && recover(queue, queue.counters.dropped_error);
    const bool at_ci = mlx5::wqe_counter(cqe) == static_cast<std::uint16_t>(queue.single.ci);
    if (mlx5::is_error(cqe.op_own)) {
        const std::uint8_t syndrome = mlx5::syndrome(cqe);
        if (syndrome != MLX5_CQE_SYNDROME_WR_FLUSH_ERR) queue.counters.dropped_error.add(1);
        if (mlx5::stops_queue(syndrome) || !at_ci) return recover(queue, queue.counters.dropped_error);
        pass_wqe(queue);
        return true;
    }
    if (!mlx5::is_plain_receive(cqe.op_own)) queue.counters.dropped_bad_cqe.add(1);
    if (!mlx5::is_plain_receive(cqe.op_own) || !at_ci || mlx5::byte_count(cqe) == 0)
        return recover(queue, queue.counters.dropped_bad_cqe);
    queue.counters.dropped_oversize.add(1);
    pass_wqe(queue);
    return true;
}

inline bool is_packet(const RxQueueState& queue, const mlx5_cqe64& cqe) noexcept {
    const std::uint32_t bytes = mlx5::byte_count(cqe);
    return mlx5::is_plain_receive(cqe.op_own) &&
           mlx5::wqe_counter(cqe) == static_cast<std::uint16_t>(queue.single.ci) && bytes != 0 &&
           bytes <= queue.hot.max_frame_bytes;
}

/// The packet of the WQE at ci, or nullptr if there are no mbufs to post instead (it waits in the CQ).
template <RxOffloads::Bits Offloads>
inline rte_mbuf* take_packet(RxQueueState& queue, const mlx5_cqe64& cqe) noexcept {
    PacketRing& ring = queue.single;
    const std::uint32_t slot = ring.rq.size.slot(ring.ci);
    // An mbuf with nothing but a trailer in it stays in the WQE.
    const std::uint32_t bytes =
        mlx5::byte_count(cqe) - std::min(mlx5::byte_count(cqe), trailer_bytes<Offloads>);
    const std::uint32_t segments = bytes <= queue.room_bytes ? 1 : div_round_up(bytes, queue.room_bytes);
    rte_mbuf* old[max_sges];
    std::copy_n(mbufs_of(ring, slot), segments, old);
    rte_mbuf* m = chain(queue, slot, bytes, segments);
    if (!replace_mbufs(queue, slot, segments)) {
        for (std::uint32_t n = 0; n < segments; ++n) {
            old[n]->next = nullptr;
            old[n]->nb_segs = 1;
            fill_segment(queue, slot, n, old[n]);
        }
        return nullptr;
    }
    describe_chain<Offloads>(m, cqe, queue.hot.copy_flags);
    stamp<Offloads>(queue.config, m, cqe);
    return m;
}

template <RxOffloads::Bits Offloads>
std::uint16_t receive(void* queue_pointer, rte_mbuf** packets, std::uint16_t wanted) noexcept {
    auto& queue = *static_cast<RxQueueState*>(static_cast<RxQueue*>(queue_pointer));
    std::uint16_t taken = 0;
    std::uint64_t bytes = 0;
    while (taken < wanted) {
        const mlx5_cqe64* cqe = queue.hot.cq.poll();
        if (cqe == nullptr) {
            if (queue.hot.broken && retry_is_due(queue)) recover(queue, queue.counters.dropped_error);
            break;
        }
        if (!is_packet(queue, *cqe)) [[unlikely]] {
            if (!skip(queue, *cqe)) break;
            continue;
        }
        rte_mbuf* m = take_packet<Offloads>(queue, *cqe);
        if (m == nullptr) break;
        pass_wqe(queue);
        bytes += m->pkt_len;
        packets[taken++] = m;
    }
    if (queue.hot.wqes_due != 0) ring_doorbells(queue);
    queue.hot.packets.add(taken);
    queue.hot.bytes.add(bytes);
    return taken;
}

constexpr std::size_t combinations = 1U << 7;

template <std::size_t... Bits>
constexpr std::array<RxBurst, combinations> make_table(std::index_sequence<Bits...>) noexcept {
    return {receive<static_cast<RxOffloads::Bits>(Bits)>...};
}

template <std::size_t... Choices>
constexpr std::array<RxBurst, marked_combinations>
make_marked_table(std::index_sequence<Choices...>) noexcept {
    return {receive<with_mark | static_cast<RxOffloads::Bits>(Choices << marked_shift)>...};
}

constexpr auto marked_bursts = make_marked_table(std::make_index_sequence<marked_combinations>{});
constexpr auto bursts = make_table(std::make_index_sequence<combinations>{});

} // namespace

RxBurst select_single_packet_burst(RxOffloads offloads) noexcept {
    if (offloads.has(RxOffload::mark))
        return marked_bursts[(offloads.bits() >> marked_shift) % marked_combinations];
    return bursts[offloads.bits() % combinations];
}

Status start_single_packet(RxQueueState& queue) {
    PacketRing& ring = queue.single;
    const std::uint32_t wqes = ring.rq.size.entries();
    const auto in_wqe = static_cast<std::uint32_t>((1U << ring.rq.log_wqe_bytes) / sizeof(mlx5_wqe_data_seg));
    const std::uint32_t mbufs = wqes * ring.sges;
    if (rte_mempool_get_bulk(queue.config.pool, reinterpret_cast<void**>(ring.mbufs), mbufs) != 0) {
        std::fill_n(ring.mbufs, mbufs, nullptr);
        return Error{ENOMEM,
                     strprintf("port %u rxq %u: pool %s has not the %u mbufs of the ring",
                               queue.config.port_id, queue.config.queue_id, queue.config.pool->name, mbufs)};
    }
    for (std::uint32_t slot = 0; slot < wqes; ++slot) {
        for (std::uint32_t n = 0; n < ring.sges; ++n)
            if (!fill_segment(queue, slot, n, mbufs_of(ring, slot)[n]))
                return Error{ENOMEM,
                             strprintf("port %u rxq %u: no memory key for pool %s", queue.config.port_id,
                                       queue.config.queue_id, queue.config.pool->name)};
        for (std::uint32_t n = ring.sges; n < in_wqe; ++n)
            mlx5::write_data_segment(*mlx5::data_segment(ring.rq, slot, n), 0, be32{mlx5::list_end_lkey}, 0);
    }
    ring.ci = 0;
    ring.pi = wqes;
    queue.hot.wqes_due = wqes;
    ring_doorbells(queue);
    return {};
}

void stop_single_packet(RxQueueState& queue) noexcept {
    PacketRing& ring = queue.single;
    const std::size_t mbufs = std::size_t{ring.rq.size.entries()} * ring.sges;
    for (std::size_t n = 0; n < mbufs; ++n)
        if (rte_mbuf* m = std::exchange(ring.mbufs[n], nullptr); m != nullptr) rte_mbuf_raw_free(m);
}

Result<std::uint32_t> RxQueue::single_packet_sges(const RxQueueConfig& config) {
    const std::uint32_t room = room_of(config);
    const std::uint32_t needed = room != 0 ? div_round_up(config.max_frame_bytes, room) : UINT32_MAX;
    if (config.max_frame_bytes == 0 || (needed > 1 && !config.scatter) || needed > max_sges)
        return Error{EINVAL, strprintf("port %u rxq %u: frames of %u bytes, mbufs of pool %s hold %u%s",
                                       config.port_id, config.queue_id, config.max_frame_bytes,
                                       config.pool != nullptr ? config.pool->name : "(none)", room,
                                       config.scatter ? ": more than 32 to a packet"
                                                      : ": enable scatter or give larger mbufs")};
    return std::bit_ceil(needed);
}

Result<RxQueuePtr> RxQueue::create_single_packet(const RxQueueConfig& config, const mlx5::CqRing& cq,
                                                 const mlx5::RqRing& rq) {
    Result<std::uint32_t> sges = single_packet_sges(config);
    if (!sges) return sges.take_error();
    if (config.owner.lkey_of == nullptr || cq.size.entries() < rq.size.entries() ||
        sges.value() * sizeof(mlx5_wqe_data_seg) > std::size_t{1} << rq.log_wqe_bytes ||
        rq.size.entries() < 2)
        return Error{EINVAL,
                     strprintf("port %u rxq %u: a CQ of %u and a WQ of %u WQEs of %u bytes do not serve %u "
                               "segments, or there are no keys",
                               config.port_id, config.queue_id, cq.size.entries(), rq.size.entries(),
                               1U << rq.log_wqe_bytes, sges.value())};
    RxQueuePtr owner{allocate_state(config, QueueKind::single_packet)};
    if (!owner) return no_queue_memory(config);
    RxQueueState& queue = state_of(*owner);
    queue.hot.cq = mlx5::CqCursor{cq};
    queue.single.rq = rq;
    queue.single.sges = sges.value();
    queue.single.mbufs = static_cast<rte_mbuf**>(
        rte_zmalloc_socket("rx_queue", std::size_t{rq.size.entries()} * sges.value() * sizeof(rte_mbuf*),
                           RTE_CACHE_LINE_SIZE, config.socket_id));
    if (queue.single.mbufs == nullptr) return no_queue_memory(config);
    return owner;
}

} // namespace stride::mprq
