// SPDX-License-Identifier: BSD-3-Clause
/// Completions of a send queue: which packets the HCA is done with, and their way home.
#pragma once

#include "mbufqp/mbuf_free.hpp"
#include "mbufqp/tx_queue.hpp"

#include <rte_mbuf.h>

#include <cstdint>

namespace stride::mbufqp {

/// CQEs consumed in one burst at most: frees come in portions.
inline constexpr std::uint32_t reclaim_max_cqes = 32;

/// Frees the packets in flight up to index `end` (free-running).
template <TxFeatures::Bits bits>
inline void free_up_to(TxHot& hot, std::uint16_t end) noexcept {
    constexpr TxFeatures features = TxFeatures::from_bits(bits);
    while (hot.mbuf_tail != end) {
        const std::uint32_t slot = hot.mbuf_tail & hot.mbuf_mask;
        const std::uint32_t left = static_cast<std::uint16_t>(end - hot.mbuf_tail);
        const std::uint32_t to_end = hot.mbuf_mask + 1U - slot;
        const std::uint32_t count = left < to_end ? left : to_end;
        if constexpr (features.has(TxFeature::fast_free))
            free_run_fast(hot.mbufs + slot, count);
        else
            free_run<features.has(TxFeature::multi_segment)>(hot.mbufs + slot, count);
        hot.mbuf_tail = static_cast<std::uint16_t>(hot.mbuf_tail + count);
    }
}

/// Where the queue stands after the WQE that starts at index `counter`; false if no WQE in flight does.
struct WqeEnd {
    std::uint16_t ci{}, mbuf_tail{};
};
inline bool find_wqe_end(const TxHot& hot, std::uint16_t counter, WqeEnd& end) noexcept {
    const auto in_ring = static_cast<std::uint16_t>(hot.pi - hot.ci);
    const auto in_flight = static_cast<std::uint16_t>(hot.mbuf_head - hot.mbuf_tail);
    const auto offset = static_cast<std::uint16_t>(counter - hot.ci);
    const std::uint32_t packed = hot.wqe_ends[counter & hot.wqebb_mask];
    end.ci = static_cast<std::uint16_t>(packed);
    end.mbuf_tail = static_cast<std::uint16_t>(packed >> 16);
    const auto end_offset = static_cast<std::uint16_t>(end.ci - hot.ci);
    return offset < in_ring && end_offset > offset && end_offset <= in_ring &&
           static_cast<std::uint16_t>(end.mbuf_tail - hot.mbuf_tail) <= in_flight;
}

/// Consumes up to `max_cqes` CQEs and frees what they complete. Leaves by recover() if a CQE is not plain.
template <TxFeatures::Bits bits>
inline void reclaim(TxQueue& queue, std::uint32_t max_cqes) noexcept {
    TxHot& hot = queue.hot();
    std::uint32_t consumed = 0;
    mlx5::SendCqeKind kind = mlx5::SendCqeKind::hardware;
    while (consumed < max_cqes) {
        kind = hot.cqes.kind(hot.cq_ci + consumed);
        if (kind != mlx5::SendCqeKind::done) break;
        ++consumed;
    }
    // A CQE that nobody asked for is as senseless as one of an odd kind.
    bool sane = kind == mlx5::SendCqeKind::done || kind == mlx5::SendCqeKind::hardware;
    if (consumed != 0) {
        const std::uint16_t counter = hot.cqes.wqe_counter(hot.cq_ci + consumed - 1);
        sane = sane && consumed <= hot.signalled;
        hot.cq_ci += consumed;
        hot.signalled = static_cast<std::uint16_t>(hot.signalled - consumed);
        mlx5::release_cqes(hot.cq_dbrec, hot.cq_ci);
        queue.count_completions(consumed);
        WqeEnd end;
        if (find_wqe_end(hot, counter, end)) [[likely]] {
            hot.ci = end.ci;
            free_up_to<bits>(hot, end.mbuf_tail);
        } else {
            sane = false;
        }
    }
    if (!sane) [[unlikely]]
        queue.recover();
}

} // namespace stride::mbufqp
