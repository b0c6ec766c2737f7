// SPDX-License-Identifier: BSD-3-Clause
/// The receive burst of a striding queue: poll, take strides, hand over, describe, ring.
#include "mprq/rx_state.hpp"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace stride::mprq {
namespace {

using mlx5::StrideRange;

/// How packets are handed over that are not copied.
enum class Place : std::uint8_t { attached, bound };

/// A burst's own tally; the queue's counters are touched once, at the end.
struct Tally {
    rte_mbuf** next; ///< where the next packet goes
    std::uint64_t bytes{};
    std::uint32_t copied_short{};
    std::uint32_t copied_long{};

    void take(rte_mbuf* m, std::uint32_t length) noexcept {
        *next++ = m;
        bytes += length;
    }
};

/// What handing packets over takes of the queue, in registers: mbufs are written between, which the compiler
/// must take for writes to anything.
class View {
  public:
    [[gnu::always_inline]] explicit View(RxQueueState& queue) noexcept
        : queue_{queue}
        , copy_threshold_bytes_{queue.hot.copy_threshold_bytes} {
        load();
    }
    [[gnu::always_inline]] void store() noexcept {
        hot().reserved = static_cast<std::uint32_t>(top_ - hot().reserve);
        hot().attached = attached_;
        hot().used_end = used_end_;
    }

    template <RxOffloads::Bits Offloads, Place How>
    [[gnu::always_inline]] void hand_over(Tally& tally, const mlx5_cqe64& cqe, StrideRange range,
                                          std::uint32_t bytes) noexcept;

    template <RxOffloads::Bits Offloads>
    [[gnu::always_inline]] void copy(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                                     std::uint32_t bytes) noexcept;
    template <RxOffloads::Bits Offloads>
    [[gnu::always_inline]] void bind(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                                     std::uint32_t bytes) noexcept;

  private:
    RxHot& hot() const noexcept { return queue_.hot; }
    void load() noexcept {
        strides_ = hot().strides;
        top_ = hot().reserve + hot().reserved;
        attached_ = hot().attached;
        used_end_ = hot().used_end;
    }
    std::byte* data(std::uint32_t stride) const noexcept { return strides_ + map_.data_offset(stride); }

    template <RxOffloads::Bits Offloads>
    [[gnu::always_inline]] void attach(Tally& tally, const mlx5_cqe64& cqe, StrideRange range,
                                       std::uint32_t bytes) noexcept;
    template <Place How>
    [[gnu::always_inline]] bool may_stay(StrideRange range) noexcept;

