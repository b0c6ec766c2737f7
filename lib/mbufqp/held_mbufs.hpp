// SPDX-License-Identifier: BSD-3-Clause
/// What becomes of the mbufs that a burst has taken: held until the HCA is done with them, or, where their
/// bytes are in WQEs already, free as soon as the burst is posted.
#pragma once

#include "mbufqp/mbuf_free.hpp"
#include "mbufqp/tx_queue.hpp"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

/// Of one burst, as long runs as may be.
class HeldMbufs {
  public:
    /// The next `count` mbufs of the burst are held, or, where they were copied and all have the `home`
    /// given, free at settle(). True: free.
    bool hold(TxHot& hot, rte_mbuf** mbufs, std::uint32_t count, rte_mempool* home) noexcept {
        if (mbufs_ == nullptr || home_ != home) {
            settle(hot);
            mbufs_ = mbufs;
            count_ = 0;
            home_ = home;
        }
        count_ += count;
        return home != nullptr;
    }
    /// Once the burst is posted.
    void settle(TxHot& hot) noexcept {
        if (count_ == 0) return;
        if (home_ != nullptr)
            free_run_fast(home_, mbufs_, count_);
        else
            remember(hot, mbufs_, count_);
    }
    /// Into the ring of packets in flight.
    static void remember(TxHot& hot, rte_mbuf** mbufs, std::uint32_t count) noexcept {
        const std::uint32_t slot = hot.mbuf_head & unsigned{hot.mbuf_mask};
        const std::uint32_t first = std::min(count, hot.mbuf_mask + 1U - slot);
        std::memcpy(hot.mbufs + slot, mbufs, first * sizeof *mbufs);
        if (first != count) std::memcpy(hot.mbufs, mbufs + first, (count - first) * sizeof *mbufs);
        hot.mbuf_head = static_cast<std::uint16_t>(hot.mbuf_head + count);
    }

  private:
    rte_mbuf** mbufs_{};
    std::uint32_t count_{};
    rte_mempool* home_{};
};

} // namespace stride::mbufqp
