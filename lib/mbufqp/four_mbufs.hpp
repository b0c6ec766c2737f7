// SPDX-License-Identifier: BSD-3-Clause
/// Four single-segment mbufs at once, in SSE registers: what a data segment needs, and whether it may be
/// written, decided by one branch for all four.
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

/// The part of a key's range where a frame of any length lies in it whole, so that one comparison decides.
struct FrameKeys {
    std::uintptr_t base{};
    std::size_t span{}; ///< base and span 0: no such part
    be32 lkey{};

    FrameKeys(const ibv::KeyEntry& key, std::uint32_t max_frame_bytes) noexcept {
        if (key.range.bytes <= max_frame_bytes) return;
        base = key.range.base;
        span = key.range.bytes - max_frame_bytes;
        lkey = key.lkey;
    }
    bool cover(std::uintptr_t address) const noexcept { return address - base < span; }
};

/// data_off, refcnt, nb_segs, port. Another thread may be counting a reference down.
inline std::uint64_t rearm_word(const rte_mbuf* mbuf) noexcept {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(&mbuf->data_off), __ATOMIC_RELAXED);
}

inline __m128i load_two(const void* low, const void* high) noexcept {
    return _mm_castpd_si128(
        _mm_loadh_pd(_mm_load_sd(static_cast<const double*>(low)), static_cast<const double*>(high)));
}

struct FourMbufs {
    __m128i rearm01, rearm23; ///< rearm_word
    __m128i flags01, flags23; ///< ol_flags
    __m128i addresses01, addresses23;
    __m128i lengths; ///< data_len

    explicit FourMbufs(rte_mbuf* const* mbufs) noexcept {
        const rte_mbuf &m0 = *mbufs[0], &m1 = *mbufs[1], &m2 = *mbufs[2], &m3 = *mbufs[3];
        rearm01 = load_two(&m0.data_off, &m1.data_off);
        rearm23 = load_two(&m2.data_off, &m3.data_off);
        flags01 = load_two(&m0.ol_flags, &m1.ol_flags);
        flags23 = load_two(&m2.ol_flags, &m3.ol_flags);
        const __m128i offsets = _mm_set1_epi64x(0xffff);
        addresses01 = _mm_add_epi64(load_two(&m0.buf_addr, &m1.buf_addr), _mm_and_si128(rearm01, offsets));
        addresses23 = _mm_add_epi64(load_two(&m2.buf_addr, &m3.buf_addr), _mm_and_si128(rearm23, offsets));
        // data_len is the low half of a dword.
        lengths = _mm_cvtsi32_si128(length_dword(m0));
        lengths = _mm_insert_epi32(lengths, length_dword(m1), 1);
        lengths = _mm_insert_epi32(lengths, length_dword(m2), 2);
        lengths = _mm_insert_epi32(lengths, length_dword(m3), 3);
        lengths = _mm_and_si128(lengths, _mm_set1_epi32(0xffff));
    }

    /// All lengths are in [min, min + span] and all addresses covered. No term is negative if so.
    bool fit(std::uint32_t min_bytes, std::uint32_t span_bytes, const FrameKeys& keys) const noexcept {
        const __m128i over = _mm_sub_epi32(lengths, _mm_set1_epi32(static_cast<int>(min_bytes)));
        const __m128i left = _mm_sub_epi32(_mm_set1_epi32(static_cast<int>(span_bytes)), over);
        const __m128i base = _mm_set1_epi64x(static_cast<long long>(keys.base));
        const __m128i last = _mm_set1_epi64x(static_cast<long long>(keys.span) - 1);
        const __m128i at01 = _mm_sub_epi64(addresses01, base), at23 = _mm_sub_epi64(addresses23, base);
        const __m128i keys01 = _mm_or_si128(at01, _mm_sub_epi64(last, at01));
        const __m128i keys23 = _mm_or_si128(at23, _mm_sub_epi64(last, at23));
        const __m128 key_signs = _mm_shuffle_ps(_mm_castsi128_ps(keys01), _mm_castsi128_ps(keys23), 0xdd);
        const __m128i lengths_ok = _mm_or_si128(over, left);
        return _mm_movemask_ps(_mm_or_ps(key_signs, _mm_castsi128_ps(lengths_ok))) == 0;
    }
    /// All have these of the flags in `mask`.
    bool have_flags(std::uint64_t flags, std::uint64_t mask) const noexcept {
        const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(flags));
        const __m128i other = _mm_or_si128(_mm_xor_si128(flags01, wanted), _mm_xor_si128(flags23, wanted));
        return _mm_testz_si128(other, _mm_set1_epi64x(static_cast<long long>(mask))) != 0;
    }
    bool unchained() const noexcept {
        const __m128i other = _mm_xor_si128(_mm_or_si128(rearm01, rearm23), _mm_set1_epi64x(1LL << 32));
        return _mm_testz_si128(other, _mm_set1_epi64x(0xffffLL << 32)) != 0;
    }

    /// Their data segments, from `ds` on.
    void write(std::byte* ds, be32 lkey) const noexcept {
        const __m128i swap4 = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
        const __m128i swap8 = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
        const __m128i counts = _mm_shuffle_epi8(lengths, swap4);
        const __m128i lkeys = _mm_set1_epi32(static_cast<int>(lkey.wire()));
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

} // namespace stride::mbufqp