    RxQueueState& queue_;
    std::byte* strides_;
    rte_mbuf** top_; ///< of the reserve
    std::byte* used_end_;
    std::uint32_t attached_;
    const std::uint32_t copy_threshold_bytes_;
    const mlx5::StrideMap map_{hot().map};
    const std::uint64_t rearm_{word_of(hot().rearm)};
};

constexpr std::uint32_t prefetch_packets = 4;

template <RxOffloads::Bits Offloads>
constexpr std::uint32_t length_of(std::uint32_t bytes) noexcept {
    return bytes - std::min(bytes, trailer_bytes<Offloads>);
}

/// Copies a packet into the reserve's next mbuf, in whole blocks: strides and an mbuf's room are multiples of
/// one, or larger.
template <RxOffloads::Bits Offloads>
inline void View::copy(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                       std::uint32_t bytes) noexcept {
    rte_mbuf* const m = *--top_;
    const std::byte* const from = data(first);
    rte_prefetch0(top_[-std::ptrdiff_t{prefetch_packets}]);
    rte_prefetch0(from + map_.offset(prefetch_packets));
    std::byte* const to = static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM;
    std::uint32_t done = 0;
    do
        std::memcpy(to + done, from + done, copy_block_bytes);
    while ((done += copy_block_bytes) < bytes);
    describe<Offloads>(m, cqe, rearm_, hot().copy_flags, length_of<Offloads>(bytes));
    tally.take(m, length_of<Offloads>(bytes));
    ++tally.copied_short;
}

/// Points the reserve's next mbuf at the packet where the HCA wrote it. Its buffer starts behind what the
/// packet in front owns and ends where the headroom of the one behind starts, so that neither can be written
/// through this mbuf.
template <RxOffloads::Bits Offloads>
inline void View::attach(Tally& tally, const mlx5_cqe64& cqe, StrideRange range,
                         std::uint32_t bytes) noexcept {
    rte_mbuf* const m = *--top_;
    rte_prefetch0(top_[-std::ptrdiff_t{prefetch_packets}]);
    std::byte* const packet = data(range.first);
    std::byte* const start = std::max(used_end_, packet - RTE_PKTMBUF_HEADROOM);
    std::byte* const next_headroom = strides_ + map_.offset(range.end()) - RTE_PKTMBUF_HEADROOM;
    std::byte* const end = std::max(packet + bytes, std::min(next_headroom, start + UINT16_MAX));
    m->buf_addr = start;
    rte_mbuf_iova_set(m, hot().iova + static_cast<rte_iova_t>(start - strides_));
    m->buf_len = static_cast<std::uint16_t>(end - start);
    m->shinfo = &hot().shares[range.first >> hot().log_strides_per_share].info;
    used_end_ = end;
    ++attached_;
    // data_off is the word's low half: what is added stays in it.
    const std::uint64_t rearm = rearm_ - RTE_PKTMBUF_HEADROOM + static_cast<std::uint64_t>(packet - start);
    describe<Offloads>(m, cqe, rearm, RTE_MBUF_F_EXTERNAL, length_of<Offloads>(bytes));
    tally.take(m, length_of<Offloads>(bytes));
}

/// Hands over the mbuf that the packet already lies in: the application's pool has had it there since it was
/// made. The caller notes that it is not home any more.
template <RxOffloads::Bits Offloads>
inline void View::bind(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                       std::uint32_t bytes) noexcept {
    const std::uint32_t colour_bytes = (first & hot().bound_colour_mask) * BindLayout::colour_bytes;
    std::byte* const header = strides_ + map_.offset(first) - hot().bound_head_bytes - colour_bytes;
    rte_prefetch0(header + map_.offset(BindLayout::max_colours)); // of the same colour
    auto* const m = reinterpret_cast<rte_mbuf*>(header);
    ++attached_;
    describe<Offloads>(m, cqe, rearm_ + map_.shift_bytes() + colour_bytes, 0, length_of<Offloads>(bytes));
    tally.take(m, length_of<Offloads>(bytes));
}

/// There is a WQE buffer to post instead of this one, and room for headroom.
template <Place How>
inline bool View::may_stay(StrideRange range) noexcept {
    if (hot().replacement == nullptr) [[unlikely]] {
        find_replacement(queue_);
        if (hot().replacement == nullptr) return false;
    }
    return How == Place::bound || data(range.first) - used_end_ >= hot().headroom_bytes;
}

/// Copies a packet that can't stay in its place, for a reason that is counted. nullptr: dropped.
template <RxOffloads::Bits Offloads>
[[gnu::noinline]] rte_mbuf* copy_long(RxQueueState& queue, const mlx5_cqe64& cqe, std::uint32_t first,
                                      std::uint32_t bytes) noexcept {
    RxHot& hot = queue.hot;
    rte_mbuf* const m = hot.reserve[hot.reserved - 1];
    m->pkt_len = length_of<Offloads>(bytes);
    m->data_len = static_cast<std::uint16_t>(m->pkt_len);
    if (!copy_instead(queue, m, hot.strides + hot.map.data_offset(first), m->pkt_len)) return nullptr;
    --hot.reserved;
    describe_chain<Offloads>(m, cqe, hot.copy_flags);
    return m;
}

/// Hands one packet over: copied if short, else in its place, else copied for want of something, or dropped.
/// The reserve has an mbuf, or the packet may stay.
template <RxOffloads::Bits Offloads, Place How>
inline void View::hand_over(Tally& tally, const mlx5_cqe64& cqe, StrideRange range,
                            std::uint32_t bytes) noexcept {
    // A bound packet needs no mbuf: with none left, short ones stay in their place too.
    if (bytes <= copy_threshold_bytes_ && (How == Place::attached || top_ != hot().reserve)) {
        copy<Offloads>(tally, cqe, range.first, bytes);
    } else if (may_stay<How>(range)) [[likely]] {
        if constexpr (How == Place::bound) {
            hot().home[range.first] = 0;
            bind<Offloads>(tally, cqe, range.first, bytes);
        } else {
            attach<Offloads>(tally, cqe, range, bytes);
        }
    } else {
        store();
        rte_mbuf* const m = copy_long<Offloads>(queue_, cqe, range.first, bytes);
        load();
        if (m == nullptr) return;
        tally.take(m, m->pkt_len);
        ++tally.copied_long;
    }
}

/// Four completions at once, all of them packets that follow each other within the WQE. False: not so, or not
/// enough mbufs; look at them one by one.
template <RxOffloads::Bits Offloads, Place How>
[[gnu::always_inline]] inline bool take_four(RxQueueState& queue, Tally& tally) noexcept {
    RxHot& hot = queue.hot;
    if (!hot.cq.side_by_side(4)) return false;
    const mlx5_cqe64* const cqe = hot.cq.at(hot.cq.ci());
    const std::size_t step = hot.cq.cqe_bytes();
    mlx5::CqeQuad quad;
    if (!quad.take(cqe, step, hot.cq.owner(hot.cq.ci()), hot.limits, hot.consumed)) return false;
    if (hot.reserved < 4 && (!refill_reserve(queue) || hot.reserved < 4)) [[unlikely]]
        return false;
    std::uint32_t firsts[5], bytes[4];
    quad.store(firsts, bytes);
    const auto each = [&](auto&& hand_over) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (std::uint32_t n = 0; n < 4; ++n) {
            const auto* at = reinterpret_cast<const std::byte*>(cqe) + n * step;
            hand_over(*reinterpret_cast<const mlx5_cqe64*>(at), n);
        }
    };
    View view{queue};
    const unsigned longer = quad.longer_than(hot.copy_threshold_bytes);
    if (longer == 0) {
        each([&](const mlx5_cqe64& one, std::uint32_t n) {
            view.copy<Offloads>(tally, one, firsts[n], bytes[n]);
        });
    } else if (longer == 0xf && How == Place::bound && hot.replacement != nullptr &&
               quad.end() - firsts[0] == 4) {
        std::memset(hot.home + firsts[0], 0, 4);
        each([&](const mlx5_cqe64& one, std::uint32_t n) {
            view.bind<Offloads>(tally, one, firsts[n], bytes[n]);
        });
    } else {
        for (std::uint32_t n = 0; n < 4; ++n) {
            const auto* at = reinterpret_cast<const std::byte*>(cqe) + n * step;
            view.hand_over<Offloads, How>(tally, *reinterpret_cast<const mlx5_cqe64*>(at),
                                          {firsts[n], firsts[n + 1] - firsts[n]}, bytes[n]);
        }
    }
    view.store();
    hot.cq.consume(4);
    hot.consumed = quad.end();
    if (hot.consumed == hot.map.strides()) [[unlikely]]
        finish_wqe(queue);
    return true;
}

