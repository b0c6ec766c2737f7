// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/inline_copy.hpp"

namespace stride::mbufqp {
namespace {

/// Of four mbufs: bits in which a pool differs from `home`.
inline __m128i other_pools(const FourMbufs& four, rte_mempool* home) noexcept {
    const __m128i homes = _mm_set1_epi64x(static_cast<long long>(reinterpret_cast<std::uintptr_t>(home)));
    return _mm_or_si128(_mm_xor_si128(load_two(&four.m0->pool, &four.m1->pool), homes),
                        _mm_xor_si128(load_two(&four.m2->pool, &four.m3->pool), homes));
}

/// Inlined where `shape` is known, that all offsets are, too.
template <bool pools, bool in_common>
[[gnu::always_inline]] inline std::uint32_t copy_of(AlikeFrames shape, std::byte* ds, rte_mbuf* const* mbufs,
                                                    std::uint32_t count, AlikeSeen& seen) noexcept {
    const std::uint32_t bytes = shape.bytes();
    const std::size_t segment_bytes = std::size_t{shape.segment_ds()} * mlx5::ds_bytes;
    const __m128i lengths = _mm_set1_epi32(static_cast<int>(bytes));
    AlikeSeen now = seen;
    std::uint32_t taken = 0;
    for (; taken < count; taken += 4) {
        const FourMbufs four{mbufs + taken};
        if (_mm_movemask_epi8(_mm_cmpeq_epi32(four.lengths, lengths)) != 0xffff) break;
        now.any = _mm_or_si128(now.any, four.words());
        if constexpr (in_common) now.all = _mm_and_si128(now.all, four.words_in_common());
        if constexpr (pools) now.other_pools = _mm_or_si128(now.other_pools, other_pools(four, now.home));
        for (const rte_mbuf* mbuf : {four.m0, four.m1, four.m2, four.m3}) {
            mlx5::write_inline_count(ds, bytes);
            copy_32_to_64(ds + sizeof(mlx5_wqe_inl_data_seg), rte_pktmbuf_mtod(mbuf, const std::byte*),
                          bytes);
            ds += segment_bytes;
        }
    }
    seen = now;
    return taken;
}

} // namespace

template <bool pools, bool in_common>
std::uint32_t copy_alike(AlikeFrames shape, std::byte* ds, rte_mbuf* const* mbufs, std::uint32_t count,
                         AlikeSeen& seen) noexcept {
    // The smallest frame without FCS, and with it.
    if (shape.bytes() == 60) return copy_of<pools, in_common>(AlikeFrames{60}, ds, mbufs, count, seen);
    if (shape.bytes() == 64) return copy_of<pools, in_common>(AlikeFrames{64}, ds, mbufs, count, seen);
    return copy_of<pools, in_common>(shape, ds, mbufs, count, seen);
}
template std::uint32_t copy_alike<false, false>(AlikeFrames, std::byte*, rte_mbuf* const*, std::uint32_t,
                                                AlikeSeen&) noexcept;
template std::uint32_t copy_alike<false, true>(AlikeFrames, std::byte*, rte_mbuf* const*, std::uint32_t,
                                               AlikeSeen&) noexcept;
template std::uint32_t copy_alike<true, false>(AlikeFrames, std::byte*, rte_mbuf* const*, std::uint32_t,
                                               AlikeSeen&) noexcept;
template std::uint32_t copy_alike<true, true>(AlikeFrames, std::byte*, rte_mbuf* const*, std::uint32_t,
                                              AlikeSeen&) noexcept;

} // namespace stride::mbufqp
