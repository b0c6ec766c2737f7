// SPDX-License-Identifier: BSD-3-Clause
/// Send WQEs as the HCA reads them, over the structures of mlx5dv.h.
///
/// A WQE is a row of 16-byte DS: control, [datagram and pad], Ethernet, then data segments or inline frames.
/// It starts at a WQEBB (64 bytes) and may run over the end of the ring between two DS. Segments are made in
/// registers and stored whole; the ring is plain bytes. PRM: "Send WQE Format".
#pragma once

#include "base/be.hpp"
#include "base/ids.hpp"
#include "base/ring.hpp"

#include <infiniband/mlx5dv.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mlx5 {

inline constexpr unsigned ds_bytes = 16;
inline constexpr unsigned wqebb_bytes = MLX5_SEND_WQE_BB;
inline constexpr unsigned ds_per_wqebb = wqebb_bytes / ds_bytes;
/// The DS count of the control segment has 6 bits.
inline constexpr unsigned max_wqe_ds = 63;
inline constexpr unsigned max_wqe_wqebbs = (max_wqe_ds + ds_per_wqebb - 1) / ds_per_wqebb;

enum class SendOpcode : std::uint8_t {
    nop = MLX5_OPCODE_NOP,
    send = MLX5_OPCODE_SEND,
    tso = MLX5_OPCODE_TSO,
    enhanced_mpw = 0x29, ///< not in mlx5dv.h; PRM ENHANCED_MPSW
};

/// When a WQE makes a CQE: bits 3:2 of fm_ce_se. Not all in mlx5dv.h.
enum class CqeMode : std::uint8_t {
    first_error = 1 << 2,             ///< only if this WQE fails, and then not for those flushed after it
    always = MLX5_WQE_CTRL_CQ_UPDATE, ///< once executed
};

/// Frame follows in the WQE itself: top bit of an inline segment's byte count.
inline constexpr std::uint32_t inline_segment = MLX5_INLINE_SEG;
/// Bytes of the Ethernet segment before the inlined header; the header goes on into the next DS.
inline constexpr unsigned eth_header_offset = offsetof(mlx5_wqe_eth_seg, inline_hdr_start);
static_assert(eth_header_offset == 14);

constexpr std::uint32_t eth_segment_ds(std::uint32_t header_bytes) noexcept {
    return div_round_up(eth_header_offset + header_bytes, ds_bytes);
}
constexpr std::uint32_t inline_frame_ds(std::uint32_t frame_bytes) noexcept {
    return div_round_up(static_cast<std::uint32_t>(sizeof(mlx5_wqe_inl_data_seg)) + frame_bytes, ds_bytes);
}
constexpr std::uint32_t wqebbs_of_ds(std::uint32_t ds) noexcept { return div_round_up(ds, ds_per_wqebb); }

/// `index`: free-running index of the WQE's first WQEBB.
inline mlx5_wqe_ctrl_seg control_segment(SendOpcode opcode, std::uint16_t index, Qpn qpn, std::uint32_t ds,
                                         CqeMode mode) noexcept {
    assert(ds <= max_wqe_ds);
    mlx5_wqe_ctrl_seg seg{};
    seg.opmod_idx_opcode =
        be32{static_cast<std::uint32_t>(index) << 8 | static_cast<std::uint8_t>(opcode)}.wire();
    seg.qpn_ds = be32{qpn.value << 8 | ds}.wire();
    seg.fm_ce_se = static_cast<std::uint8_t>(mode);
    return seg;
}

/// Asks for a CQE of the WQE that starts at `wqe`, before its doorbell.
inline void request_completion(std::byte* wqe) noexcept {
    wqe[offsetof(mlx5_wqe_ctrl_seg, fm_ce_se)] = std::byte{static_cast<std::uint8_t>(CqeMode::always)};
}

/// The first DS of an Ethernet segment, without the two bytes of inlined header it may hold.
/// `cs_flags`: MLX5_ETH_WQE_L3_CSUM, MLX5_ETH_WQE_L4_CSUM; `mss` is for TSO only.
struct EthSegment {
    std::uint8_t cs_flags{};
    std::uint16_t mss{};
    std::uint16_t header_bytes{}; ///< inlined at eth_header_offset
};