/// The completion is one packet that we can hand over: what it claims fits the WQE and our limits.
inline bool is_packet(const RxHot& hot, const mlx5_cqe64& cqe, mlx5::StridingByteCount count) noexcept {
    const StrideRange range{mlx5::wqe_counter(cqe), count.strides()};
    return mlx5::is_plain_receive(cqe.op_own) && !count.filler() && hot.map.possible(range, hot.consumed) &&
           hot.map.holds(range, count.bytes()) && count.bytes() <= hot.max_frame_bytes;
}

/// One completion, whatever it is, and up to one packet. Returns the tally after it; `more`: false ends the
/// burst, a packet waits in the CQ if there is no mbuf.
template <RxOffloads::Bits Offloads, Place How>
[[gnu::noinline]] Tally take_one(RxQueueState& queue, Tally tally, bool& more) noexcept {
    RxHot& hot = queue.hot;
    more = false;
    const mlx5_cqe64* cqe = hot.cq.poll();
    if (cqe == nullptr) {
        if (hot.broken) [[unlikely]]
            retry_recovery(queue);
        return tally;
    }
    const mlx5::StridingByteCount count = mlx5::striding_byte_count(*cqe);
    if (!is_packet(hot, *cqe, count)) [[unlikely]] {
        more = skip_completion(queue, *cqe);
        return tally;
    }
    const StrideRange range{mlx5::wqe_counter(*cqe), count.strides()};
    if (hot.reserved == 0 && !refill_reserve(queue)) [[unlikely]] {
        if (How == Place::bound && hot.replacement == nullptr) find_replacement(queue);
        if (How == Place::attached || hot.replacement == nullptr) return tally;
    }
    View view{queue};
    view.hand_over<Offloads, How>(tally, *cqe, range, count.bytes());
    view.store();
    hot.cq.consume();
    hot.consumed = range.end();
    if (hot.consumed == hot.map.strides()) finish_wqe(queue);
    more = true;
    return tally;
}

template <RxOffloads::Bits Offloads, Place How>
std::uint16_t receive(void* queue_pointer, rte_mbuf** packets, std::uint16_t wanted) noexcept {
    auto& queue = *static_cast<RxQueueState*>(static_cast<RxQueue*>(queue_pointer));
    rte_mbuf** const end = packets + wanted;
    Tally tally{.next = packets};
    for (bool more = true; more && tally.next != end;) {
        if (end - tally.next >= 4 && take_four<Offloads, How>(queue, tally)) continue;
        tally = take_one<Offloads, How>(queue, tally, more);
    }
    RxHot& hot = queue.hot;
    if (hot.wqes_due != 0) ring_due_doorbells(queue);
    const auto taken = static_cast<std::uint16_t>(tally.next - packets);
    hot.packets.add(taken);
    hot.bytes.add(tally.bytes);
    hot.copied_short.add(tally.copied_short);
    hot.attached_packets.add(taken - tally.copied_short - tally.copied_long);
    return taken;
}

constexpr std::size_t combinations = 1U << 5;

template <Place How, std::size_t... Bits>
constexpr std::array<RxBurst, combinations> make_table(std::index_sequence<Bits...>) noexcept {
    return {receive<static_cast<RxOffloads::Bits>(Bits), How>...};
}

constexpr auto attach_bursts = make_table<Place::attached>(std::make_index_sequence<combinations>{});
constexpr auto bound_bursts = make_table<Place::bound>(std::make_index_sequence<combinations>{});

} // namespace

RxBurst select_striding_burst(RxOffloads offloads, bool bound) noexcept {
    return (bound ? bound_bursts : attach_bursts)[offloads.bits() % combinations];
}

} // namespace stride::mprq
