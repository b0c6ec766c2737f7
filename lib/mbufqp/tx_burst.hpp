// SPDX-License-Identifier: BSD-3-Clause
/// put: mbufs to WQEs. One template over encap and features; nothing is tested per packet that the queue does
/// not use.
///
/// Runs of plain packets share enhanced-MPW WQEs ("sessions"). A session ends at the end of the ring, so its
/// loop has no wrap in it; any other packet is a SEND WQE of its own, built through a cursor that wraps.
#pragma once

#include "mbufqp/encap/header.hpp"
#include "mbufqp/four_mbufs.hpp"
#include "mbufqp/held_mbufs.hpp"
#include "mbufqp/inline_copy.hpp"
#include "mbufqp/sent_run.hpp"
#include "mbufqp/tso.hpp"
#include "mbufqp/tx_queue.hpp"
#include "mlx5/doorbell.hpp"
#include "mlx5/wqe.hpp"

#include <rte_mbuf.h>

#include <smmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

/// Checksum flags of the Ethernet segment for mbuf offload flags.
constexpr std::uint8_t checksum_flags(std::uint64_t ol_flags) noexcept {
    const unsigned l3 = (ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0 ? unsigned{MLX5_ETH_WQE_L3_CSUM} : 0U;
    const unsigned l4 = (ol_flags & RTE_MBUF_F_TX_L4_MASK) != 0 ? unsigned{MLX5_ETH_WQE_L4_CSUM} : 0U;
    return static_cast<std::uint8_t>(l3 | l4);
}

template <class Encap, TxFeatures::Bits bits>
class Burst {
  public:
    /// A TxBurst.
    static std::uint16_t put(void* queue_pointer, rte_mbuf** mbufs, std::uint16_t count) noexcept {
        TxQueue& queue = *static_cast<TxQueue*>(queue_pointer);
        TxHot& hot = queue.hot();
        if (hot.broken) [[unlikely]]
            queue.recover();
        else if (mlx5::send_cqe_kind(hot.cq) != mlx5::SendCqeKind::hardware)
            queue.reclaim(TxQueue::reclaim_max_cqes);
        if (hot.broken) [[unlikely]]
            return 0;
        if (hot.generation != nullptr &&
            hot.generation->load(std::memory_order_acquire) != hot.key_generation) [[unlikely]]
            queue.forget_keys();
        Burst burst{queue, hot};
        return burst.run(mbufs, count);
    }

  private:
    static constexpr TxFeatures features = TxFeatures::from_bits(bits);
    static constexpr bool multi_segment = features.has(TxFeature::multi_segment);
    static constexpr bool checksum = features.has(TxFeature::checksum);
    static constexpr bool vlan_insert = features.has(TxFeature::vlan_insert);
    static constexpr bool sessions = features.has(TxFeature::multi_packet) && Encap::shares_wqe;
    static constexpr bool inline_frames = features.has(TxFeature::inline_frames) && sessions;
    static constexpr bool tso = features.has(TxFeature::tso);
    using Sent = SentRun<features.has(TxFeature::fast_free)>;
    static constexpr bool has_header = Encap::has_header(features);
    static constexpr bool has_trailer = Encap::max_trailer_bytes != 0;
    /// mbuf flags that all packets of a session agree on.
    static constexpr std::uint64_t session_flags =
        (checksum ? RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IP_CKSUM : 0) |
        (vlan_insert ? RTE_MBUF_F_TX_VLAN : 0) | (tso ? RTE_MBUF_F_TX_TCP_SEG : 0);
    /// Those of a packet that has a WQE of its own.
    static constexpr std::uint64_t alone_flags = session_flags & (RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_TCP_SEG);
    /// Control and Ethernet segment of a session.
    static constexpr std::uint32_t session_head_ds = 2;

    Burst(TxQueue& queue, TxHot& hot) noexcept
        : queue_{queue}
        , hot_{hot}
        , key_{hot.key}
        , pi_{hot.pi}
        , mbuf_head_{hot.mbuf_head} {}

    /// Inlined, as is what it calls: only so do the members stay in registers.
    [[gnu::always_inline]] std::uint16_t run(rte_mbuf** mbufs, std::uint16_t count) noexcept {
        const std::uint32_t room =
            hot_.mbuf_mask + 1U - static_cast<std::uint16_t>(mbuf_head_ - hot_.mbuf_tail);
        const std::uint32_t wanted = std::min<std::uint32_t>(count, room);
        std::uint32_t done = 0;
        while (done < wanted) {
            std::uint32_t taken = 0;
            if (inline_frames && by_four_) taken = put_alike(mbufs + done, wanted - done);
            if (sessions && taken == 0) taken = put_session(mbufs + done, wanted - done);
            if (taken == 0) {
                if (!put_alone(mbufs + done)) break;
                taken = 1;
            }
            done += taken;
        }
        if (done < count && !refused_) [[unlikely]]
            queue_.count_full();
        if (done != 0) [[likely]]
            finish(mbufs, done);
        return static_cast<std::uint16_t>(done);
    }

    std::uint32_t free_wqebbs() const noexcept {
        return hot_.wqebb_mask + 1U - static_cast<std::uint16_t>(pi_ - hot_.ci);
    }
    std::byte* wqe_at_pi() const noexcept {
        return hot_.wqebbs + std::size_t{pi_ & unsigned{hot_.wqebb_mask}} * mlx5::wqebb_bytes;
    }

    std::uint32_t inline_max_bytes() const noexcept {
        return std::min<std::uint32_t>(hot_.inline_max_bytes, hot_.max_frame_bytes);
    }
    /// DS that a session may have: it ends at the end of the ring.
    std::uint32_t session_limit_ds() const noexcept {
        const std::uint32_t to_end = hot_.wqebb_mask + 1U - (pi_ & unsigned{hot_.wqebb_mask});
        return std::min({free_wqebbs() * mlx5::ds_per_wqebb, to_end * mlx5::ds_per_wqebb, mlx5::max_wqe_ds});
    }

    /// Frames from the front that all go inline and have one length, by fours, in enhanced-MPW WQEs; how
    /// many. Ends at the end of the ring, or where they are not alike: then no more is tried in this burst.
    [[gnu::always_inline]] std::uint32_t put_alike(rte_mbuf** mbufs, std::uint32_t count) noexcept {
        const std::uint32_t bytes = mbufs[0]->data_len;
        const std::uint64_t flags = mbufs[0]->ol_flags & session_flags;
        by_four_ = AlikeFrames::takes(bytes) && bytes <= inline_max_bytes() && (flags & alone_flags) == 0;
        if (!by_four_) return 0;
        const AlikeFrames frames{bytes};
        AlikeSeen seen{.home = mbufs[0]->pool};
        std::uint32_t done = 0, gone = 0;
        while (by_four_) {
            const std::uint32_t fit = frames.fit(session_limit_ds() - session_head_ds);
            const std::uint32_t most = std::min(count - done, fit) & ~3U;
            if (most == 0) break;
            std::byte* const wqe = wqe_at_pi();
            const std::uint32_t taken = copy_alike<!Sent::one_pool, session_flags != 0>(
                frames, wqe + std::size_t{session_head_ds} * mlx5::ds_bytes, mbufs + done, most, seen);
            by_four_ = taken == most && all_suit(flags, seen.any, seen.all);
            if (taken == 0 || !all_suit(flags, seen.any, seen.all)) break;
            rte_mempool* const home = Sent::home_of(seen);
            mlx5::write_eth_segment(wqe + mlx5::ds_bytes, {.cs_flags = checksum_flags(flags)});
            commit(wqe, mlx5::SendOpcode::enhanced_mpw, session_head_ds + taken * frames.segment_ds(), taken,
                   home != nullptr ? 0 : taken, home);
            done += taken;
            if (home != nullptr) gone = done;
        }
        if (gone != 0) held_.hold(hot_, mbufs, gone, mbufs[0]->pool);
        if (gone != done) held_.hold(hot_, mbufs + gone, done - gone, nullptr);
        bytes_ += std::uint64_t{done} * bytes;
        inlined_ += done;
        return done;
    }

    /// One enhanced-MPW WQE of packets from the front; how many. 0: no room, or the first is not for a
    /// session.
    [[gnu::always_inline]] std::uint32_t put_session(rte_mbuf** mbufs, std::uint32_t count) noexcept {
        const std::uint32_t limit_ds = session_limit_ds();
        if (limit_ds <= session_head_ds) return 0;
        const std::uint64_t flags = mbufs[0]->ol_flags & session_flags;
        if ((flags & alone_flags) != 0) return 0;

        std::byte* const wqe = wqe_at_pi();
        Session session{.ds = wqe + session_head_ds * mlx5::ds_bytes,
                        .end = wqe + limit_ds * mlx5::ds_bytes,
                        .flags = flags,
                        .count = inline_frames ? count : std::min(count, limit_ds - session_head_ds),
                        .sent = Sent{mbufs[0]}};
        const std::uint32_t taken =
            inline_frames ? fill_mixed(session, mbufs) : fill_pointers(session, mbufs);
        if (taken == 0) return 0;
        mlx5::write_eth_segment(wqe + mlx5::ds_bytes, {.cs_flags = checksum_flags(flags)});
        bytes_ += session.bytes;
        rte_mempool* const home = session.sent.home();
        bool gone = false;
        if constexpr (inline_frames)
            gone = held_.hold(hot_, mbufs, taken, session.pointers == 0 ? home : nullptr);
        commit(wqe, mlx5::SendOpcode::enhanced_mpw,
               static_cast<std::uint32_t>(session.ds - wqe) / mlx5::ds_bytes, taken, gone ? 0 : taken, home);
        return taken;
    }

    struct Session {
        std::byte* ds; ///< the next to be written
        const std::byte* end;
        std::uint64_t flags;      ///< of session_flags, that all its packets have
        std::uint32_t count;      ///< packets at most
        std::uint32_t pointers{}; ///< packets that are not inlined
        std::uint64_t bytes{};
        Sent sent;
    };
    static bool fits_session(const Session& session, const rte_mbuf* mbuf) noexcept {
        if (session_flags != 0 && (mbuf->ol_flags & session_flags) != session.flags) return false;
        return !multi_segment || mbuf->nb_segs == 1;
    }

    /// Frames by pointer, a DS each; how many.
    std::uint32_t fill_pointers(Session& to, rte_mbuf** mbufs) noexcept {
        Session session = to;
        std::uint32_t taken = fill_by_four(session, mbufs);
        for (; taken < session.count; ++taken) {
            const rte_mbuf* const mbuf = mbufs[taken];
            const std::uint32_t bytes = mbuf->data_len;
            if (!fits_session(session, mbuf) || !length_fits(bytes)) break;
            const auto address = rte_pktmbuf_mtod(mbuf, std::uintptr_t);
            if (!find_key(address, bytes)) break;
            mlx5::write_data_segment(session.ds, address, bytes, key_.lkey);
            session.ds += mlx5::ds_bytes;
            session.bytes += bytes;
            session.sent.add(mbuf);
        }
        to = session;
        return taken;
    }
    /// Whole fours from the front if all of them are for the session and under the key of the last packet;
    /// else none, and no more is tried in this burst.
    std::uint32_t fill_by_four(Session& session, rte_mbuf** mbufs) noexcept {
        FrameLimits limits{key_, Encap::min_frame_bytes, hot_.max_frame_bytes};
        const std::uint32_t count = session.count & ~3U;
        if (!by_four_ || count == 0 || !limits.any()) return 0;
        const __m128i lkeys = _mm_set1_epi32(static_cast<int>(key_.lkey.wire()));
        Sent sent = session.sent;
        std::byte* const ds = session.ds;
        __m128i bytes = _mm_setzero_si128();
        __m128i common = _mm_set1_epi64x(-1);
        for (std::uint32_t at = 0; at < count; at += 4) {
            const FourMbufs four{mbufs + at};
            // Stores to the ring come last: for all the compiler knows they might change mbufs.
            sent.add(four);
            if constexpr (session_flags != 0) common = _mm_and_si128(common, four.words_in_common());
            limits.see(four);
            bytes = _mm_add_epi32(bytes, four.lengths);
            four.write(ds + std::size_t{at} * mlx5::ds_bytes, lkeys);
        }
        by_four_ = limits.kept() && all_suit(session.flags, sent.words(), common);
        if (!by_four_) [[unlikely]]
            return 0;
        session.bytes += sum_of(bytes);
        session.ds += std::size_t{count} * mlx5::ds_bytes;
        session.sent = sent;
        return count;
    }
    static std::uint32_t sum_of(__m128i dwords) noexcept {
        const __m128i pairs = _mm_hadd_epi32(dwords, dwords);
        return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_hadd_epi32(pairs, pairs)));
    }
    /// Of mbufs of which `any` has the bits, and all have those `in_common`: they are all for a session of
    /// such `flags`.
    static bool all_suit(std::uint64_t flags, __m128i any, __m128i in_common) noexcept {
        if (multi_segment && (low_half(any) >> 32 & 0xffff) != 1) return false;
        return session_flags == 0 ||
               ((high_half(any) & session_flags) == flags && (high_half(in_common) & session_flags) == flags);
    }

    /// Frames inline where they are short enough, else by pointer; how many.
    std::uint32_t fill_mixed(Session& to, rte_mbuf** mbufs) noexcept {
        Session session = to;
        const std::uint32_t inline_max = inline_max_bytes();
        std::uint32_t taken = 0;
        while (true) {
            taken = fill_inline(session, mbufs, taken, inline_max);
            if (taken == session.count || session.ds == session.end) break;
            const rte_mbuf* const mbuf = mbufs[taken];
            const std::uint32_t bytes = mbuf->data_len;
            if (!fits_session(session, mbuf) || !length_fits(bytes)) break;
            // The next session has room for it; the last few DS of the ring do not: there it is pointed to.
            if (bytes <= inline_max && taken != 0) break;
            const auto address = rte_pktmbuf_mtod(mbuf, std::uintptr_t);
            if (!find_key(address, bytes)) break;
            mlx5::write_data_segment(session.ds, address, bytes, key_.lkey);
            session.ds += mlx5::ds_bytes;
            session.bytes += bytes;
            session.sent.add(mbuf);
            ++session.pointers;
            ++taken;
        }
        inlined_ += taken - session.pointers;
        to = session;
        return taken;
    }
    /// Copies frames from `mbufs[taken]` on while they are short enough and there is room; how many are taken
    /// then.
    static std::uint32_t fill_inline(Session& session, rte_mbuf** mbufs, std::uint32_t taken,
                                     std::uint32_t inline_max) noexcept {
        if (inline_max < Encap::min_frame_bytes) return taken;
        std::byte* ds = session.ds;
        Sent sent = session.sent;
        for (; taken < session.count; ++taken) {
            const rte_mbuf* const mbuf = mbufs[taken];
            const std::uint32_t bytes = mbuf->data_len;
            std::byte* const behind = ds + mlx5::inline_frame_ds(bytes) * mlx5::ds_bytes;
            if (bytes - Encap::min_frame_bytes > inline_max - Encap::min_frame_bytes) break;
            if (behind > session.end || !fits_session(session, mbuf)) break;
            static_assert(Encap::min_frame_bytes >= min_inline_copy_bytes);
            mlx5::write_inline_count(ds, bytes);
            copy_frame(ds + sizeof(mlx5_wqe_inl_data_seg), rte_pktmbuf_mtod(mbuf, const std::byte*), bytes);
            ds = behind;
            session.bytes += bytes;
            sent.add(mbuf);
        }
        session.ds = ds;
        session.sent = sent;
        return taken;
    }

    /// A SEND WQE of its own for any packet; false if there is no room or it is refused.
    [[gnu::always_inline]] bool put_alone(rte_mbuf** slot_of_mbuf) noexcept {
        rte_mbuf* const mbuf = *slot_of_mbuf;
        if (tso && (mbuf->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) return put_tso(slot_of_mbuf);
        const std::uint32_t frame_bytes = multi_segment ? mbuf->pkt_len : mbuf->data_len;
        if (!length_fits(frame_bytes))
            return refuse(frame_bytes < Encap::min_frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
        // The address is written where it stays.
        const std::uint32_t room_wqebbs = free_wqebbs();
        if (Encap::address_ds != 0 && room_wqebbs == 0) return false;
        std::array<std::byte, Encap::max_header_bytes> header_bytes;
        InlineHeader header{};
        if constexpr (has_header) header = make_header(mbuf, frame_bytes, header_bytes.data());
        if (Encap::may_refuse && !header.ok()) [[unlikely]]
            return refuse(header.refusal);

        if constexpr (!has_trailer)
            if (is_usual(mbuf, frame_bytes, header))
                return put_usual(slot_of_mbuf, header, header_bytes.data());
        const std::uint32_t head_ds = 1 + Encap::address_ds + mlx5::eth_segment_ds(header.inlined_bytes);
        const std::uint32_t tail_ds = trailer_ds(mbuf, frame_bytes);
        const std::uint32_t segments = multi_segment ? mbuf->nb_segs : 1U;
        const std::uint32_t limit_ds = std::min(head_ds + segments, mlx5::max_wqe_ds - tail_ds);
        if (mlx5::wqebbs_of_ds(limit_ds + tail_ds) > room_wqebbs) return false;

        std::byte* const wqe = wqe_at_pi();
        mlx5::DsCursor cursor{hot_.wqebbs, ring_end(), wqe};
        if constexpr (Encap::address_ds != 0) {
            cursor.advance(Encap::address_ds);
            std::memset(cursor.ds(), 0, mlx5::ds_bytes); // the pad behind the address
        }
        cursor.advance(1);
        const std::uint8_t cs_flags = checksum ? checksum_flags(mbuf->ol_flags) : std::uint8_t{0};
        mlx5::write_eth_segment(
            cursor.ds(),
            {.cs_flags = cs_flags, .header_bytes = static_cast<std::uint16_t>(header.inlined_bytes)});
        if constexpr (has_header)
            cursor.copy(mlx5::eth_header_offset, header_bytes.data(), header.inlined_bytes);
        cursor.advance(mlx5::eth_segment_ds(header.inlined_bytes));
        const std::uint32_t data_ds = write_segments(mbuf, header.taken_bytes, cursor, limit_ds - head_ds);
        if (data_ds == no_segments || !gathered_is(frame_bytes)) return false;
        if constexpr (has_trailer) write_trailer(bytes_with_tag(mbuf, frame_bytes), cursor);
        bytes_ += frame_bytes;
        Sent sent{mbuf};
        sent.add(mbuf);
        if constexpr (inline_frames) held_.hold(hot_, slot_of_mbuf, 1, nullptr);
        commit(wqe, mlx5::SendOpcode::send, head_ds + data_ds + tail_ds, 1, 1, sent.home());
        return true;
    }

    /// A packet in one piece, with a header of the usual length, in a WQE that does not run over the end of
    /// the ring: every offset in it is known beforehand.
    static constexpr std::uint32_t usual_header_bytes = has_header ? Encap::usual_header_bytes : 0;
    static constexpr std::uint32_t usual_head_ds =
        1 + Encap::address_ds + mlx5::eth_segment_ds(usual_header_bytes);
    static constexpr std::uint32_t usual_wqe_wqebbs = mlx5::wqebbs_of_ds(usual_head_ds + 1);
    bool is_usual(const rte_mbuf* mbuf, std::uint32_t frame_bytes,
                  const InlineHeader& header) const noexcept {
        const std::uint32_t to_end = hot_.wqebb_mask + 1U - (pi_ & unsigned{hot_.wqebb_mask});
        return (!has_header || header.inlined_bytes == usual_header_bytes) &&
               (!multi_segment || (mbuf->nb_segs == 1 && mbuf->data_len == frame_bytes)) &&
               frame_bytes > header.taken_bytes && usual_wqe_wqebbs <= std::min(to_end, free_wqebbs());
    }
    [[gnu::always_inline]] bool put_usual(rte_mbuf** slot_of_mbuf, const InlineHeader& header,
                                          const std::byte* header_bytes) noexcept {
        const rte_mbuf* const mbuf = *slot_of_mbuf;
        const std::uint32_t bytes = mbuf->data_len - header.taken_bytes;
        const std::uintptr_t address = rte_pktmbuf_mtod(mbuf, std::uintptr_t) + header.taken_bytes;
        if (!find_key(address, bytes)) return refuse(TxRefusal::no_key);
        std::byte* const wqe = wqe_at_pi();
        std::byte* const eth = wqe + std::size_t{1 + Encap::address_ds} * mlx5::ds_bytes;
        if constexpr (Encap::address_ds != 0) std::memset(eth - mlx5::ds_bytes, 0, mlx5::ds_bytes);
        const std::uint8_t cs_flags = checksum ? checksum_flags(mbuf->ol_flags) : std::uint8_t{0};
        mlx5::write_eth_segment(eth, {.cs_flags = cs_flags, .header_bytes = usual_header_bytes});
        std::memcpy(eth + mlx5::eth_header_offset, header_bytes, usual_header_bytes);
        mlx5::write_data_segment(wqe + std::size_t{usual_head_ds} * mlx5::ds_bytes, address, bytes,
                                 key_.lkey);
        bytes_ += mbuf->data_len;
        Sent sent{mbuf};
        sent.add(mbuf);
        if constexpr (inline_frames) held_.hold(hot_, slot_of_mbuf, 1, nullptr);
        commit(wqe, mlx5::SendOpcode::send, usual_head_ds + 1, 1, 1, sent.home());
        return true;
    }

    /// A WQE that the HCA makes many frames of.
    [[gnu::always_inline]] bool put_tso(rte_mbuf** slot_of_mbuf) noexcept {
        rte_mbuf* const mbuf = *slot_of_mbuf;
        const TxRefusal wrong = check_tso(*mbuf, {hot_.max_frame_bytes, hot_.max_tso_bytes});
        if (wrong != TxRefusal::count) return refuse(wrong);
        const bool tag = vlan_insert && (mbuf->ol_flags & RTE_MBUF_F_TX_VLAN) != 0;
        const std::uint32_t taken_bytes = tso_header_bytes(*mbuf);
        const std::uint32_t head_ds = tso_head_ds(taken_bytes + (tag ? vlan_tag_bytes : 0));
        const std::uint32_t limit_ds = std::min(head_ds + mbuf->nb_segs, mlx5::max_wqe_ds);
        if (mlx5::wqebbs_of_ds(limit_ds) > free_wqebbs()) return false;

        std::array<std::byte, max_tso_header_bytes + vlan_tag_bytes> header;
        const std::uint32_t inlined_bytes = copy_tso_header(*mbuf, taken_bytes, tag, header.data());
        std::byte* const wqe = wqe_at_pi();
        mlx5::DsCursor cursor{hot_.wqebbs, ring_end(), wqe};
        cursor.advance(1);
        const unsigned l3 = (mbuf->ol_flags & RTE_MBUF_F_TX_IPV4) != 0 ? unsigned{MLX5_ETH_WQE_L3_CSUM} : 0U;
        mlx5::write_eth_segment(cursor.ds(),
                                {.cs_flags = static_cast<std::uint8_t>(l3 | MLX5_ETH_WQE_L4_CSUM),
                                 .mss = static_cast<std::uint16_t>(mbuf->tso_segsz),
                                 .header_bytes = static_cast<std::uint16_t>(inlined_bytes)});
        cursor.copy(mlx5::eth_header_offset, header.data(), inlined_bytes);
        cursor.advance(mlx5::eth_segment_ds(inlined_bytes));
        const std::uint32_t data_ds = write_segments(mbuf, taken_bytes, cursor, limit_ds - head_ds);
        if (data_ds == no_segments) return false;
        // Where the chain is not as long as it says, limits were checked for something else.
        if (gathered_bytes_ != mbuf->pkt_len)
            return refuse(gathered_bytes_ < mbuf->pkt_len ? TxRefusal::too_short : TxRefusal::too_long);
        bytes_ += mbuf->pkt_len;
        Sent sent{mbuf};
        sent.add(mbuf);
        if constexpr (inline_frames) held_.hold(hot_, slot_of_mbuf, 1, nullptr);
        commit(wqe, mlx5::SendOpcode::tso, head_ds + data_ds, 1, 1, sent.home());
        return true;
    }

    std::uint32_t bytes_with_tag(const rte_mbuf* mbuf, std::uint32_t frame_bytes) const noexcept {
        const bool tag = vlan_insert && (mbuf->ol_flags & RTE_MBUF_F_TX_VLAN) != 0;
        return frame_bytes + (tag ? 4 : 0);
    }
    /// DS of what an encap sends behind the frame.
    std::uint32_t trailer_ds([[maybe_unused]] const rte_mbuf* mbuf,
                             [[maybe_unused]] std::uint32_t frame_bytes) const noexcept {
        if constexpr (has_trailer)
            return mlx5::inline_frame_ds(Encap::trailer_bytes(bytes_with_tag(mbuf, frame_bytes)));
        else
            return 0;
    }
    void write_trailer(std::uint32_t frame_bytes, mlx5::DsCursor& cursor) const noexcept {
        const std::uint32_t bytes = Encap::trailer_bytes(frame_bytes);
        std::array<std::byte, Encap::max_trailer_bytes> trailer;
        Encap::trailer(frame_bytes, trailer.data());
        mlx5::write_inline_count(cursor.ds(), bytes);
        cursor.copy(sizeof(mlx5_wqe_inl_data_seg), trailer.data(), bytes);
    }
    static constexpr std::uint32_t no_segments = ~0U;

    /// Data segments of a packet without its first `skip` bytes, at most `limit`; how many, or no_segments if
    /// the packet is refused (which is counted).
    std::uint32_t write_segments(const rte_mbuf* mbuf, std::uint32_t skip, mlx5::DsCursor& cursor,
                                 std::uint32_t limit) noexcept {
        std::uint32_t count = 0;
        std::uint64_t total = 0;
        for (const rte_mbuf* seg = mbuf; seg != nullptr; seg = multi_segment ? seg->next : nullptr) {
            std::uint32_t bytes = seg->data_len;
            total += bytes;
            if (bytes <= skip) { // inlined whole, or empty: the HCA takes a length of 0 for 2^31
                skip -= bytes;
                continue;
            }
            const std::uintptr_t address = rte_pktmbuf_mtod(seg, std::uintptr_t) + skip;
            bytes -= skip;
            skip = 0;
            if (count == limit) {
                refuse(TxRefusal::too_many_segments);
                return no_segments;
            }
            if (!find_key(address, bytes)) {
                refuse(TxRefusal::no_key);
                return no_segments;
            }
            mlx5::write_data_segment(cursor.ds(), address, bytes, key_.lkey);
            cursor.advance(1);
            ++count;
        }
        gathered_bytes_ = total;
        return count;
    }
    /// A chain may be longer or shorter than pkt_len says; what counts is what the HCA would gather. False:
    /// refused.
    bool gathered_is([[maybe_unused]] std::uint32_t frame_bytes) noexcept {
        const std::uint64_t total = gathered_bytes_;
        if (multi_segment && !length_fits(total))
            return refuse(total < Encap::min_frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
        // What an encap says of the length must be so.
        if (has_trailer && total != frame_bytes) [[unlikely]]
            return refuse(total < frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
        return true;
    }

    InlineHeader make_header(const rte_mbuf* mbuf, std::uint32_t frame_bytes, std::byte* out) noexcept {
        std::array<std::byte, Encap::header_reads_bytes> gathered;
        HeaderRequest request{.frame = rte_pktmbuf_mtod(mbuf, const std::byte*),
                              .frame_bytes = frame_bytes,
                              .min_inline_bytes = hot_.min_inline_bytes,
                              .tag = vlan_insert && (mbuf->ol_flags & RTE_MBUF_F_TX_VLAN) != 0,
                              .tci = mbuf->vlan_tci,
                              .context = hot_.encap_context,
                              .address = wqe_at_pi() + mlx5::ds_bytes};
        const std::uint32_t reads = std::min(frame_bytes, Encap::header_reads_bytes);
        if (multi_segment && mbuf->data_len < reads) [[unlikely]] {
            std::memset(gathered.data(), 0, reads);
            const void* whole = rte_pktmbuf_read(mbuf, 0, reads, gathered.data());
            if (whole != nullptr) request.frame = static_cast<const std::byte*>(whole);
        }
        return Encap::header(request, out);
    }

    bool length_fits(std::uint64_t bytes) const noexcept {
        return bytes - Encap::min_frame_bytes <= hot_.max_frame_bytes - Encap::min_frame_bytes;
    }
    bool find_key(std::uintptr_t address, std::uint32_t bytes) noexcept {
        if (key_covers(key_, address, bytes)) [[likely]]
            return true;
        if (!queue_.find_key(address, bytes)) return false;
        key_ = hot_.key;
        return true;
    }
    bool refuse(TxRefusal reason) noexcept {
        refused_ = true;
        queue_.refuse(reason);
        return false;
    }
    std::byte* ring_end() const noexcept {
        return hot_.wqebbs + (std::size_t{hot_.wqebb_mask} + 1) * mlx5::wqebb_bytes;
    }

    /// The WQE is complete but for its control segment; it becomes the burst's last. `held`: mbufs that stay
    /// until it is done.
    void commit(std::byte* wqe, mlx5::SendOpcode opcode, std::uint32_t ds, std::uint32_t packets,
                std::uint32_t held, rte_mempool* home) noexcept {
        mlx5::write_control_segment(
            wqe, mlx5::control_segment(opcode, pi_, hot_.qpn, ds, mlx5::CqeMode::first_error));
        const std::uint32_t wqebbs = mlx5::wqebbs_of_ds(ds);
        const std::uint16_t start = pi_;
        pi_ = static_cast<std::uint16_t>(pi_ + wqebbs);
        mbuf_head_ = static_cast<std::uint16_t>(mbuf_head_ + held);
        hot_.records[start & unsigned{hot_.wqebb_mask}] = {home, pi_, mbuf_head_,
                                                           static_cast<std::uint16_t>(packets), start};
        last_ = wqe;
        ++wqes_;
        hot_.unsignalled_wqebbs = static_cast<std::uint16_t>(hot_.unsignalled_wqebbs + wqebbs);
        hot_.unsignalled_mbufs = static_cast<std::uint16_t>(hot_.unsignalled_mbufs + held);
        if (hot_.unsignalled_wqebbs >= hot_.signal_wqebbs || hot_.unsignalled_mbufs >= hot_.signal_mbufs)
            signal();
    }
    /// The last WQE asks for a CQE, unless so many are to come that the CQ might overflow: a later one will.
    void signal() noexcept {
        if (hot_.signalled >= hot_.max_signalled) return;
        mlx5::request_completion(last_);
        ++hot_.signalled;
        hot_.unsignalled_wqebbs = 0;
        hot_.unsignalled_mbufs = 0;
    }

    /// Posts the WQEs and remembers the mbufs taken.
    void finish(rte_mbuf** mbufs, std::uint32_t count) noexcept {
        // With no CQE to come nothing would ever tell that a slow sender's packets are done.
        if (hot_.signalled == 0) signal();
        hot_.pi = pi_;
        mlx5::ring_send_doorbell(hot_.dbrec, hot_.doorbell, pi_, last_);
        if (hot_.flush_doorbell) flush_doorbell();
        if constexpr (inline_frames)
            held_.settle(hot_);
        else
            held_.remember(hot_, mbufs, count);
        hot_.packets.add(count);
        hot_.bytes.add(bytes_);
        hot_.wqes.add(wqes_);
        hot_.doorbells.add(1);
        if constexpr (inline_frames) queue_.count_inlined(inlined_);
    }

    TxQueue& queue_;
    TxHot& hot_;
    ibv::KeyEntry key_; ///< copy of hot_.key
    std::uint16_t pi_, mbuf_head_;
    std::byte* last_{};
    std::uint64_t bytes_{};
    std::uint64_t gathered_bytes_{}; ///< of the chain that write_segments() took last
    std::uint32_t wqes_{};
    std::uint32_t inlined_{};
    HeldMbufs held_{};
    bool refused_{};
    bool by_four_{true}; ///< the packets of the burst are alike so far
};

} // namespace stride::mbufqp
