// SPDX-License-Identifier: BSD-3-Clause
/// Four completions of a striding queue, looked at together with SSE4.1: whether all are packets that follow
/// each other within the WQE, and where each lies. What it accepts, StrideMap would accept one by one.
#pragma once

#include "base/owner.hpp"
#include "mlx5/receive_cqe.hpp"
#include "mlx5/strides.hpp"

#include <smmintrin.h>

#include <cstddef>
#include <cstdint>

namespace stride::mlx5 {

/// What makes a completion an ordinary packet, spread over four lanes; made once for a queue.
struct alignas(16) QuadLimits {
    std::uint32_t max_frame_bytes{}, round_up_bytes{}; ///< round_up: shift + stride - 1
    std::uint32_t log_stride_bytes{}, strides{};

    static QuadLimits of(const StrideMap& map, std::uint32_t max_frame_bytes) noexcept {
        return {max_frame_bytes, map.shift_bytes() + map.stride_bytes() - 1, map.log_stride_bytes(),
                map.strides()};
    }
};

class CqeQuad {
  public:
    /// Reads four CQEs that lie `step` bytes apart, without wrapping. False: not all are software's (by
    /// `owner`, 0 or 1), plain and not compressed, or they are no packets of 1 to max_frame_bytes that take
    /// the strides from `consumed` on without a gap, up to the WQE's end at most.
    [[gnu::always_inline]] bool take(const mlx5_cqe64* first, std::size_t step, unsigned owner,
                                     const QuadLimits& limits, std::uint32_t consumed) noexcept {
        const auto* at = reinterpret_cast<const std::byte*>(first);
        const std::byte* const cqes[4] = {at, at + step, at + 2 * step, at + 3 * step};
        const __m128i tails = gather_tails(cqes);
        const __m128i own =
            _mm_set1_epi32(static_cast<int>((unsigned{MLX5_CQE_RESP_SEND} << 4 | owner) << 24));
        const __m128i own_mask = _mm_set1_epi32(static_cast<int>(~cqe_solicited_bit << 24));
        __m128i odd = _mm_xor_si128(_mm_and_si128(tails, own_mask), own);
        // Not ours yet in most of the bursts' last calls: the rest is not to be read then.
        if (_mm_testz_si128(odd, odd) == 0) return false;

        const __m128i counts = gather_counts(cqes);
        bytes_ = _mm_and_si128(counts, _mm_set1_epi32(0xffff));
        const __m128i strides = _mm_srli_epi32(counts, 16); // a filler has 0x8000 and more
        __m128i ends = _mm_add_epi32(strides, _mm_slli_si128(strides, 4));
        ends = _mm_add_epi32(ends, _mm_slli_si128(ends, 8));
        ends = _mm_add_epi32(ends, spread(consumed));
        firsts_ = _mm_sub_epi32(ends, strides);
        end_ = static_cast<std::uint32_t>(_mm_extract_epi32(ends, 3));

        const __m128i needed = _mm_srl_epi32(_mm_add_epi32(bytes_, spread(limits.round_up_bytes)),
                                             _mm_cvtsi32_si128(static_cast<int>(limits.log_stride_bytes)));
        odd = _mm_xor_si128(counters_of(tails), firsts_);
        odd = _mm_or_si128(odd, _mm_cmpgt_epi32(needed, strides));
        odd = _mm_or_si128(odd, _mm_cmpgt_epi32(bytes_, spread(limits.max_frame_bytes)));
        odd = _mm_or_si128(odd, _mm_cmpeq_epi32(bytes_, _mm_setzero_si128()));
        odd = _mm_or_si128(odd, _mm_srli_epi32(counts, 31));
        return _mm_testz_si128(odd, odd) != 0 && end_ <= limits.strides;
    }

    /// First stride of each packet, and the one behind the last; bytes of each.
    void store(std::uint32_t (&firsts)[5], std::uint32_t (&bytes)[4]) const noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(firsts), firsts_);
        firsts[4] = end_;
        store_bytes(bytes);
    }
    void store_bytes(std::uint32_t (&bytes)[4]) const noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), bytes_);
    }
    /// Bit n: packet n is longer than `limit`.
    unsigned longer_than(std::uint32_t limit) const noexcept {
        return static_cast<unsigned>(
            _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(bytes_, spread(limit)))));
    }
    /// Stride behind the last packet.
    std::uint32_t end() const noexcept { return end_; }

  private:
    static constexpr std::size_t tail_offset = 60; ///< wqe_counter, signature, op_own
    static_assert(offsetof(mlx5_cqe64, wqe_counter) == tail_offset);
    static_assert(offsetof(mlx5_cqe64, op_own) == tail_offset + 3);

    static __m128i spread(std::uint32_t value) noexcept { return _mm_set1_epi32(static_cast<int>(value)); }
    static int tail(const std::byte* cqe) noexcept {
        return load_with_owner(reinterpret_cast<const int*>(cqe + tail_offset));
    }
    static int count(const std::byte* cqe) noexcept {
        return *reinterpret_cast<const int*>(cqe + offsetof(mlx5_cqe64, byte_cnt));
    }
    static __m128i gather_tails(const std::byte* const (&cqes)[4]) noexcept {
        return _mm_setr_epi32(tail(cqes[0]), tail(cqes[1]), tail(cqes[2]), tail(cqes[3]));
    }
    static __m128i gather_counts(const std::byte* const (&cqes)[4]) noexcept {
        const __m128i wire = _mm_setr_epi32(count(cqes[0]), count(cqes[1]), count(cqes[2]), count(cqes[3]));
        return _mm_shuffle_epi8(wire, _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    }
    static __m128i counters_of(__m128i tails) noexcept {
        return _mm_shuffle_epi8(tails,
                                _mm_setr_epi8(1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12, -1, -1));
    }

    __m128i bytes_, firsts_;
    std::uint32_t end_;
};

} // namespace stride::mlx5
