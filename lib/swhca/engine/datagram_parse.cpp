// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/datagram.hpp"
#include "swhca/engine/parse.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using stride::be16;

constexpr std::uint8_t network_ipv6 = 1, network_ipv4 = 2;

/// Takes headers off the front of the first segment.
class HeaderReader {
  public:
    explicit HeaderReader(const Frame& frame) noexcept
        : data_{frame.segments.front().data}
        , left_{std::min(frame.segments.front().length_bytes, frame.length_bytes)} {}
    /// Null if there is not so much.
    const std::byte* take(std::uint32_t bytes) noexcept {
        if (bytes > left_) return nullptr;
        const std::byte* const header = data_ + used_;
        used_ += bytes;
        left_ -= bytes;
        return header;
    }
    std::uint32_t used() const noexcept { return used_; }

  private:
    const std::byte* data_;
    std::uint32_t left_, used_{};
};

std::uint16_t load16(const std::byte* from) noexcept {
    be16 value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

bool take_grh(HeaderReader& reader, Datagram& datagram) noexcept {
    const std::byte* grh = reader.take(ib::Grh::bytes);
    if (grh == nullptr || ib::Grh::version::get(grh) != 6) return false;
    std::memcpy(datagram.grh.data(), grh, datagram.grh.size());
    datagram.has_grh = true;
    return true;
}

/// `trailing`: bytes behind the payload and its pad.
bool take_lrh(HeaderReader& reader, const Frame& frame, Datagram& datagram) noexcept {
    const std::byte* lrh = reader.take(ib::Lrh::bytes);
    if (lrh == nullptr) return false;
    datagram.service_level = static_cast<std::uint8_t>(ib::Lrh::service_level::get(lrh));
    datagram.source_lid = static_cast<std::uint16_t>(ib::Lrh::source_lid::get(lrh));
    datagram.destination_lid = static_cast<std::uint16_t>(ib::Lrh::destination_lid::get(lrh));
    datagram.multicast = ib::is_multicast_lid(datagram.destination_lid);
    if (ib::Lrh::length_words::get(lrh) * 4 + ib::vcrc_bytes != frame.length_bytes) return false;
    const std::uint32_t next = ib::Lrh::next_header::get(lrh);
    if (next == ib::next_is_grh)
        return take_grh(reader, datagram) &&
               ib::Grh::next_header::get(datagram.grh.data()) == ib::grh_next_is_bth;
    return next == ib::next_is_bth;
}

bool take_ipv4(HeaderReader& reader, Datagram& datagram) noexcept {
    const std::byte* ip = reader.take(ipv4_header_bytes);
    if (ip == nullptr || ip[0] != std::byte{0x45}) return false;
    // The area's last 20 bytes hold an IPv4 header (IBTA annex A17).
    std::memcpy(datagram.grh.data() + datagram.grh.size() - ipv4_header_bytes, ip, ipv4_header_bytes);
    datagram.has_grh = true;
    datagram.network_type = network_ipv4;
    return reader.take(udp_header_bytes) != nullptr;
}

bool take_roce(HeaderReader& reader, Datagram& datagram) noexcept {
    const std::byte* ethernet = reader.take(ethernet_header_bytes);
    if (ethernet == nullptr) return false;
    datagram.multicast = (ethernet[0] & std::byte{1}) != std::byte{0};
    const std::uint16_t type = load16(ethernet + 12);
    if (type == ib::ether_type_roce_v1) return take_grh(reader, datagram);
    if (type == ether_type_ipv4) return take_ipv4(reader, datagram);
    datagram.network_type = network_ipv6;
    return type == ether_type_ipv6 && take_grh(reader, datagram) && reader.take(udp_header_bytes) != nullptr;
}

bool take_transport(HeaderReader& reader, Datagram& datagram, std::uint32_t& pad) noexcept {
    const std::byte* bth = reader.take(ib::Bth::bytes);
    const std::byte* deth = reader.take(ib::Deth::bytes);
    if (bth == nullptr || deth == nullptr || ib::Bth::version::get(bth) != 0) return false;
    const std::uint32_t opcode = ib::Bth::opcode::get(bth);
    datagram.has_immediate = opcode == ib::ud_send_only_immediate;
    if (!datagram.has_immediate && opcode != ib::ud_send_only) return false;
    datagram.solicited = ib::Bth::solicited::get(bth) != 0;
    datagram.pkey = static_cast<std::uint16_t>(ib::Bth::pkey::get(bth));
    datagram.destination = Qpn{ib::Bth::destination_qpn::get(bth)};
    datagram.qkey = ib::Deth::qkey::get(deth);
    datagram.source = Qpn{ib::Deth::source_qpn::get(deth)};
    pad = ib::Bth::pad_bytes::get(bth);
    if (!datagram.has_immediate) return true;
    const std::byte* immediate = reader.take(ib::immediate_bytes);
    if (immediate == nullptr) return false;
    std::memcpy(&datagram.immediate, immediate, sizeof datagram.immediate);
    return true;
}

} // namespace

bool is_roce(const Frame& frame) noexcept {
    const Segment& first = frame.segments.front();
    if (first.length_bytes < ethernet_header_bytes) return false;
    const std::uint16_t type = load16(first.data + 12);
    if (type == ib::ether_type_roce_v1) return true;
    if (type != ether_type_ipv4 && type != ether_type_ipv6) return false;
    const PacketInfo info = parse(frame);
    return info.l4_type == prm::L4Type::udp && info.dst_port == ib::udp_port_roce_v2;
}

bool parse_datagram(const Frame& frame, LinkLayer link, Datagram& datagram) noexcept {
    HeaderReader reader{frame};
    const bool infiniband = link == LinkLayer::infiniband;
    std::uint32_t pad = 0;
    if (!(infiniband ? take_lrh(reader, frame, datagram) : take_roce(reader, datagram))) return false;
    if (!take_transport(reader, datagram, pad)) return false;
    datagram.payload_offset = reader.used();
    const std::uint32_t behind = pad + ib::icrc_bytes + (infiniband ? ib::vcrc_bytes : 0);
    if (datagram.payload_offset + behind > frame.length_bytes) return false;
    datagram.payload_bytes = frame.length_bytes - datagram.payload_offset - behind;
    return true;
}

DatagramRoute route_of(const Port& port, const Frame& frame) noexcept {
    const std::byte* header = frame.segments.front().data;
    if (port.link_layer == LinkLayer::infiniband) {
        const auto lid = static_cast<std::uint16_t>(ib::Lrh::destination_lid::get(header));
        if (ib::is_multicast_lid(lid)) return {true, true};
        return {lid != port.lid, lid == port.lid};
    }
    if ((header[0] & std::byte{1}) != std::byte{0}) return {true, true};
    const bool own = std::memcmp(header, port.mac.data(), port.mac.size()) == 0;
    return {!own, own};
}

bool is_for_port(const Port& port, const Frame& frame, const Datagram& datagram, bool from_wire) noexcept {
    const std::byte* header = frame.segments.front().data;
    if (port.link_layer == LinkLayer::infiniband) {
        // What comes back over the wire was looped back inside already.
        if (from_wire && datagram.source_lid == port.lid) return false;
        return datagram.multicast || datagram.destination_lid == port.lid ||
               datagram.destination_lid == ib::permissive_lid;
    }
    if (from_wire && std::memcmp(header + 6, port.mac.data(), port.mac.size()) == 0) return false;
    return datagram.multicast || std::memcmp(header, port.mac.data(), port.mac.size()) == 0;
}

} // namespace swhca
