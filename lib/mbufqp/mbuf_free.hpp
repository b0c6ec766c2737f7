// SPDX-License-Identifier: BSD-3-Clause
/// Giving sent mbufs back to their pools.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

namespace stride::mbufqp {

/// All from one pool, reference count 1, direct, unchained: the mbufs are not looked at, but the first.
inline void free_run_fast(rte_mbuf** run, std::uint32_t count) noexcept {
    rte_mempool_put_bulk(run[0]->pool, reinterpret_cast<void**>(run), count);
}

[[gnu::noinline]] inline void free_chain(rte_mbuf* head) noexcept { rte_pktmbuf_free(head); }

/// Any mbufs: shared, indirect, external, pinned; chained if `multi_segment`. What goes home is packed at the
/// front of `run` (overwritten), and goes a pool at a time.
template <bool multi_segment>
inline void free_run(rte_mbuf** run, std::uint32_t count) noexcept {
    std::uint32_t packed = 0;
    rte_mempool* pool = nullptr;
    for (std::uint32_t i = 0; i < count; ++i) {
        rte_mbuf* mbuf = run[i];
        if (multi_segment && mbuf->nb_segs != 1) {
            free_chain(mbuf);
            continue;
        }
        mbuf = rte_pktmbuf_prefree_seg(mbuf);
        if (mbuf == nullptr) continue; // still referenced, or pinned and gone home by its own way
        if (mbuf->pool != pool) {
            if (packed != 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(run), packed);
            pool = mbuf->pool;
            packed = 0;
        }
        run[packed++] = mbuf;
    }
    if (packed != 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(run), packed);
}

} // namespace stride::mbufqp
