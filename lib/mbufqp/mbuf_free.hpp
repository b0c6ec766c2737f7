// SPDX-License-Identifier: BSD-3-Clause
/// Giving sent mbufs back to their pools.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

namespace stride::mbufqp {

/// All of `home`, referenced by nobody else, direct, unchained: the mbufs are not looked at.
inline void free_run_fast(rte_mempool* home, rte_mbuf** run, std::uint32_t count) noexcept {
    rte_mempool_put_bulk(home, reinterpret_cast<void**>(run), count);
}

/// Any mbufs: chained, shared, indirect, external, pinned. What goes home is packed at the front of `run`
/// (overwritten), and goes a pool at a time.
inline void free_run(rte_mbuf** run, std::uint32_t count) noexcept {
    std::uint32_t packed = 0;
    rte_mempool* pool = nullptr;
    for (std::uint32_t i = 0; i < count; ++i) {
        for (rte_mbuf *seg = run[i], *next; seg != nullptr; seg = next) {
            next = seg->next;
            rte_mbuf* const home = rte_pktmbuf_prefree_seg(seg);
            if (home == nullptr) continue; // still referenced, or pinned and gone home by its own way
            if (home->pool != pool || packed > i) {
                if (packed != 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(run), packed);
                pool = home->pool;
                packed = 0;
            }
            run[packed++] = home;
        }
    }
    if (packed != 0) rte_mempool_put_bulk(pool, reinterpret_cast<void**>(run), packed);
}

} // namespace stride::mbufqp
