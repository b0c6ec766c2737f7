// SPDX-License-Identifier: BSD-3-Clause
/// Headers of InfiniBand packets (InfiniBand Architecture Specification, volume 1, chapters 5, 7, 8 and 9).
///
/// A packet on a wire of the model is LRH, GRH if LNH says so, BTH, DETH, immediate if the opcode says so,
/// payload, pad, ICRC and VCRC. Both CRCs are zeros: nothing on the way could spoil a packet but what is
/// asked to. Over Ethernet (RoCE) there is no LRH and no VCRC.
#pragma once

#include "base/field.hpp"

namespace swhca::ib {

using stride::Field;
using stride::Field64;

/// Local route header.
struct Lrh {
    static constexpr std::uint32_t bytes = 8;
    using virtual_lane = Field<0x00, 31, 28>;
    using version = Field<0x00, 27, 24>;
    using service_level = Field<0x00, 23, 20>;
    using next_header = Field<0x00, 17, 16>;
    using destination_lid = Field<0x00, 15, 0>;
    using length_words = Field<0x04, 26, 16>; ///< of 4 bytes, from here to the ICRC's end
    using source_lid = Field<0x04, 15, 0>;
};
constexpr std::uint32_t next_is_bth = 2, next_is_grh = 3;

/// Global route header; an IPv6 header by another name.
struct Grh {
    static constexpr std::uint32_t bytes = 40;
    using version = Field<0x00, 31, 28>; ///< 6
    using traffic_class = Field<0x00, 27, 20>;
    using flow_label = Field<0x00, 19, 0>;
    using payload_bytes = Field<0x04, 31, 16>; ///< from the BTH to the ICRC's end
    using next_header = Field<0x04, 15, 8>;
    using hop_limit = Field<0x04, 7, 0>;
    static constexpr std::uint32_t source_gid_offset = 8, destination_gid_offset = 24;
};
constexpr std::uint32_t grh_next_is_bth = 0x1b;

/// Base transport header.
struct Bth {
    static constexpr std::uint32_t bytes = 12;
    using opcode = Field<0x00, 31, 24>;
    using solicited = Field<0x00, 23, 23>;
    using migrated = Field<0x00, 22, 22>;
    using pad_bytes = Field<0x00, 21, 20>;
    using version = Field<0x00, 19, 16>;
    using pkey = Field<0x00, 15, 0>;
    using destination_qpn = Field<0x04, 23, 0>;
    using psn = Field<0x08, 23, 0>;
};
constexpr std::uint32_t ud_send_only = 0x64, ud_send_only_immediate = 0x65;

/// Datagram extended transport header.
struct Deth {
    static constexpr std::uint32_t bytes = 8;
    using qkey = Field<0x00, 31, 0>;
    using source_qpn = Field<0x04, 23, 0>;
};

constexpr std::uint32_t immediate_bytes = 4, icrc_bytes = 4, vcrc_bytes = 2;
constexpr std::uint32_t multicast_qpn = 0xffffff;
constexpr std::uint16_t first_multicast_lid = 0xc000, permissive_lid = 0xffff;
constexpr std::uint16_t ether_type_roce_v1 = 0x8915;
constexpr std::uint16_t udp_port_roce_v2 = 4791;

constexpr bool is_multicast_lid(std::uint16_t lid) noexcept {
    return lid >= first_multicast_lid && lid != permissive_lid;
}

} // namespace swhca::ib
