// SPDX-License-Identifier: BSD-3-Clause
/// Compressed completions (ConnectX PRM, "CQE Compression"): a title CQE, whose byte_cnt says for how many
/// completions it stands, and arrays of 8 mini-CQEs in the places of the 2nd, the 9th, the 17th ... of these.
/// What a mini-CQE does not say is as in the title.
#pragma once

#include "mlx5/cq_cursor.hpp"

#include <smmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace stride::mlx5 {

/// Format CSUM_STRIDX: says where each packet lies, but not its RSS hash.
struct StrideMiniCqe {
    be16 checksum; ///< of the payload, not used
    be16 stride_index;
    be32 byte_cnt; ///< as in a CQE: filler, strides, bytes
};
/// Format HASH: packets lie side by side, from the title's stride on.
struct HashMiniCqe {
    be32 rx_hash_result;
    be32 byte_cnt;
};
static_assert(sizeof(StrideMiniCqe) == 8 && sizeof(HashMiniCqe) == 8);

inline constexpr std::uint32_t mini_cqes_per_array = 8;

inline bool is_compressed(std::uint8_t op_own) noexcept { return format_of(op_own) == CqeFormat::compressed; }
/// Completions that a title stands for; not checked.
inline std::uint32_t compressed_count(const mlx5_cqe64& title) noexcept { return byte_count(title); }

/// Turns the block at the cursor, `count` completions (at most a ring of them), into ordinary CQEs, in the
/// places that the device left for that. Mini: what the CQ was made for. The caller has read the title's
/// owner bit.
template <class Mini>
inline void expand_block(const CqCursor& cq, std::uint32_t count) noexcept {
    static_assert(offsetof(mlx5_cqe64, byte_cnt) == 2 * 16 + 12 && cqe_rx_hash_result_offset == 12 &&
                  offsetof(mlx5_cqe64, wqe_counter) == 3 * 16 + 12);
    const auto* title = reinterpret_cast<const __m128i*>(cq.at(cq.ci()));
    const __m128i parts[4] = {_mm_loadu_si128(title), _mm_loadu_si128(title + 1), _mm_loadu_si128(title + 2),
                              _mm_loadu_si128(title + 3)};
    std::uint32_t next_stride = wqe_counter(*cq.at(cq.ci()));
    Mini minis[mini_cqes_per_array];
    for (std::uint32_t n = 0; n < count; ++n) {
        const std::uint32_t at = n % mini_cqes_per_array;
        // Read before its place is written.
        if (at == 0) std::memcpy(minis, cq.at(cq.ci() + (n == 0 ? 1 : n)), sizeof minis);
        const Mini& mini = minis[at];
        __m128i first = parts[0];
        be16 stride{static_cast<std::uint16_t>(next_stride)};
        if constexpr (std::is_same_v<Mini, HashMiniCqe>) {
            first = _mm_insert_epi32(first, static_cast<int>(mini.rx_hash_result.wire()), 3);
            next_stride += StridingByteCount{mini.byte_cnt.host()}.strides();
        } else {
            stride = mini.stride_index;
        }
        const unsigned op_own = unsigned{MLX5_CQE_RESP_SEND} << 4 | cq.owner(cq.ci() + n);
        auto* to = reinterpret_cast<__m128i*>(cq.writable(cq.ci() + n));
        // Whole parts: whoever reads a field next finds it in one store.
        _mm_storeu_si128(to, first);
        _mm_storeu_si128(to + 1, parts[1]);
        _mm_storeu_si128(to + 2, _mm_insert_epi32(parts[2], static_cast<int>(mini.byte_cnt.wire()), 3));
        _mm_storeu_si128(to + 3,
                         _mm_insert_epi32(parts[3], static_cast<int>(stride.wire() | op_own << 24), 3));
    }
}

} // namespace stride::mlx5
