// SPDX-License-Identifier: BSD-3-Clause
/// Whether packets may go home unseen once they are sent. Their headers are in the cache while their WQE is
/// built, not when it completes: what decides is gathered then, and a completion gives whole runs to their
/// pool.
#pragma once

#include "mbufqp/inline_copy.hpp"

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
    static constexpr bool one_pool = fast_free;
    explicit SentRun(const rte_mbuf* first) noexcept
        : home_{first->pool} {}

    void add(const rte_mbuf* mbuf) noexcept {
        words_ = _mm_or_si128(words_, mbuf_words(mbuf));
        if constexpr (!fast_free)
            other_pools_ =
                _mm_or_si128(other_pools_, _mm_xor_si128(load_two(&mbuf->pool, &mbuf->pool), homes()));
    }
    void add(const FourMbufs& four) noexcept {
        words_ = _mm_or_si128(words_, four.words());
        if constexpr (!fast_free) {
            const __m128i others01 = _mm_xor_si128(load_two(&four.m0->pool, &four.m1->pool), homes());
            const __m128i others23 = _mm_xor_si128(load_two(&four.m2->pool, &four.m3->pool), homes());
            other_pools_ = _mm_or_si128(other_pools_, _mm_or_si128(others01, others23));
        }
    }
    /// Bits that any of the mbufs has, as mbuf_words() has them.
    __m128i words() const noexcept { return words_; }
    /// The pool of all; nullptr: some have to be looked at again.
    rte_mempool* home() const noexcept {
        return home_of({.any = words_, .other_pools = other_pools_, .home = home_});
    }
    static rte_mempool* home_of(const AlikeSeen& seen) noexcept {
        if ((high_half(seen.any) & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) != 0) return nullptr;
        if constexpr (!fast_free) {
            // A reference count or number of segments above 1 leaves another bit.
            const std::uint64_t counts = low_half(seen.any) >> 16 & 0xffffffffU;
            if (counts != 0x10001U || _mm_testz_si128(seen.other_pools, seen.other_pools) == 0)
                return nullptr;
        }
        return seen.home;
    }

  private:
    __m128i homes() const noexcept {
        return _mm_set1_epi64x(static_cast<long long>(reinterpret_cast<std::uintptr_t>(home_)));
    }

    rte_mempool* home_;
    __m128i words_{}, other_pools_{};
};

} // namespace stride::mbufqp
