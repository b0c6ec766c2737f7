// SPDX-License-Identifier: BSD-3-Clause
/// The receive burst of a striding queue: poll, take strides, hand over, describe, ring.
#include "mprq/rx_state.hpp"

#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <utility>

namespace stride::mprq {
namespace {

using mlx5::StrideRange;

/// A burst's own tally; the queue's counters are touched once, at the end.
struct Burst {
    rte_mbuf** packets;
    std::uint32_t wanted;
    std::uint32_t taken{};
    std::uint32_t copied_short{};
    std::uint32_t copied_instead{};
    std::uint64_t bytes{};

    std::uint32_t room() const noexcept { return wanted - taken; }
};

inline StrideRange range_of(const mlx5_cqe64& cqe, mlx5::StridingByteCount count) noexcept {
    return {mlx5::wqe_counter(cqe), count.strides()};
}

/// The completion is one packet that we can hand over: what it claims fits the WQE and our limits.
inline bool is_packet(const RxHot& hot, const mlx5_cqe64& cqe, mlx5::StridingByteCount count) noexcept {
    const StrideRange range = range_of(cqe, count);
    return mlx5::is_plain_receive(cqe.op_own) && !count.filler() && hot.map.possible(range, hot.consumed) &&
           hot.map.holds(range, count.bytes()) && count.bytes() <= hot.max_frame_bytes;
}

/// Points `m` at the packet where the HCA wrote it. Its buffer starts behind what the packet in front owns
/// and ends where the headroom of the one behind starts, so that neither can be written through this mbuf.
inline void attach(RxHot& hot, rte_mbuf* m, StrideRange range, std::uint32_t bytes) noexcept {
    std::byte* const data = hot.strides + hot.map.data_offset(range.first);
    const auto headroom =
        static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(data - hot.used_end, RTE_PKTMBUF_HEADROOM));
    std::byte* const start = data - headroom;
    std::byte* const next_headroom = hot.strides + hot.map.offset(range.end()) - RTE_PKTMBUF_HEADROOM;
    std::byte* const end =
        std::clamp(next_headroom, data + bytes, std::max(data + bytes, start + UINT16_MAX));
    m->buf_addr = start;
    rte_mbuf_iova_set(m, hot.iova + static_cast<rte_iova_t>(start - hot.strides));
    m->buf_len = static_cast<std::uint16_t>(end - start);
    m->shinfo = &hot.shares[range.first].info;
    Rearm rearm = hot.rearm;
    rearm.data_off = headroom;
    rearm_mbuf(m, rearm);
    hot.used_end = end;
    ++hot.attached;
}

/// Hands one packet over: copied if short, else attached, else copied for want of something (counted).
template <RxOffloads::Bits Offloads>
inline Handover hand_over(RxQueueState& queue, Burst& burst, const mlx5_cqe64& cqe) noexcept {
    RxHot& hot = queue.hot;
    const mlx5::StridingByteCount count = mlx5::striding_byte_count(cqe);
    const StrideRange range = range_of(cqe, count);
    const std::uint32_t bytes = count.bytes();
    rte_mbuf* const m = hot.reserve[hot.reserved - 1];
    std::uint64_t flags = hot.copy_flags;
    m->pkt_len = bytes - std::min(bytes, trailer_bytes<Offloads>);
    m->data_len = static_cast<std::uint16_t>(m->pkt_len);
    if (bytes <= hot.copy_threshold_bytes) {
        rearm_mbuf(m, hot.rearm);
        rte_memcpy(static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM,
                   hot.strides + hot.map.data_offset(range.first), bytes);
        ++burst.copied_short;
    } else if (may_attach(hot, range) || find_replacement(queue, range)) [[likely]] {
        attach(hot, m, range, bytes);
        flags = RTE_MBUF_F_EXTERNAL;
    } else {
        const Handover outcome =
            copy_instead(queue, m, hot.strides + hot.map.data_offset(range.first), m->pkt_len);
        if (outcome != Handover::done) return outcome;
        ++burst.copied_instead;
    }
    --hot.reserved;
    burst.bytes += m->pkt_len;
    describe<Offloads>(m, cqe, flags);
    burst.packets[burst.taken++] = m;
    return Handover::done;
}

/// Takes the packet of `cqe`, which is one (is_packet). False: it waits in the CQ for mbufs.
template <RxOffloads::Bits Offloads>
inline bool take_packet(RxQueueState& queue, Burst& burst, const mlx5_cqe64& cqe) noexcept {
    RxHot& hot = queue.hot;
    if (hot.reserved == 0 && !refill_reserve(queue)) [[unlikely]]
        return false;
    const StrideRange range = range_of(cqe, mlx5::striding_byte_count(cqe));
    if (hand_over<Offloads>(queue, burst, cqe) == Handover::wait) [[unlikely]]
        return false;
    hot.cq.consume();
    hot.consumed = range.end();
    return true;
}

/// Four completions at once, all of them packets that follow each other within the WQE. False: not so, or not
/// enough mbufs; look at them one by one.
template <RxOffloads::Bits Offloads>
inline bool take_four(RxQueueState& queue, Burst& burst) noexcept {
    RxHot& hot = queue.hot;
    const std::uint32_t ci = hot.cq.ci();
    const mlx5_cqe64* cqes[4];
    unsigned odd = 0;
    for (std::uint32_t n = 0; n < 4; ++n) {
        cqes[n] = hot.cq.at(ci + n);
        const unsigned plain = unsigned{MLX5_CQE_RESP_SEND} << 4 | hot.cq.owner(ci + n);
        odd |= (load_from_device(&cqes[n]->op_own) & ~mlx5::cqe_solicited_bit) ^ plain;
    }
    if (odd != 0) return false;

    std::uint32_t expected = hot.consumed;
    for (const mlx5_cqe64* cqe : cqes) {
        const mlx5::StridingByteCount count = mlx5::striding_byte_count(*cqe);
        const StrideRange range = range_of(*cqe, count);
        odd |= (range.first ^ expected) | unsigned{count.filler()} |
               unsigned{!hot.map.holds(range, count.bytes())} | unsigned{count.bytes() > hot.max_frame_bytes};
        expected = range.end();
    }
    if (odd != 0 || expected >= hot.map.strides()) return false;
    if (hot.reserved < 4 && (!refill_reserve(queue) || hot.reserved < 4)) return false;
    for (const mlx5_cqe64* cqe : cqes)
        if (!take_packet<Offloads>(queue, burst, *cqe)) [[unlikely]]
            return false;
    return true;
}

/// One completion, whatever it is. False: end the burst.
template <RxOffloads::Bits Offloads>
inline bool take_one(RxQueueState& queue, Burst& burst) noexcept {
    RxHot& hot = queue.hot;
    const mlx5_cqe64* cqe = hot.cq.poll();
    if (cqe == nullptr) return false;
    if (!is_packet(hot, *cqe, mlx5::striding_byte_count(*cqe))) [[unlikely]]
        return skip_completion(queue, *cqe);
    if (!take_packet<Offloads>(queue, burst, *cqe)) return false;
    if (hot.consumed == hot.map.strides()) finish_wqe(queue);
    return true;
}

inline std::uint16_t finish_burst(RxQueueState& queue, const Burst& burst) noexcept {
    RxHot& hot = queue.hot;
    if (hot.wqes_due != 0) ring_due_doorbells(queue);
    hot.packets.add(burst.taken);
    hot.bytes.add(burst.bytes);
    hot.copied_short.add(burst.copied_short);
    hot.attached_packets.add(burst.taken - burst.copied_short - burst.copied_instead);
    return static_cast<std::uint16_t>(burst.taken);
}

template <RxOffloads::Bits Offloads>
std::uint16_t receive(void* queue_pointer, rte_mbuf** packets, std::uint16_t wanted) noexcept {
    auto& queue = *static_cast<RxQueueState*>(static_cast<RxQueue*>(queue_pointer));
    Burst burst{.packets = packets, .wanted = wanted};
    while (burst.room() != 0) {
        if (burst.room() >= 4 && take_four<Offloads>(queue, burst)) continue;
        if (!take_one<Offloads>(queue, burst)) break;
    }
    return finish_burst(queue, burst);
}

constexpr std::size_t combinations = 1U << 5;

template <std::size_t... Bits>
constexpr std::array<RxBurst, combinations> make_table(std::index_sequence<Bits...>) noexcept {
    return {receive<static_cast<RxOffloads::Bits>(Bits)>...};
}

constexpr auto bursts = make_table(std::make_index_sequence<combinations>{});

} // namespace

RxBurst select_striding_burst(RxOffloads offloads) noexcept { return bursts[offloads.bits() % combinations]; }

} // namespace stride::mprq
