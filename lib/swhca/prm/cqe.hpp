// SPDX-License-Identifier: BSD-3-Clause
/// The model's layout of completion queue elements and of CQ doorbells, from the PRM.
///
/// Offsets are bytes from the start of the 64-byte CQE; a 128-byte CQE has it in its second half.
#pragma once

#include "base/field.hpp"

namespace swhca::prm {

using stride::Field;
using stride::Field64;

constexpr unsigned cqe_bytes = 64;

/// CQE opcodes (PRM "Completion Queue Element", field opcode).
enum class CqeOpcode : std::uint8_t {
    requester = 0,
    responder_send = 2,
    resize = 5, ///< end of a ring that RESIZE_CQ replaced
    responder_send_immediate = 3,
    requester_error = 13,
    responder_error = 14,
    invalid = 15,
};

/// L3 header type and L4 header type of a received packet (PRM, fields l3_hdr_type and l4_hdr_type).
enum class L3Type : std::uint8_t { none = 0, ipv6 = 1, ipv4 = 2 };
enum class L4Type : std::uint8_t { none = 0, tcp = 1, udp = 2, tcp_empty_ack = 3, tcp_ack = 4 };

/// Error syndromes (PRM "Completion With Error", field syndrome).
enum class Syndrome : std::uint8_t {
    none = 0x00,
    local_length = 0x01,
    local_qp_operation = 0x02,
    local_protection = 0x04,
    flushed = 0x05,
};

/// CQE of a completed send or receive (PRM "Completion Queue Element").
struct Cqe {
    static constexpr unsigned bytes = 64;
    static constexpr unsigned last_dword_offset = 0x3c;
    static constexpr unsigned owner_offset = 0x3f; ///< byte with opcode and owner bit, written last
    using outer_l3_ipv6 = Field<0x00, 25, 25>;     ///< outer header of a tunnelled packet
    using tunneled = Field<0x00, 24, 24>;
    using wqe_id = Field<0x00, 15, 0>; ///< striding RQ: index of the WQE
    using rx_hash_result = Field<0x0c, 31, 0>;
    using rx_hash_l4_destination = Field<0x10, 31, 30>; ///< 0 none, 1 TCP, 2 UDP
    using rx_hash_l4_source = Field<0x10, 29, 28>;
    using rx_hash_ip_destination = Field<0x10, 27, 26>; ///< 0 none, 1 IPv4, 2 IPv6
    using rx_hash_ip_source = Field<0x10, 25, 24>;
    using path_bits = Field<0x10, 23, 16>; ///< UD: ml_path
    using checksum = Field<0x14, 31, 16>;  ///< one's complement sum of the packet from the L3 header on
    using source_lid = Field<0x14, 15, 0>;
    using service_level = Field<0x18, 27, 24>; ///< UD: SL, priority
    using grh = Field<0x18, 29, 28>;
    using source_qpn = Field<0x18, 23, 0>;
    using l4_ok = Field<0x1c, 26, 26>; ///< byte hds_ip_ext: checks passed
    using l3_ok = Field<0x1c, 25, 25>;
    using l2_ok = Field<0x1c, 24, 24>;
    using ip_fragment = Field<0x1c, 23, 23>; ///< byte l4_hdr_type_etc
    using l4_type = Field<0x1c, 22, 20>;
    using l3_type = Field<0x1c, 19, 18>;
    using ip_options = Field<0x1c, 17, 17>;
    using vlan_stripped = Field<0x1c, 16, 16>; ///< cv: vlan_tci is valid
    using vlan_tci = Field<0x1c, 15, 0>;
    using lro_segments = Field<0x20, 31, 24>;
    using user_index = Field<0x20, 23, 0>;   ///< srqn_uidx
    using metadata = Field<0x24, 31, 0>;     ///< immediate, invalidated key, P_Key, flow table metadata
    using byte_count = Field<0x2c, 31, 0>;   ///< all but a striding RQ's
    using filler = Field<0x2c, 31, 31>;      ///< striding RQ: strides without a packet
    using strides = Field<0x2c, 30, 16>;     ///< striding RQ: strides consumed
    using stride_bytes = Field<0x2c, 15, 0>; ///< striding RQ: bytes of the packet
    using timestamp = Field64<0x30>;
    using send_opcode = Field<0x38, 31, 24>; ///< requester: opcode of the WQE
    using qpn = Field<0x38, 23, 0>;
    using flow_tag = Field<0x38, 23, 0>;     ///< responder of an Ethernet queue
    using wqe_counter = Field<0x3c, 31, 16>; ///< index of the WQE; striding RQ: of the first stride
    using signature = Field<0x3c, 15, 8>;
    using opcode = Field<0x3c, 7, 4>;
    using format = Field<0x3c, 3, 2>; ///< 0: not compressed, no inline data
    using solicited = Field<0x3c, 1, 1>;
    using owner = Field<0x3c, 0, 0>;
};

constexpr std::uint32_t cqe_format_compressed = 3; ///< Cqe::format of a title CQE

/// Mini-CQE of a compressed session (PRM "Mini CQE"): what is the packet's own.
struct MiniCqe {
    static constexpr unsigned bytes = 8;
    using rx_hash_result = Field<0x00, 31, 0>; ///< format HASH
    using checksum = Field<0x00, 31, 16>;      ///< formats CSUM and CSUM_STRIDX
    using stride_index = Field<0x00, 15, 0>;   ///< format CSUM_STRIDX
    using byte_count = Field<0x04, 31, 0>;     ///< as the CQE's
};

/// CQE of a failed WQE (PRM "Completion With Error"): what differs from Cqe.
struct ErrorCqe {
    using wqe_id = Field<0x00, 15, 0>;
    using user_index = Field<0x20, 23, 0>;
    using byte_count = Field<0x2c, 31, 0>;
    using hardware_syndrome = Field<0x34, 31, 24>;
    using hardware_syndrome_type = Field<0x34, 23, 16>;
    using vendor_syndrome = Field<0x34, 15, 8>;
    using syndrome = Field<0x34, 7, 0>;
    using send_opcode = Field<0x38, 31, 24>;
    using qpn = Field<0x38, 23, 0>;
    using wqe_counter = Field<0x3c, 31, 16>;
};

/// Doorbell record of a CQ (PRM "CQ Doorbell Records").
struct CqDoorbell {
    static constexpr unsigned consumer_dword = 0;
    static constexpr unsigned arm_dword = 1;
    using consumer_index = Field<0x00, 23, 0>;
    using arm_sequence = Field<0x04, 29, 28>;
    using arm_solicited_only = Field<0x04, 24, 24>;
    using arm_consumer_index = Field<0x04, 23, 0>;
};

} // namespace swhca::prm