/// In registers: a load of a whole segment right after a store of part of it would wait for that.
inline void write_eth_segment(std::byte* ds, EthSegment eth) noexcept {
    constexpr std::size_t half = sizeof(std::uint64_t);
    constexpr auto shift_of = [](std::size_t offset) { return 8 * (offset % half); };
    static_assert(offsetof(mlx5_wqe_eth_seg, mss) + sizeof(__be16) <= half &&
                  offsetof(mlx5_wqe_eth_seg, inline_hdr_sz) >= half);
    const std::uint64_t halves[2] = {
        std::uint64_t{eth.cs_flags} << shift_of(offsetof(mlx5_wqe_eth_seg, cs_flags)) |
            std::uint64_t{be16{eth.mss}.wire()} << shift_of(offsetof(mlx5_wqe_eth_seg, mss)),
        std::uint64_t{be16{eth.header_bytes}.wire()} << shift_of(offsetof(mlx5_wqe_eth_seg, inline_hdr_sz))};
    std::memcpy(ds, &halves[0], half);
    std::memcpy(ds + half, &halves[1], half);
}

/// `bytes` must not be 0: the HCA takes 0 for 2^31.
inline void write_data_segment(std::byte* ds, std::uintptr_t address, std::uint32_t bytes,
                               be32 lkey) noexcept {
    assert(bytes != 0);
    mlx5_wqe_data_seg seg;
    seg.byte_count = be32{bytes}.wire();
    seg.lkey = lkey.wire();
    seg.addr = be64{address}.wire();
    std::memcpy(ds, &seg, sizeof seg);
}

/// The head of an inline frame; its bytes follow at once.
inline void write_inline_count(std::byte* ds, std::uint32_t bytes) noexcept {
    const be32 count{bytes | inline_segment};
    std::memcpy(ds, &count, sizeof count);
}

inline void write_control_segment(std::byte* ds, const mlx5_wqe_ctrl_seg& seg) noexcept {
    static_assert(sizeof seg == ds_bytes);
    std::memcpy(ds, &seg, sizeof seg);
}

/// Walks a ring DS by DS, over its end. For WQEs whose length is not known before; a loop that can bound its
/// run to the end of the ring needs no cursor.
class DsCursor {
  public:
    /// `begin` and `end` of the ring; `at` on a DS in it.
    DsCursor(std::byte* begin, std::byte* end, std::byte* at) noexcept
        : begin_{begin}
        , end_{end}
        , at_{at} {}

    std::byte* ds() const noexcept { return at_; }
    void advance(std::uint32_t count) noexcept {
        at_ += std::size_t{count} * ds_bytes;
        if (at_ >= end_) at_ -= end_ - begin_;
    }
    /// Copies `bytes` to `offset` bytes behind the cursor, which stays where it is.
    void copy(std::uint32_t offset, const void* from, std::size_t bytes) noexcept {
        std::byte* to = at_ + offset;
        if (to >= end_) to -= end_ - begin_;
        const auto before_end = static_cast<std::size_t>(end_ - to);
        if (bytes <= before_end) [[likely]]
            return copy_few(to, static_cast<const std::byte*>(from), bytes);
        std::memcpy(to, from, before_end);
        std::memcpy(begin_, static_cast<const std::byte*>(from) + before_end, bytes - before_end);
    }

  private:
    /// As inlined headers are: a call would cost more than the copy.
    static void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (bytes - 4 <= 4) return copy_ends<4>(to, from, bytes);
        if (bytes - 8 <= 8) return copy_ends<8>(to, from, bytes);
        if (bytes - 16 <= 16) return copy_ends<16>(to, from, bytes);
        std::memcpy(to, from, bytes);
    }
    /// `piece` to twice as many bytes.
    template <std::size_t piece>
    static void copy_ends(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        std::byte last[piece];
        std::memcpy(last, from + bytes - piece, piece);
        std::memcpy(to, from, piece);
        std::memcpy(to + bytes - piece, last, piece);
    }

    std::byte* begin_;
    std::byte* end_;
    std::byte* at_;
};

} // namespace stride::mlx5
