// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/offload.hpp"

#include "base/be.hpp"
#include "swhca/engine/checksum.hpp"
#include "swhca/engine/parse.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using stride::be16;

constexpr std::uint32_t mac_bytes = 12;
constexpr std::uint32_t ipv4_checksum_offset = 10;
constexpr std::uint32_t tcp_checksum_offset = 16;
constexpr std::byte tcp_flag_fin{0x01}, tcp_flag_push{0x08}, tcp_flag_cwr{0x80};

/// Takes `bytes` from the front of the list; returns the first piece that still has some.
Segment* take_front(Segment* piece, Segment* end, std::byte* to, std::uint32_t bytes) noexcept {
    while (bytes != 0 && piece != end) {
        const std::uint32_t some = std::min(bytes, piece->length_bytes);
        std::memcpy(to, piece->data, some);
        to += some;
        bytes -= some;
        piece->data += some;
        piece->length_bytes -= some;
        if (piece->length_bytes == 0) ++piece;
    }
    return piece;
}

template <class T>
T load_be(const std::byte* from) noexcept {
    stride::Be<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
void store_be(std::byte* to, std::uint32_t value) noexcept {
    const stride::Be<T> wire = static_cast<T>(value);
    std::memcpy(to, &wire, sizeof wire);
}

void put_sum(std::byte* to, std::uint16_t sum) noexcept {
    const std::uint16_t checksum = static_cast<std::uint16_t>(~sum);
    std::memcpy(to, &checksum, sizeof checksum);
}

void insert_l3(std::byte* scratch, const PacketInfo& info) noexcept {
    std::byte* l3 = scratch + info.l3_offset;
    std::memset(l3 + ipv4_checksum_offset, 0, 2);
    put_sum(l3 + ipv4_checksum_offset, fold_sum(sum_bytes(l3, info.l4_offset - info.l3_offset)));
}

void insert_l4(std::byte* scratch, const Frame& frame, const PacketInfo& info) noexcept {
    const bool udp = info.l4_type == prm::L4Type::udp;
    std::byte* field = scratch + info.l4_offset + (udp ? udp_checksum_offset : tcp_checksum_offset);
    std::memset(field, 0, 2);
    std::uint16_t sum = fold_sum(pseudo_header_sum(scratch, info, info.l4_bytes) +
                                 sum_frame(frame, info.l4_offset, info.l4_bytes));
    if (udp && sum == 0xffffU) sum = 0; // a UDP checksum of 0 says there is none
    put_sum(field, sum);
}

} // namespace

Frame rebuild_header(std::byte* scratch, Segment* pieces, std::uint32_t count, const SendOffloads& offloads) {
    Segment* const end = pieces + 1 + count;
    std::uint32_t length = 0;
    for (const Segment* piece = pieces + 1; piece != end; ++piece)
        length += piece->length_bytes;
    const std::uint32_t copied = std::min(length, header_bytes);
    std::uint32_t tag_bytes = 0;
    Segment* rest = take_front(pieces + 1, end, scratch, std::min(copied, mac_bytes));
    if (offloads.insert_vlan) {
        tag_bytes = vlan_tag_bytes;
        const be16 type = offloads.insert_svlan ? ether_type_qinq : ether_type_vlan;
        const be16 tci = offloads.vlan_tci;
        std::memcpy(scratch + mac_bytes, &type, sizeof type);
        std::memcpy(scratch + mac_bytes + sizeof type, &tci, sizeof tci);
    }
    if (copied > mac_bytes) rest = take_front(rest, end, scratch + mac_bytes + tag_bytes, copied - mac_bytes);
    Segment* const first = rest - 1;
    *first = {scratch, copied + tag_bytes};
    return {{first, end}, length + tag_bytes};
}

void insert_checksums(std::byte* scratch, const Frame& frame, const SendOffloads& offloads) noexcept {
    const PacketInfo info = parse(frame);
    if (offloads.l3_checksum && info.ip_version == 4) insert_l3(scratch, info);
    if (offloads.l4_checksum && info.l4_type != prm::L4Type::none && info.complete)
        insert_l4(scratch, frame, info);
}

bool make_tso_header(std::byte* scratch, const Frame& frame, const TsoSegment& segment,
                     const SendOffloads& offloads) noexcept {
    // The packet's own length may not fit the field: it is set before the IP header is believed.
    const PacketInfo layers = parse(frame);
    std::byte* const l3 = scratch + layers.l3_offset;
    const std::uint32_t l3_bytes = frame.length_bytes - layers.l3_offset;
    const bool ipv4 = layers.ether_type == ether_type_ipv4;
    if (ipv4) {
        store_be<std::uint16_t>(l3 + 2, l3_bytes);
        store_be<std::uint16_t>(l3 + 4, load_be<std::uint16_t>(l3 + 4) + segment.index);
    } else if (layers.ether_type == ether_type_ipv6) {
        store_be<std::uint16_t>(l3 + 4, l3_bytes - ipv6_header_bytes);
    }
    const PacketInfo info = parse(frame);
    const bool tcp = info.l4_type != prm::L4Type::none && info.l4_type != prm::L4Type::udp;
    if (info.ip_version == 0 || !tcp) return false;
    std::byte* const l4 = scratch + info.l4_offset;
    const std::uint32_t tag_bytes = offloads.insert_vlan ? vlan_tag_bytes : 0;
    const std::uint32_t l4_header = static_cast<std::uint32_t>(l4[12] >> 4) * 4;
    if (info.l4_offset + l4_header != segment.header_bytes + tag_bytes) return false;
    store_be<std::uint32_t>(l4 + 4, load_be<std::uint32_t>(l4 + 4) + segment.index * segment.mss);
    if (!segment.last) l4[13] &= ~(tcp_flag_fin | tcp_flag_push);
    if (segment.index != 0) l4[13] &= ~tcp_flag_cwr;
    return true;
}

} // namespace swhca
