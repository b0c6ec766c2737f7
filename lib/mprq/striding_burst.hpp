// SPDX-License-Identifier: BSD-3-Clause
/// The receive burst of a striding queue: poll, take strides, hand over, describe, ring. Compiled for
/// attached packets and for bound ones by a file each (attach_bursts.cpp, bound_bursts.cpp): there are many
/// combinations of offloads.
#pragma once

#include "mprq/rx_state.hpp"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace stride::mprq::detail {

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
    template <RxOffloads::Bits Offloads>
    [[gnu::always_inline]] void attach(Tally& tally, const mlx5_cqe64& cqe, StrideRange range,
                                       std::uint32_t bytes, std::byte* start) noexcept;
    std::byte* data(std::uint32_t stride) const noexcept { return strides_ + map_.data_offset(stride); }
    /// So many bytes in front of a packet belong to no other.
    [[gnu::always_inline]] bool has_headroom(std::uint32_t first, std::uint32_t bytes) const noexcept {
        return data(first) - used_end_ >= bytes;
    }

  private:
    RxHot& hot() const noexcept { return queue_.hot; }
    void load() noexcept {
        strides_ = hot().strides;
        top_ = hot().reserve + hot().reserved;
        attached_ = hot().attached;
        used_end_ = hot().used_end;
    }
    std::uint32_t colour_bytes_of(std::uint32_t stride) const noexcept {
        return stride * BindLayout::colour_bytes & colour_mask_bytes_;
    }

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
    const std::uint32_t head_bytes_{hot().bound_head_bytes},
        colour_mask_bytes_{hot().bound_colour_mask_bytes};
};

inline constexpr std::uint32_t prefetch_packets = 4;

inline const mlx5_cqe64& cqe_at(const mlx5_cqe64* first, std::size_t step, std::size_t n) noexcept {
    return *reinterpret_cast<const mlx5_cqe64*>(reinterpret_cast<const std::byte*>(first) + n * step);
}

template <RxOffloads::Bits Offloads>
constexpr std::uint32_t length_of(std::uint32_t bytes) noexcept {
    return bytes - std::min(bytes, trailer_bytes<Offloads>);
}

/// In whole blocks: strides and an mbuf's room are multiples of one, or larger.
[[gnu::always_inline]] inline void copy_blocks(std::byte* to, const std::byte* from,
                                               std::uint32_t bytes) noexcept {
    std::memcpy(to, from, copy_block_bytes);
    for (std::uint32_t done = copy_block_bytes; done < bytes; done += copy_block_bytes)
        std::memcpy(to + done, from + done, copy_block_bytes);
}

/// Copies a packet into the reserve's next mbuf.
template <RxOffloads::Bits Offloads>
inline void View::copy(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                       std::uint32_t bytes) noexcept {
    rte_mbuf* const m = *--top_;
    const std::byte* const from = data(first);
    rte_prefetch0(top_[-std::ptrdiff_t{prefetch_packets}]);
    rte_prefetch0(from + map_.offset(prefetch_packets));
    std::byte* const to = static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM;
    copy_blocks(to, from, bytes);
    describe<Offloads>(m, cqe, rearm_, hot().copy_flags, length_of<Offloads>(bytes));
    stamp<Offloads>(queue_.config, m, cqe);
    tally.take(m, length_of<Offloads>(bytes));
    ++tally.copied_short;
}

/// Points the reserve's next mbuf at the packet where the HCA wrote it. Its buffer begins at `start`, behind
/// what the packet in front owns, and ends where the headroom of the one behind starts, so that neither can
/// be written through this mbuf.
template <RxOffloads::Bits Offloads>
inline void View::attach(Tally& tally, const mlx5_cqe64& cqe, StrideRange range, std::uint32_t bytes,
                         std::byte* start) noexcept {
    rte_mbuf* const m = *--top_;
    rte_prefetch0(top_[-std::ptrdiff_t{prefetch_packets}]);
    std::byte* const packet = data(range.first);
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
    stamp<Offloads>(queue_.config, m, cqe);
    tally.take(m, length_of<Offloads>(bytes));
}

/// Hands over the mbuf that the packet already lies in: the application's pool has had it there since it was
/// made. The caller notes that it is not home any more.
template <RxOffloads::Bits Offloads>
inline void View::bind(Tally& tally, const mlx5_cqe64& cqe, std::uint32_t first,
                       std::uint32_t bytes) noexcept {
    const std::uint32_t colour_bytes = colour_bytes_of(first);
    std::byte* const header = strides_ + map_.offset(first) - head_bytes_ - colour_bytes;
    rte_prefetch0(header + map_.offset(BindLayout::max_colours)); // of the same colour
    auto* const m = reinterpret_cast<rte_mbuf*>(header);
    ++attached_;
    describe<Offloads>(m, cqe, rearm_ + map_.shift_bytes() + colour_bytes, 0, length_of<Offloads>(bytes));
    stamp<Offloads>(queue_.config, m, cqe);
    tally.take(m, length_of<Offloads>(bytes));
}

