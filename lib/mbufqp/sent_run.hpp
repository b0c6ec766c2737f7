// SPDX-License-Identifier: BSD-3-Clause
/// Whether packets may go home unseen once they are sent. Their headers are in the cache while their WQE is
/// built, not when it completes: what decides is gathered then, and a completion gives whole runs to their
/// pool.
#pragma once

#include "mbufqp/four_mbufs.hpp"

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>

namespace stride::mbufqp {

/// Of the packets of one WQE, `first` the first of them. With `fast_free` the application has promised one
/// pool and no other references, which leaves external and indirect buffers to look for: receive queues hand
/// out such mbufs unasked.
template <bool fast_free>
class SentRun {
  public:
    explicit SentRun(const rte_mbuf* first) noexcept
        : home_{first->pool} {}

    void add(const rte_mbuf* mbuf) noexcept {
        flags_ |= mbuf->ol_flags;
        if constexpr (!fast_free) {
            counts_ |= rearm_word(mbuf);
            other_pools_ |=
                reinterpret_cast<std::uintptr_t>(mbuf->pool) ^ reinterpret_cast<std::uintptr_t>(home_);
        }
    }
    void add(rte_mbuf* const* mbufs, const FourMbufs& four) noexcept {
        flags_of_two_ = _mm_or_si128(flags_of_two_, _mm_or_si128(four.flags01, four.flags23));
        if constexpr (!fast_free) {
            counts_of_two_ = _mm_or_si128(counts_of_two_, _mm_or_si128(four.rearm01, four.rearm23));
            const __m128i home =
                _mm_set1_epi64x(static_cast<long long>(reinterpret_cast<std::uintptr_t>(home_)));
            const __m128i pools01 = load_two(&mbufs[0]->pool, &mbufs[1]->pool);
            const __m128i pools23 = load_two(&mbufs[2]->pool, &mbufs[3]->pool);
            const __m128i others = _mm_or_si128(_mm_xor_si128(pools01, home), _mm_xor_si128(pools23, home));
            other_pools_of_two_ = _mm_or_si128(other_pools_of_two_, others);
        }
    }
    /// The pool of all; nullptr: some have to be looked at again.
    rte_mempool* home() const noexcept {
        if (((flags_ | fold(flags_of_two_)) & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) != 0)
            return nullptr;
        if constexpr (!fast_free) {
            // A reference count or number of segments above 1 leaves another bit.
            const std::uint64_t counts = (counts_ | fold(counts_of_two_)) >> 16 & 0xffffffffU;
            if (counts != 0x10001U || (other_pools_ | fold(other_pools_of_two_)) != 0) return nullptr;
        }
        return home_;
    }

  private:
    static std::uint64_t fold(__m128i two) noexcept {
        return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two))));
    }

    rte_mempool* home_;
    std::uint64_t flags_{}, counts_{}, other_pools_{};
    __m128i flags_of_two_{}, counts_of_two_{}, other_pools_of_two_{};
};

} // namespace stride::mbufqp
