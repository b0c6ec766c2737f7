// SPDX-License-Identifier: BSD-3-Clause
/// Frames copied into WQEs, in pieces of 16 bytes that may overlap, no byte beyond either end.
#pragma once

#include "mbufqp/four_mbufs.hpp"
#include "mlx5/wqe.hpp"

#include <rte_mbuf.h>

#include <smmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

inline constexpr std::uint32_t min_inline_copy_bytes = 8;

inline void copy_piece(std::byte* to, const std::byte* from, std::uint32_t offset) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + offset),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + offset)));
}
inline void copy_32_to_64(std::byte* to, const std::byte* from, std::uint32_t bytes) noexcept {
    copy_piece(to, from, 0);
    copy_piece(to, from, 16);
    copy_piece(to, from, bytes - 32);
    copy_piece(to, from, bytes - 16);
}
[[gnu::noinline]] inline void copy_other(std::byte* to, const std::byte* from, std::uint32_t bytes) noexcept {
    if (bytes < 16) {
        std::memcpy(to, from, 8);
        std::memcpy(to + bytes - 8, from + bytes - 8, 8);
        return;
    }
    for (std::uint32_t at = 0; at + 16 < bytes; at += 16)
        copy_piece(to, from, at);
    copy_piece(to, from, bytes - 16);
}
/// Any length from min_inline_copy_bytes.
inline void copy_frame(std::byte* to, const std::byte* from, std::uint32_t bytes) noexcept {
    if (bytes < 32 || bytes > 64) [[unlikely]]
        return copy_other(to, from, bytes);
    copy_32_to_64(to, from, bytes);
}

/// Frames of one length in a WQE, as inline segments: where each goes is known beforehand.
class AlikeFrames {
  public:
    static bool takes(std::uint32_t bytes) noexcept { return bytes - 32 <= 64 - 32; }
    /// `bytes` is one of those it takes.
    explicit AlikeFrames(std::uint32_t bytes) noexcept
        : bytes_{bytes}
        , segment_ds_{mlx5::inline_frame_ds(bytes)} {}

    std::uint32_t bytes() const noexcept { return bytes_; }
    std::uint32_t segment_ds() const noexcept { return segment_ds_; }
    /// Frames that so many DS of a WQE hold; none if it is less than nothing.
    std::uint32_t fit(std::uint32_t ds) const noexcept {
        // 2^16 / segment_ds, rounded up: the quotient has 6 bits.
        const std::uint32_t inverse = segment_ds_ == 5 ? 13108U : segment_ds_ == 4 ? 16384U : 21846U;
        return ds > mlx5::max_wqe_ds ? 0 : ds * inverse >> 16;
    }

  private:
    std::uint32_t bytes_, segment_ds_;
};

/// What the frames of a burst have in their mbufs, as SentRun and the features of a queue ask.
struct AlikeSeen {
    __m128i any{}, all{_mm_set1_epi64x(-1)}; ///< bits of mbuf_words()
    __m128i other_pools{};                   ///< bits that differ from `home`, if pools are looked at
    rte_mempool* home{};
};

/// Copies frames from the front, at most `count`, a multiple of four, for as long as fours have the length of
/// `shape`; how many. `pools`: whether mbufs may be of several; `in_common`: whether AlikeSeen::all is asked
/// for.
template <bool pools, bool in_common>
std::uint32_t copy_alike(AlikeFrames shape, std::byte* ds, rte_mbuf* const* mbufs, std::uint32_t count,
                         AlikeSeen& seen) noexcept;

} // namespace stride::mbufqp
