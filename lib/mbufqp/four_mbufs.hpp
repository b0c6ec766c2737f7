// SPDX-License-Identifier: BSD-3-Clause
/// Single-segment mbufs four at a time, in SSE registers: what data segments need, and whether they may point
/// there, decided by one branch for a whole run.
#pragma once

#include "base/be.hpp"
#include "ibv/key_table.hpp"
#include "mlx5/wqe.hpp"

#include <rte_mbuf.h>

#include <smmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

/// data_off, refcnt, nb_segs and port in the low half, ol_flags in the high one. Another thread may be
/// counting a reference down.
inline __m128i mbuf_words(const rte_mbuf* mbuf) noexcept {
    static_assert(offsetof(rte_mbuf, data_off) % 16 == 0 &&
                  offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, data_off) + 8);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(&mbuf->data_off));
}
inline std::uint64_t low_half(__m128i words) noexcept {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(words));
}
inline std::uint64_t high_half(__m128i words) noexcept {
    return static_cast<std::uint64_t>(_mm_extract_epi64(words, 1));
}

inline __m128i load_two(const void* low, const void* high) noexcept {
    return _mm_castpd_si128(
        _mm_loadh_pd(_mm_load_sd(static_cast<const double*>(low)), static_cast<const double*>(high)));
}

struct FourMbufs {
    const rte_mbuf *m0, *m1, *m2, *m3;
    __m128i addresses01, addresses23;
    __m128i lengths; ///< data_len

    explicit FourMbufs(rte_mbuf* const* mbufs) noexcept
        : m0{mbufs[0]}
        , m1{mbufs[1]}
        , m2{mbufs[2]}
        , m3{mbufs[3]} {
        const __m128i offsets = _mm_set1_epi64x(0xffff);
        addresses01 = _mm_add_epi64(load_two(&m0->buf_addr, &m1->buf_addr),
                                    _mm_and_si128(load_two(&m0->data_off, &m1->data_off), offsets));
        addresses23 = _mm_add_epi64(load_two(&m2->buf_addr, &m3->buf_addr),
                                    _mm_and_si128(load_two(&m2->data_off, &m3->data_off), offsets));
        // data_len is the low half of a dword.
        lengths = _mm_cvtsi32_si128(length_dword(*m0));
        lengths = _mm_insert_epi32(lengths, length_dword(*m1), 1);
        lengths = _mm_insert_epi32(lengths, length_dword(*m2), 2);
        lengths = _mm_insert_epi32(lengths, length_dword(*m3), 3);
        lengths = _mm_and_si128(lengths, _mm_set1_epi32(0xffff));
    }

    /// Bits that any has, that all have, as in mbuf_words().
    __m128i words() const noexcept {
        return _mm_or_si128(_mm_or_si128(mbuf_words(m0), mbuf_words(m1)),
                            _mm_or_si128(mbuf_words(m2), mbuf_words(m3)));
    }
    __m128i words_in_common() const noexcept {
        return _mm_and_si128(_mm_and_si128(mbuf_words(m0), mbuf_words(m1)),
                             _mm_and_si128(mbuf_words(m2), mbuf_words(m3)));
    }
    /// Their data segments, from `ds` on.
    void write(std::byte* ds, __m128i lkeys) const noexcept {
        const __m128i swap4 = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
        const __m128i swap8 = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
        const __m128i counts = _mm_shuffle_epi8(lengths, swap4);
        const __m128i heads01 = _mm_unpacklo_epi32(counts, lkeys),
                      heads23 = _mm_unpackhi_epi32(counts, lkeys);
        const __m128i tails01 = _mm_shuffle_epi8(addresses01, swap8);
        const __m128i tails23 = _mm_shuffle_epi8(addresses23, swap8);
        auto* out = reinterpret_cast<__m128i*>(ds);
        _mm_storeu_si128(out, _mm_unpacklo_epi64(heads01, tails01));
        _mm_storeu_si128(out + 1, _mm_unpackhi_epi64(heads01, tails01));
        _mm_storeu_si128(out + 2, _mm_unpacklo_epi64(heads23, tails23));
        _mm_storeu_si128(out + 3, _mm_unpackhi_epi64(heads23, tails23));
    }

  private:
    static int length_dword(const rte_mbuf& mbuf) noexcept {
        static_assert(offsetof(rte_mbuf, data_len) % 4 == 0);
        int dword;
        std::memcpy(&dword, &mbuf.data_len, sizeof dword);
        return dword;
    }
};

/// [address, address + bytes) lies in the key's range. One branch: no term is negative if so.
inline bool key_covers(const ibv::KeyEntry& key, std::uintptr_t address, std::uint32_t bytes) noexcept {
    const std::uint64_t offset = address - key.range.base;
    const std::uint64_t behind = key.range.bytes - offset - bytes;
    return static_cast<std::int64_t>(offset | behind) >= 0;
}

/// Whether frames may be pointed to by data segments under one key. What is seen of them is gathered and
/// asked for once, for the answer is nearly always yes: nobody reads the segments before that.
class FrameLimits {
  public:
    /// Lengths from `min_bytes` to `max_bytes`, all in the range of `key`.
    FrameLimits(const ibv::KeyEntry& key, std::uint32_t min_bytes, std::uint32_t max_bytes) noexcept
        : base_{_mm_set1_epi64x(static_cast<long long>(key.range.base))}
        , min_bytes_{min_bytes}
        , max_bytes_{max_bytes} {
        // Where a frame of any length fits, in whole blocks: so much can be said of a block's number alone.
        if (key.range.bytes > max_bytes) blocks_ = (key.range.bytes - max_bytes) >> log_block_bytes;
    }
    bool any() const noexcept { return blocks_ != 0; }

    void see(const FourMbufs& four) noexcept {
        const __m128i block01 = _mm_srli_epi64(_mm_sub_epi64(four.addresses01, base_), log_block_bytes);
        const __m128i block23 = _mm_srli_epi64(_mm_sub_epi64(four.addresses23, base_), log_block_bytes);
        block_ = _mm_max_epu32(block_, _mm_max_epu32(block01, block23));
        longest_ = _mm_max_epu32(longest_, four.lengths);
        shortest_ = _mm_min_epu32(shortest_, four.lengths);
    }
    /// All that was seen is within the limits.
    bool kept() const noexcept {
        // Both dwords of a block's number are the largest of all: at least the largest number.
        const auto block = static_cast<std::uint64_t>(
            _mm_cvtsi128_si64(_mm_max_epu32(block_, _mm_unpackhi_epi64(block_, block_))));
        const __m128i longest = _mm_max_epu32(longest_, _mm_unpackhi_epi64(longest_, longest_));
        const __m128i shortest = _mm_min_epu32(shortest_, _mm_unpackhi_epi64(shortest_, shortest_));
        const std::uint32_t most = dword(_mm_max_epu32(longest, _mm_srli_epi64(longest, 32)));
        const std::uint32_t least = dword(_mm_min_epu32(shortest, _mm_srli_epi64(shortest, 32)));
        return block < blocks_ && most <= max_bytes_ && least >= min_bytes_;
    }

  private:
    static constexpr int log_block_bytes = 11;

    static std::uint32_t dword(__m128i vector) noexcept {
        return static_cast<std::uint32_t>(_mm_cvtsi128_si32(vector));
    }

    __m128i base_;
    __m128i block_{};
    __m128i longest_{}, shortest_{_mm_set1_epi32(-1)};
    std::uint64_t blocks_{}; ///< 0: there is no such place
    std::uint32_t min_bytes_, max_bytes_;
};

} // namespace stride::mbufqp