/// There is a WQE buffer to post instead of this one, and room for headroom.
template <Place How>
inline bool View::may_stay(StrideRange range) noexcept {
    if (hot().replacement == nullptr) [[unlikely]] {
        find_replacement(queue_);
        if (hot().replacement == nullptr) return false;
    }
    return How == Place::bound || has_headroom(range.first, hot().headroom_bytes);
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
    stamp<Offloads>(queue.config, m, cqe);
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
            attach<Offloads>(tally, cqe, range, bytes,
                             std::max(used_end_, data(range.first) - RTE_PKTMBUF_HEADROOM));
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

/// What a four of packets came to, of which all are in their place: how many were handed over, their bytes.
struct Handed {
    std::size_t packets, bytes;
};

/// Copies short packets into the reserve's mbufs, by fours for as long as all of a four are short. A function
/// of its own, like the next two: what one packet takes just fits the registers.
template <RxOffloads::Bits Offloads>
[[gnu::noinline]] Handed copy_fours(RxQueueState& queue, rte_mbuf** packets, std::size_t wanted) noexcept {
    RxHot& hot = queue.hot;
    const std::size_t step = hot.cq.cqe_bytes();
    const std::size_t ahead = prefetch_packets * std::size_t{hot.map.stride_bytes()};
    const std::uint64_t rearm = word_of(hot.rearm), flags = hot.copy_flags;
    Handed handed{0, 0};
    for (; handed.packets + 4 <= wanted && hot.cq.side_by_side(4); handed.packets += 4) {
        const auto* at = reinterpret_cast<const std::byte*>(hot.cq.at(hot.cq.ci()));
        mlx5::CqeQuad quad;
        if (!quad.take(reinterpret_cast<const mlx5_cqe64*>(at), step, hot.cq.owner(hot.cq.ci()), hot.limits,
                       hot.consumed) ||
            quad.longer_than(hot.copy_threshold_bytes) != 0)
            break;
        if (hot.reserved < 4 && (!refill_reserve(queue) || hot.reserved < 4)) [[unlikely]]
            break;
        std::uint32_t firsts[5], bytes[4];
        quad.store(firsts, bytes);
        const std::byte* const strides = hot.strides + hot.map.shift_bytes();
        rte_mbuf** top = hot.reserve + hot.reserved;
#pragma GCC unroll 1
        for (std::size_t n = 0; n < 4; ++n) {
            rte_mbuf* const m = *--top;
            const std::byte* const from = strides + hot.map.offset(firsts[n]);
            rte_prefetch0(top[-std::ptrdiff_t{prefetch_packets}]);
            rte_prefetch0(from + ahead);
            copy_blocks(static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM, from, bytes[n]);
            const auto& one = *reinterpret_cast<const mlx5_cqe64*>(at);
            const std::uint32_t length = length_of<Offloads>(bytes[n]);
            describe<Offloads>(m, one, rearm, flags, length);
            stamp<Offloads>(queue.config, m, one);
            packets[handed.packets + n] = m;
            handed.bytes += length;
            at += step;
        }
        hot.reserved -= 4;
        hot.cq.consume(4);
        hot.consumed = quad.end();
        if (hot.consumed == hot.limits.strides) [[unlikely]]
            finish_wqe(queue);
    }
    return handed;
}

/// Hands over mbufs side by side, each with the packet that lies in it, by fours for as long as all of a four
/// are that: most of what a bound queue does.
template <RxOffloads::Bits Offloads>
[[gnu::noinline]] Handed bind_fours(RxQueueState& queue, rte_mbuf** packets, std::size_t wanted) noexcept {
    RxHot& hot = queue.hot;
    const std::size_t step = hot.cq.cqe_bytes(), pitch = hot.map.stride_bytes();
    const std::size_t ahead = pitch * BindLayout::max_colours; // the next of the same colour
    const std::uint32_t colour_mask_bytes = hot.bound_colour_mask_bytes;
    const std::uint64_t rearm = word_of(hot.rearm) + hot.map.shift_bytes();
    Handed handed{0, 0};
    for (; handed.packets + 4 <= wanted && hot.cq.side_by_side(4); handed.packets += 4) {
        const auto* at = reinterpret_cast<const std::byte*>(hot.cq.at(hot.cq.ci()));
        mlx5::CqeQuad quad;
        if (!quad.take(reinterpret_cast<const mlx5_cqe64*>(at), step, hot.cq.owner(hot.cq.ci()), hot.limits,
                       hot.consumed) ||
            quad.end() - hot.consumed != 4 || quad.longer_than(hot.copy_threshold_bytes) != 0xf)
            break;
        if (hot.replacement == nullptr) [[unlikely]] {
            find_replacement(queue);
            if (hot.replacement == nullptr) break;
        }
        std::uint32_t bytes[4];
        quad.store_bytes(bytes);
        std::memset(hot.home + hot.consumed, 0, 4);
        std::uint32_t colour = hot.consumed * BindLayout::colour_bytes;
        std::byte* header = hot.strides + hot.map.offset(hot.consumed) - hot.bound_head_bytes;
#pragma GCC unroll 1
        for (std::size_t n = 0; n < 4; ++n) {
            const std::uint32_t colour_bytes = colour & colour_mask_bytes;
            std::byte* const place = header - colour_bytes;
            rte_prefetch0(place + ahead);
            auto* const m = reinterpret_cast<rte_mbuf*>(place);
            const auto& one = *reinterpret_cast<const mlx5_cqe64*>(at);
            const std::uint32_t length = length_of<Offloads>(bytes[n]);
            describe<Offloads>(m, one, rearm + colour_bytes, 0, length);
            stamp<Offloads>(queue.config, m, one);
            packets[handed.packets + n] = m;
            handed.bytes += length;
            header += pitch;
            at += step;
            colour += BindLayout::colour_bytes;
        }
        hot.attached += 4;
        hot.cq.consume(4);
        hot.consumed += 4;
        if (hot.consumed == hot.limits.strides) [[unlikely]]
            finish_wqe(queue);
    }
    return handed;
}

/// Hands over packets that lie in a stride each, with their headroom in front of them whatever their lengths,
/// by fours for as long as all of a four are longer than what is copied: most of what an attached queue does
/// if a frame and its headroom fit a stride.
template <RxOffloads::Bits Offloads>
[[gnu::noinline]] Handed attach_fours(RxQueueState& queue, rte_mbuf** packets, std::size_t wanted) noexcept {
    RxHot& hot = queue.hot;
    const std::size_t step = hot.cq.cqe_bytes(), pitch = hot.map.stride_bytes();
    const auto buffer_bytes = static_cast<std::uint16_t>(pitch - hot.map.shift_bytes());
    const std::uint64_t rearm = word_of(hot.rearm);
    Handed handed{0, 0};
    for (; handed.packets + 4 <= wanted && hot.cq.side_by_side(4); handed.packets += 4) {
        const auto* at = reinterpret_cast<const std::byte*>(hot.cq.at(hot.cq.ci()));
        mlx5::CqeQuad quad;
        if (!quad.take(reinterpret_cast<const mlx5_cqe64*>(at), step, hot.cq.owner(hot.cq.ci()), hot.limits,
                       hot.consumed) ||
            quad.end() - hot.consumed != 4 || quad.longer_than(hot.copy_threshold_bytes) != 0xf)
            break;
        if (hot.replacement == nullptr) break;
        if (hot.reserved < 4 && (!refill_reserve(queue) || hot.reserved < 4)) [[unlikely]]
            break;
        std::uint32_t bytes[4];
        quad.store_bytes(bytes);
        const std::ptrdiff_t offset =
            std::ptrdiff_t{hot.map.data_offset(hot.consumed)} - RTE_PKTMBUF_HEADROOM;
        std::byte* start = hot.strides + offset;
        rte_iova_t iova = hot.iova + static_cast<rte_iova_t>(offset);
        StrideShare* share = hot.shares + hot.consumed;
        rte_mbuf** top = hot.reserve + hot.reserved;
#pragma GCC unroll 1
        for (std::size_t n = 0; n < 4; ++n) {
            rte_mbuf* const m = *--top;
            rte_prefetch0(top[-std::ptrdiff_t{prefetch_packets}]);
            m->buf_addr = start;
            rte_mbuf_iova_set(m, iova);
            m->buf_len = buffer_bytes;
            m->shinfo = &share->info;
            const auto& one = *reinterpret_cast<const mlx5_cqe64*>(at);
            const std::uint32_t length = length_of<Offloads>(bytes[n]);
            describe<Offloads>(m, one, rearm, RTE_MBUF_F_EXTERNAL, length);
            stamp<Offloads>(queue.config, m, one);
            packets[handed.packets + n] = m;
            handed.bytes += length;
            start += pitch;
            iova += pitch;
            ++share;
            at += step;
        }
        hot.reserved -= 4;
        hot.attached += 4;
        hot.cq.consume(4);
        hot.consumed += 4;
        hot.used_end = start - hot.map.shift_bytes();
        if (hot.consumed == hot.limits.strides) [[unlikely]]
            finish_wqe(queue);
    }
    return handed;
}

/// Hands four packets over where they are, up to the first that lacks its full headroom: where it is there, a
/// packet's buffer starts at a place that does not depend on the packet in front.
template <RxOffloads::Bits Offloads>
[[gnu::noinline]] Handed attach_four(RxQueueState& queue, rte_mbuf** packets, const mlx5_cqe64* cqe,
                                     const std::uint32_t* firsts, const std::uint32_t* bytes) noexcept {
    const std::size_t step = queue.hot.cq.cqe_bytes();
    Tally tally{.next = packets};
    View view{queue};
#pragma GCC unroll 1
    for (std::size_t n = 0; n < 4; ++n) {
        if (!view.has_headroom(firsts[n], RTE_PKTMBUF_HEADROOM)) [[unlikely]]
            break;
        view.attach<Offloads>(tally, cqe_at(cqe, step, n), {firsts[n], firsts[n + 1] - firsts[n]}, bytes[n],
                              view.data(firsts[n]) - RTE_PKTMBUF_HEADROOM);
    }
    view.store();
    return {static_cast<std::size_t>(tally.next - packets), tally.bytes};
}

/// Four completions at once, all of them packets that follow each other within the WQE. False: not so, or not
/// enough mbufs; look at them one by one. `wanted`: packets, 4 at least.
template <RxOffloads::Bits Offloads, Place How>
[[gnu::always_inline]] inline bool take_four(RxQueueState& queue, Tally& tally, std::size_t wanted) noexcept {
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
    const unsigned longer = quad.longer_than(hot.copy_threshold_bytes);
    std::size_t taken = 4;
    if (longer == 0) {
        const Handed handed = copy_fours<Offloads>(queue, tally.next, wanted);
        tally.next += handed.packets;
        tally.bytes += handed.bytes;
        tally.copied_short += static_cast<std::uint32_t>(handed.packets);
        return handed.packets != 0;
    }
    if (How == Place::attached && longer == 0xf && hot.replacement != nullptr) {
        if (hot.stride_a_packet && quad.end() - hot.consumed == 4) {
            const Handed handed = attach_fours<Offloads>(queue, tally.next, wanted);
            tally.next += handed.packets;
            tally.bytes += handed.bytes;
            return handed.packets != 0;
        }
        const Handed handed = attach_four<Offloads>(queue, tally.next, cqe, firsts, bytes);
        taken = handed.packets;
        tally.next += taken;
        tally.bytes += handed.bytes;
    } else {
        View view{queue};
        for (std::uint32_t n = 0; n < 4; ++n)
            view.hand_over<Offloads, How>(tally, cqe_at(cqe, step, n), {firsts[n], firsts[n + 1] - firsts[n]},
                                          bytes[n]);
        view.store();
    }
    hot.cq.consume(static_cast<std::uint32_t>(taken));
    hot.consumed = firsts[taken];
    if (hot.consumed == hot.limits.strides) [[unlikely]]
        finish_wqe(queue);
    return taken != 0;
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
        if constexpr (How == Place::bound) {
            const Handed handed =
                bind_fours<Offloads>(queue, tally.next, static_cast<std::size_t>(end - tally.next));
            tally.next += handed.packets;
            tally.bytes += handed.bytes;
            if (tally.next == end) break;
        }
        const auto left = static_cast<std::size_t>(end - tally.next);
        const bool fours = How == Place::attached || queue.hot.copy_threshold_bytes != 0;
        if (fours && left >= 4 && take_four<Offloads, How>(queue, tally, left)) continue;
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

inline constexpr std::size_t combinations = 1U << 6;

/// A burst for each combination of offloads.
struct StridingBursts {
    std::array<RxBurst, combinations> plain;
    std::array<RxBurst, marked_combinations> marked;

    RxBurst of(RxOffloads offloads) const noexcept {
        if (offloads.has(RxOffload::mark))
            return marked[(offloads.bits() >> marked_shift) % marked_combinations];
        return plain[offloads.bits() % combinations];
    }
};

template <Place How, std::size_t... Bits, std::size_t... Choices>
constexpr StridingBursts make_bursts(std::index_sequence<Bits...>, std::index_sequence<Choices...>) noexcept {
    return {{receive<static_cast<RxOffloads::Bits>(Bits), How>...},
            {receive<with_mark | static_cast<RxOffloads::Bits>(Choices << marked_shift), How>...}};
}

template <Place How>
inline constexpr StridingBursts
    striding_bursts = make_bursts<How>(std::make_index_sequence<combinations>{},
                                       std::make_index_sequence<marked_combinations>{});

} // namespace stride::mprq::detail
