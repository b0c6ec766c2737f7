// SPDX-License-Identifier: BSD-3-Clause
/// Frames copied into WQEs, in pieces of 16 bytes that may overlap, no byte beyond either end.
#pragma once

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

/// An inline segment of the mbuf's data; where the next DS is.
inline std::byte* put_inline_32_to_64(std::byte* ds, const rte_mbuf* mbuf) noexcept {
    const std::uint32_t bytes = mbuf->data_len;
    mlx5::write_inline_count(ds, bytes);
    copy_32_to_64(ds + sizeof(mlx5_wqe_inl_data_seg), rte_pktmbuf_mtod(mbuf, const std::byte*), bytes);
    return ds + std::size_t{mlx5::inline_frame_ds(bytes)} * mlx5::ds_bytes;
}

} // namespace stride::mbufqp
