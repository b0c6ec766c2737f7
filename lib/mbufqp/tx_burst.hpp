// SPDX-License-Identifier: BSD-3-Clause
/// put: mbufs to WQEs. One template over encap and features; nothing is tested per packet that the queue does
/// not use.
///
/// Runs of plain packets share enhanced-MPW WQEs ("sessions"). A session ends at the end of the ring, so its
/// loop has no wrap in it; any other packet is a SEND WQE of its own, built through a cursor that wraps.
#pragma once

#include "mbufqp/encap/header.hpp"
#include "mbufqp/tx_queue.hpp"
#include "mbufqp/tx_reclaim.hpp"
#include "mlx5/doorbell.hpp"
#include "mlx5/wqe.hpp"

#include <rte_mbuf.h>
#include <rte_memcpy.h>

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

/// [address, address + bytes) lies in the key's range. One branch: no term is negative if so.
inline bool key_covers(const ibv::KeyEntry& key, std::uintptr_t address, std::uint32_t bytes) noexcept {
    const std::uint64_t offset = address - key.range.base;
    const std::uint64_t behind = key.range.bytes - offset - bytes;
    return static_cast<std::int64_t>(offset | behind) >= 0;
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
        else if (hot.cqes.kind(hot.cq_ci) != mlx5::SendCqeKind::hardware)
            reclaim<bits>(queue, reclaim_max_cqes);
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
    static constexpr bool inline_frames = features.has(TxFeature::inline_frames);
    static constexpr bool has_header = Encap::has_header(features);
    static constexpr bool has_trailer = Encap::max_trailer_bytes != 0;
    /// mbuf flags that all packets of a session agree on.
    static constexpr std::uint64_t session_flags =
        (checksum ? RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IP_CKSUM : 0) |
        (vlan_insert ? RTE_MBUF_F_TX_VLAN : 0);
    /// Control and Ethernet segment of a session.
    static constexpr std::uint32_t session_head_ds = 2;

    Burst(TxQueue& queue, TxHot& hot) noexcept
        : queue_{queue}
        , hot_{hot}
        , key_{hot.key}
        , pi_{hot.pi}
        , mbuf_head_{hot.mbuf_head} {}

    std::uint16_t run(rte_mbuf** mbufs, std::uint16_t count) noexcept {
        const std::uint32_t room =
            hot_.mbuf_mask + 1U - static_cast<std::uint16_t>(mbuf_head_ - hot_.mbuf_tail);
        const std::uint32_t wanted = std::min<std::uint32_t>(count, room);
        std::uint32_t done = 0;
        while (done < wanted) {
            std::uint32_t taken = 0;
            if constexpr (sessions) taken = put_session(mbufs + done, wanted - done);
            if (taken == 0) {
                if (!put_alone(mbufs[done])) break;
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

    /// One enhanced-MPW WQE of packets from the front; how many. 0: no room, or the first is not for a
    /// session.
    std::uint32_t put_session(rte_mbuf** mbufs, std::uint32_t count) noexcept {
        const std::uint32_t to_end = hot_.wqebb_mask + 1U - (pi_ & unsigned{hot_.wqebb_mask});
        const std::uint32_t limit_ds =
            std::min({free_wqebbs() * mlx5::ds_per_wqebb, to_end * mlx5::ds_per_wqebb, mlx5::max_wqe_ds});
        if (limit_ds <= session_head_ds) return 0;
        const std::uint64_t flags = mbufs[0]->ol_flags & session_flags;
        if (vlan_insert && (flags & RTE_MBUF_F_TX_VLAN) != 0) return 0;

        std::byte* const wqe = wqe_at_pi();
        std::byte* ds = wqe + session_head_ds * mlx5::ds_bytes;
        std::byte* const end = wqe + limit_ds * mlx5::ds_bytes;
        const std::uint32_t bound = inline_frames ? count : std::min(count, limit_ds - session_head_ds);
        std::uint64_t bytes = 0;
        std::uint32_t taken = 0;
        for (; taken < bound; ++taken) {
            const rte_mbuf* mbuf = mbufs[taken];
            if (session_flags != 0 && (mbuf->ol_flags & session_flags) != flags) break;
            if (multi_segment && mbuf->nb_segs != 1) break;
            const std::uint32_t used = write_frame(mbuf, ds, end, taken == 0);
            if (used == 0) break;
            ds += std::size_t{used} * mlx5::ds_bytes;
            bytes += mbuf->data_len;
        }
        if (taken == 0) return 0;
        mlx5::write_eth_segment(wqe + mlx5::ds_bytes, {.cs_flags = checksum_flags(flags)});
        bytes_ += bytes;
        commit(wqe, mlx5::SendOpcode::enhanced_mpw, static_cast<std::uint32_t>(ds - wqe) / mlx5::ds_bytes,
               taken);
        return taken;
    }

    /// A frame of a session at `ds`, by pointer or inline; DS used, 0 if it is not for this session.
    std::uint32_t write_frame(const rte_mbuf* mbuf, std::byte* ds, const std::byte* end,
                              bool first) noexcept {
        const std::uint32_t bytes = mbuf->data_len;
        if (!length_fits(bytes)) return 0;
        const auto address = rte_pktmbuf_mtod(mbuf, std::uintptr_t);
        if constexpr (inline_frames) {
            if (ds == end) return 0;
            if (bytes <= hot_.inline_max_bytes) {
                const std::uint32_t need = mlx5::inline_frame_ds(bytes);
                if (ds + std::size_t{need} * mlx5::ds_bytes <= end) {
                    mlx5::write_inline_count(ds, bytes);
                    rte_memcpy(ds + sizeof(mlx5_wqe_inl_data_seg), reinterpret_cast<const void*>(address),
                               bytes);
                    ++inlined_;
                    return need;
                }
                // The next session has room for it; the last few DS of the ring do not: there it is pointed
                // to.
                if (!first) return 0;
            }
        }
        if (!find_key(address, bytes)) return 0;
        mlx5::write_data_segment(ds, address, bytes, key_.lkey);
        return 1;
    }

    /// A SEND WQE of its own for any packet; false if there is no room or it is refused.
    bool put_alone(rte_mbuf* mbuf) noexcept {
        const std::uint32_t frame_bytes = multi_segment ? mbuf->pkt_len : mbuf->data_len;
        if (!length_fits(frame_bytes))
            return refuse(frame_bytes < Encap::min_frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
        // The address is written where it stays.
        if (Encap::address_ds != 0 && free_wqebbs() == 0) return false;
        std::array<std::byte, Encap::max_header_bytes> header_bytes;
        InlineHeader header{};
        if constexpr (has_header) header = make_header(mbuf, frame_bytes, header_bytes.data());
        if (Encap::may_refuse && !header.ok()) [[unlikely]]
            return refuse(header.refusal);

        const std::uint32_t head_ds = 1 + Encap::address_ds + mlx5::eth_segment_ds(header.inlined_bytes);
        const std::uint32_t tail_ds = trailer_ds(mbuf, frame_bytes);
        const std::uint32_t segments = multi_segment ? mbuf->nb_segs : 1U;
        const std::uint32_t limit_ds = std::min(head_ds + segments, mlx5::max_wqe_ds - tail_ds);
        if (mlx5::wqebbs_of_ds(limit_ds + tail_ds) > free_wqebbs()) return false;

        std::byte* const wqe = wqe_at_pi();
        mlx5::DsCursor cursor{hot_.wqebbs, ring_end(), wqe};
        cursor.advance(1 + Encap::address_ds);
        if constexpr (Encap::address_ds != 0) write_address_pad(wqe);
        const std::uint8_t cs_flags = checksum ? checksum_flags(mbuf->ol_flags) : std::uint8_t{0};
        mlx5::write_eth_segment(
            cursor.ds(),
            {.cs_flags = cs_flags, .header_bytes = static_cast<std::uint16_t>(header.inlined_bytes)});
        if constexpr (has_header)
            cursor.copy(mlx5::eth_header_offset, header_bytes.data(), header.inlined_bytes);
        cursor.advance(mlx5::eth_segment_ds(header.inlined_bytes));
        const std::uint32_t data_ds =
            write_segments(mbuf, frame_bytes, header.taken_bytes, cursor, limit_ds - head_ds);
        if (data_ds == no_segments) return false;
        if constexpr (has_trailer) write_trailer(bytes_with_tag(mbuf, frame_bytes), cursor);
        bytes_ += frame_bytes;
        commit(wqe, mlx5::SendOpcode::send, head_ds + data_ds + tail_ds, 1);
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
    /// The DS between datagram and Ethernet segment.
    void write_address_pad(std::byte* wqe) const noexcept {
        mlx5::DsCursor pad{hot_.wqebbs, ring_end(), wqe};
        pad.advance(Encap::address_ds);
        std::memset(pad.ds(), 0, mlx5::ds_bytes);
    }

    static constexpr std::uint32_t no_segments = ~0U;

    /// Data segments of a packet without its first `skip` bytes, at most `limit`; how many, or no_segments if
    /// the packet is refused (which is counted).
    std::uint32_t write_segments(const rte_mbuf* mbuf, std::uint32_t frame_bytes, std::uint32_t skip,
                                 mlx5::DsCursor& cursor, std::uint32_t limit) noexcept {
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
        // The chain may be longer or shorter than pkt_len says; what counts is what the HCA would gather.
        if (multi_segment && !length_fits(total)) {
            refuse(total < Encap::min_frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
            return no_segments;
        }
        // What an encap says of the length must be so.
        if (has_trailer && total != frame_bytes) [[unlikely]] {
            refuse(total < frame_bytes ? TxRefusal::too_short : TxRefusal::too_long);
            return no_segments;
        }
        return count;
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

    /// The WQE is complete but for its control segment; it becomes the burst's last.
    void commit(std::byte* wqe, mlx5::SendOpcode opcode, std::uint32_t ds, std::uint32_t packets) noexcept {
        mlx5::write_control_segment(
            wqe, mlx5::control_segment(opcode, pi_, hot_.qpn, ds, mlx5::CqeMode::first_error));
        const std::uint32_t wqebbs = mlx5::wqebbs_of_ds(ds);
        const std::uint32_t slot = pi_ & unsigned{hot_.wqebb_mask};
        pi_ = static_cast<std::uint16_t>(pi_ + wqebbs);
        mbuf_head_ = static_cast<std::uint16_t>(mbuf_head_ + packets);
        hot_.wqe_ends[slot] = std::uint32_t{mbuf_head_} << 16 | pi_;
        last_ = wqe;
        ++wqes_;
        hot_.unsignalled_wqebbs = static_cast<std::uint16_t>(hot_.unsignalled_wqebbs + wqebbs);
        hot_.unsignalled_packets = static_cast<std::uint16_t>(hot_.unsignalled_packets + packets);
        if (hot_.unsignalled_wqebbs >= hot_.signal_wqebbs || hot_.unsignalled_packets >= hot_.signal_packets)
            signal();
    }
    /// The last WQE asks for a CQE, unless so many are to come that the CQ might overflow: a later one will.
    void signal() noexcept {
        if (hot_.signalled >= hot_.max_signalled) return;
        mlx5::request_completion(last_);
        ++hot_.signalled;
        hot_.unsignalled_wqebbs = 0;
        hot_.unsignalled_packets = 0;
    }

    /// Remembers the mbufs taken and posts their WQEs.
    void finish(rte_mbuf** mbufs, std::uint32_t count) noexcept {
        // With no CQE to come nothing would ever tell that a slow sender's packets are done.
        if (hot_.signalled == 0) signal();
        const std::uint32_t slot = hot_.mbuf_head & hot_.mbuf_mask;
        const std::uint32_t first = std::min(count, hot_.mbuf_mask + 1U - slot);
        std::memcpy(hot_.mbufs + slot, mbufs, first * sizeof *mbufs);
        if (first != count) std::memcpy(hot_.mbufs, mbufs + first, (count - first) * sizeof *mbufs);
        hot_.pi = pi_;
        hot_.mbuf_head = mbuf_head_;
        mlx5::ring_send_doorbell(hot_.dbrec, hot_.doorbell, pi_, last_);
        if (hot_.flush_doorbell) flush_doorbell();
        hot_.packets += count;
        hot_.bytes += bytes_;
        hot_.wqes += wqes_;
        ++hot_.doorbells;
        if constexpr (inline_frames) queue_.count_inlined(inlined_);
    }

    TxQueue& queue_;
    TxHot& hot_;
    ibv::KeyEntry key_; ///< copy of hot_.key, in registers
    std::uint16_t pi_, mbuf_head_;
    std::byte* last_{};
    std::uint64_t bytes_{};
    std::uint32_t wqes_{};
    std::uint32_t inlined_{};
    bool refused_{};
};

} // namespace stride::mbufqp
