// SPDX-License-Identifier: BSD-3-Clause
/// The model's layouts of work queue elements, from the ConnectX Programmer's Reference Manual (PRM).
///
/// The driver declares the same fields from mlx5dv.h; test/format compares the two. Offsets are bytes from
/// the start of the segment, bits are written high, low.
#pragma once

#include "base/field.hpp"

namespace swhca::prm {

using stride::Field;
using stride::Field64;

constexpr unsigned wqebb_bytes = 64; ///< basic block of a send queue
constexpr unsigned ds_bytes = 16;    ///< unit of a WQE's length
constexpr unsigned max_ds = 63;      ///< the DS field has 6 bits
/// lkey that ends a receive WQE's scatter list (PRM: reserved, null mkey of libmlx5's lists).
constexpr std::uint32_t terminator_lkey = 0x100;

/// Opcodes of send WQEs (PRM "Work Queue Elements", table "WQE opcodes").
enum class Opcode : std::uint8_t {
    nop = 0x00,
    send = 0x0a,
    send_immediate = 0x0b,
    tso = 0x0e,
    enhanced_mpsw = 0x29,
};

/// Control segment (PRM "WQE Control Segment").
struct CtrlSegment {
    static constexpr unsigned bytes = 16;
    using opc_mod = Field<0x00, 31, 24>;
    using wqe_index = Field<0x00, 23, 8>;
    using opcode = Field<0x00, 7, 0>;
    using qpn = Field<0x04, 31, 8>;
    using reserved_ds = Field<0x04, 7, 6>;
    using ds = Field<0x04, 5, 0>;
    using signature = Field<0x08, 31, 24>;
    using stream_channel = Field<0x08, 23, 8>;
    using fence_mode = Field<0x08, 7, 5>;
    using reserved_flag4 = Field<0x08, 4, 4>;
    using completion_event = Field<0x08, 3, 2>; ///< ce: 0 on error, 1 on first error, 2 always, 3 with event
    using solicited = Field<0x08, 1, 1>;        ///< se
    using reserved_flag0 = Field<0x08, 0, 0>;
    using immediate = Field<0x0c, 31, 0>;
};

/// Ethernet segment (PRM "Ethernet Segment"). Its first 14 bytes are fixed; inline header bytes begin at
/// `inline_start` and go on into the next DS.
struct EthSegment {
    static constexpr unsigned bytes = 16;
    static constexpr unsigned inline_start = 0x0e;
    static constexpr unsigned inline_start_bytes = 2; ///< inline bytes inside the segment's own DS
    using parsing_offsets = Field<0x00, 31, 0>;       ///< software parser: outer and inner L3, L4 offsets
    using l4_checksum = Field<0x04, 31, 31>;
    using l3_checksum = Field<0x04, 30, 30>;
    using l4_inner_checksum = Field<0x04, 29, 29>;
    using l3_inner_checksum = Field<0x04, 28, 28>;
    using reserved_checksum = Field<0x04, 27, 24>;
    using parsing_flags = Field<0x04, 23, 16>;
    using mss = Field<0x04, 13, 0>;
    using reserved_mss = Field<0x04, 15, 14>;
    using metadata = Field<0x08, 31, 0>;
    using insert_vlan = Field<0x0c, 31, 31>;  ///< then inline_start holds the tag, not header bytes
    using insert_svlan = Field<0x0c, 30, 30>; ///< ... with EtherType 0x88a8
    using inline_header_bytes = Field<0x0c, 25, 16>;
    using vlan_tci = Field<0x0c, 15, 0>;
};

/// Memory pointer data segment (PRM "Send Data Segment", "Receive Data Segment").
struct DataSegment {
    static constexpr unsigned bytes = 16;
    using inlined = Field<0x00, 31, 31>;   ///< 1: an inline data segment
    using byte_count = Field<0x00, 30, 0>; ///< 0 stands for 2^31
    using lkey = Field<0x04, 31, 0>;
    using address = Field64<0x08>;
};

/// Inline data segment (PRM "Inline Data Segment"): data follows the dword, the whole is padded to a DS.
struct InlineSegment {
    static constexpr unsigned header_bytes = 4;
    using inlined = Field<0x00, 31, 31>;
    using reserved = Field<0x00, 30, 10>;
    using byte_count = Field<0x00, 9, 0>;
};

/// Address vector of a datagram (PRM "UD Address Vector").
struct DatagramSegment {
    static constexpr unsigned bytes = 48;
    using qkey = Field<0x00, 31, 0>;
    using extended = Field<0x08, 31, 31>; ///< 1: the full 48 bytes are valid
    using destination_qpn = Field<0x08, 23, 0>;
    using static_rate = Field<0x0c, 31, 28>;
    using service_level = Field<0x0c, 27, 24>; ///< SL, or Ethernet priority
    using force_loopback = Field<0x0c, 23, 23>;
    using source_path = Field<0x0c, 22, 16>; ///< low bits of the source LID (MLID path bits)
    using remote_lid = Field<0x0c, 15, 0>;
    using remote_mac_high = Field<0x14, 31, 0>; ///< bytes 0-3 of the destination MAC
    using remote_mac_low = Field<0x18, 31, 16>;
    using traffic_class = Field<0x18, 15, 8>;
    using hop_limit = Field<0x18, 7, 0>;
    using grh = Field<0x1c, 30, 30>; ///< a GRH is sent
    using source_gid_index = Field<0x1c, 27, 20>;
    using flow_label = Field<0x1c, 19, 0>;
    using remote_gid_high = Field64<0x20>;
    using remote_gid_low = Field64<0x28>;
};

/// First 16 bytes of a WQE of a linked-list or striding RQ (PRM "Next Segment").
struct NextSegment {
    static constexpr unsigned bytes = 16;
    using next_wqe_index = Field<0x00, 15, 0>;
    using signature = Field<0x04, 31, 24>;
};

/// Doorbell records (PRM "Doorbell Records"): dwords in the program's memory.
struct WorkQueueDoorbell {
    static constexpr unsigned receive_dword = 0; ///< producer index of the RQ
    static constexpr unsigned send_dword = 1;    ///< producer index of the SQ
    using counter = Field<0x00, 15, 0>;
};

} // namespace swhca::prm
