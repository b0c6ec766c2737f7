// SPDX-License-Identifier: BSD-3-Clause
/// CQEs of a receive queue, as the driver reads them.
///
/// Layout: struct mlx5_cqe64 of mlx5dv.h. What that leaves reserved (packet info, hash result) and the split
/// of byte_cnt in a striding queue are from the ConnectX PRM, "Completion Queue Entry", and declared here
/// once.
#pragma once

#include "base/be.hpp"

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mlx5 {

/// op_own [3:2].
enum class CqeFormat : std::uint8_t { plain = 0, with_inline_32 = 1, with_inline_64 = 2, compressed = 3 };

inline constexpr unsigned cqe_owner_bit = MLX5_CQE_OWNER_MASK;
inline constexpr unsigned cqe_solicited_bit = 0x02; ///< op_own [1]

inline unsigned opcode_of(std::uint8_t op_own) noexcept { return op_own >> 4; }
inline CqeFormat format_of(std::uint8_t op_own) noexcept {
    return static_cast<CqeFormat>((op_own >> 2) & 3U);
}
/// Completion of one packet, nothing special about it: RESP_SEND, not compressed.
inline bool is_plain_receive(std::uint8_t op_own) noexcept {
    return (op_own & ~(cqe_owner_bit | cqe_solicited_bit)) == MLX5_CQE_RESP_SEND << 4;
}
inline bool is_error(std::uint8_t op_own) noexcept {
    return opcode_of(op_own) == MLX5_CQE_RESP_ERR || opcode_of(op_own) == MLX5_CQE_REQ_ERR;
}

/// byte_cnt of a CQE of a striding queue: [31] filler, [30:16] strides, [15:0] bytes.
struct StridingByteCount {
    std::uint32_t word{}; ///< host order

    bool filler() const noexcept { return word >> 31 != 0; }
    std::uint32_t strides() const noexcept { return (word >> 16) & 0x7fffU; }
    std::uint32_t bytes() const noexcept { return word & 0xffffU; }
    static constexpr std::uint32_t make(bool filler, std::uint32_t strides, std::uint32_t bytes) noexcept {
        return (filler ? 1U << 31 : 0U) | (strides & 0x7fffU) << 16 | (bytes & 0xffffU);
    }
};

inline StridingByteCount striding_byte_count(const mlx5_cqe64& cqe) noexcept {
    return {be32::from_wire(cqe.byte_cnt).host()};
}
/// Single-packet queues: all 32 bits.
inline std::uint32_t byte_count(const mlx5_cqe64& cqe) noexcept {
    return be32::from_wire(cqe.byte_cnt).host();
}
/// Striding: index of the packet's first stride in its WQE. Single-packet: index of the WQE, 16 bits,
/// free-running.
inline std::uint16_t wqe_counter(const mlx5_cqe64& cqe) noexcept {
    return be16::from_wire(cqe.wqe_counter).host();
}
/// Striding: index of the WQE. Not relied upon: a cyclic queue completes in order, and net/mlx5 has never
/// needed it.
inline std::uint16_t wqe_id(const mlx5_cqe64& cqe) noexcept { return be16::from_wire(cqe.wqe_id).host(); }
inline std::uint8_t syndrome(const mlx5_cqe64& cqe) noexcept {
    return reinterpret_cast<const mlx5_err_cqe&>(cqe).syndrome;
}
/// After these the WQ is in error: it needs RESET. Others lose one packet.
inline bool stops_queue(std::uint8_t error_syndrome) noexcept {
    return error_syndrome == MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR ||
           error_syndrome == MLX5_CQE_SYNDROME_LOCAL_PROT_ERR ||
           error_syndrome == MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
}

/// PRM: rx_hash_result and rx_hash_type, reserved in mlx5dv.h.
inline constexpr std::size_t cqe_rx_hash_result_offset = 12;
inline constexpr std::size_t cqe_rx_hash_type_offset = 16;
/// PRM: [0] tunnelled, [1] the outer L3 is IPv6; reserved in mlx5dv.h.
inline constexpr std::size_t cqe_packet_info_offset = 0;

inline std::uint32_t rx_hash_result(const mlx5_cqe64& cqe) noexcept {
    be32 hash;
    std::memcpy(&hash, reinterpret_cast<const std::byte*>(&cqe) + cqe_rx_hash_result_offset, sizeof hash);
    return hash.host();
}
/// 0: not hashed.
inline std::uint8_t rx_hash_type(const mlx5_cqe64& cqe) noexcept {
    return reinterpret_cast<const std::uint8_t*>(&cqe)[cqe_rx_hash_type_offset];
}

/// What the parser of the HCA found, as one index: [1:0] L3 type, [4:2] L4 type, [5] IP fragment,
/// [6] tunnelled, [7] outer L3 is IPv6 (l4_hdr_type_etc [7:2], packet info [1:0]).
inline std::uint8_t packet_type_index(const mlx5_cqe64& cqe) noexcept {
    const unsigned info = reinterpret_cast<const std::uint8_t*>(&cqe)[cqe_packet_info_offset];
    return static_cast<std::uint8_t>((info & 3U) << 6 | cqe.l4_hdr_type_etc >> 2);
}
/// l4_hdr_type_etc [0]: a VLAN tag was stripped; it is in vlan_info.
inline bool vlan_stripped(const mlx5_cqe64& cqe) noexcept { return (cqe.l4_hdr_type_etc & 1U) != 0; }
inline std::uint16_t vlan_tci(const mlx5_cqe64& cqe) noexcept {
    return be16::from_wire(cqe.vlan_info).host();
}
/// UD: [31:24] flags ([29:28] a GRH is there), [23:0] QPN of the sender.
inline std::uint32_t flags_rqpn(const mlx5_cqe64& cqe) noexcept {
    return be32::from_wire(cqe.flags_rqpn).host();
}
/// Flow tag of the rule that took the packet, 24 bits; 0: none.
inline std::uint32_t flow_tag(const mlx5_cqe64& cqe) noexcept {
    return be32::from_wire(cqe.sop_drop_qpn).host() & 0xffffffU;
}
/// UD: LID of the sender.
inline std::uint16_t slid(const mlx5_cqe64& cqe) noexcept { return be16::from_wire(cqe.slid).host(); }
/// Ticks of the device's clock when the packet came.
inline std::uint64_t timestamp(const mlx5_cqe64& cqe) noexcept {
    return be64::from_wire(cqe.timestamp).host();
}
/// hds_ip_ext: MLX5_CQE_L3_OK and MLX5_CQE_L4_OK.
inline std::uint8_t checksum_bits(const mlx5_cqe64& cqe) noexcept {
    return cqe.hds_ip_ext & (MLX5_CQE_L3_OK | MLX5_CQE_L4_OK);
}

} // namespace stride::mlx5
