// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/datagram.hpp"
#include "swhca/engine/parse.hpp"
#include "swhca/prm/wqe.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using prm::DatagramSegment;
using stride::be16;

constexpr std::uint32_t ipoib_header_bytes = 4;
constexpr std::uint32_t grh_hop_limit_default = 64;
constexpr std::uint32_t privileged_qkey = 1U << 31; ///< in a WQE: take the QP's instead
constexpr std::uint16_t roce_source_port = 0xc000;
constexpr std::byte trailer[3 + ib::icrc_bytes + ib::vcrc_bytes]{}; ///< pad, ICRC, VCRC

/// Appends headers.
class HeaderWriter {
  public:
    explicit HeaderWriter(std::byte* to) noexcept
        : start_{to}
        , at_{to} {}
    std::byte* add(std::uint32_t bytes) noexcept {
        std::byte* const header = at_;
        std::memset(header, 0, bytes);
        at_ += bytes;
        return header;
    }
    std::uint32_t written() const noexcept { return static_cast<std::uint32_t>(at_ - start_); }

  private:
    std::byte* start_;
    std::byte* at_;
};

/// Lengths of the packet's parts.
struct Sizes {
    std::uint32_t payload{}, pad{};
    std::uint32_t transport{}; ///< from the BTH to the ICRC's end
};

void store16(std::byte* to, std::uint32_t value) noexcept {
    const be16 wire = static_cast<std::uint16_t>(value);
    std::memcpy(to, &wire, sizeof wire);
}

Gid source_gid(const Port& port, const std::byte* address) noexcept {
    const std::uint32_t index = DatagramSegment::source_gid_index::get(address);
    return index < port.gids.size() ? port.gids[index].gid : Gid{};
}

void write_grh(std::byte* grh, const Port& port, const std::byte* address, std::uint32_t payload) noexcept {
    const Gid source = source_gid(port, address);
    ib::Grh::version::set(grh, 6);
    ib::Grh::traffic_class::set(grh, DatagramSegment::traffic_class::get(address));
    ib::Grh::flow_label::set(grh, DatagramSegment::flow_label::get(address));
    ib::Grh::payload_bytes::set(grh, payload);
    ib::Grh::next_header::set(grh, ib::grh_next_is_bth);
    ib::Grh::hop_limit::set(grh, DatagramSegment::hop_limit::get(address));
    std::memcpy(grh + ib::Grh::source_gid_offset, source.data(), source.size());
    std::memcpy(grh + ib::Grh::destination_gid_offset, address + 0x20, sizeof(Gid));
}

void write_lrh(HeaderWriter& headers, const Port& port, const std::byte* address,
               const Sizes& sizes) noexcept {
    const bool global = DatagramSegment::grh::get(address) != 0;
    std::byte* lrh = headers.add(ib::Lrh::bytes);
    const std::uint32_t bytes = ib::Lrh::bytes + (global ? ib::Grh::bytes : 0) + sizes.transport;
    ib::Lrh::service_level::set(lrh, DatagramSegment::service_level::get(address));
    ib::Lrh::next_header::set(lrh, global ? ib::next_is_grh : ib::next_is_bth);
    ib::Lrh::destination_lid::set(lrh, DatagramSegment::remote_lid::get(address));
    ib::Lrh::length_words::set(lrh, bytes / 4);
    ib::Lrh::source_lid::set(lrh, port.lid);
    if (global) write_grh(headers.add(ib::Grh::bytes), port, address, sizes.transport);
}

bool is_mapped_ipv4(const std::byte* gid) noexcept {
    static constexpr std::uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid, prefix, sizeof prefix) == 0;
}

void write_ipv4(std::byte* ip, const std::byte* address, const Gid& source, std::uint32_t payload) noexcept {
    ip[0] = std::byte{0x45};
    ip[1] = static_cast<std::byte>(DatagramSegment::traffic_class::get(address));
    store16(ip + 2, ipv4_header_bytes + payload);
    ip[8] = static_cast<std::byte>(DatagramSegment::hop_limit::get(address));
    ip[9] = std::byte{ip_proto_udp};
    std::memcpy(ip + 12, source.data() + 12, 4);
    std::memcpy(ip + 16, address + 0x20 + 12, 4);
    const std::uint16_t sum = static_cast<std::uint16_t>(~fold_sum(sum_bytes(ip, ipv4_header_bytes)));
    std::memcpy(ip + 10, &sum, sizeof sum);
}

/// Ethernet header and, for RoCE v2, IP and UDP; for v1 a GRH.
void write_roce(HeaderWriter& headers, const Port& port, const std::byte* address,
                const Sizes& sizes) noexcept {
    std::byte* ethernet = headers.add(ethernet_header_bytes);
    std::memcpy(ethernet, address + 0x14, 6);
    std::memcpy(ethernet + 6, port.mac.data(), port.mac.size());
    const std::uint32_t index = DatagramSegment::source_gid_index::get(address);
    if (index >= port.gids.size() || !port.gids[index].roce_v2) {
        store16(ethernet + 12, ib::ether_type_roce_v1);
        write_grh(headers.add(ib::Grh::bytes), port, address, sizes.transport);
        return;
    }
    const std::uint32_t udp_bytes = udp_header_bytes + sizes.transport;
    if (is_mapped_ipv4(address + 0x20)) {
        store16(ethernet + 12, ether_type_ipv4);
        write_ipv4(headers.add(ipv4_header_bytes), address, source_gid(port, address), udp_bytes);
    } else {
        store16(ethernet + 12, ether_type_ipv6);
        std::byte* ip = headers.add(ib::Grh::bytes);
        write_grh(ip, port, address, udp_bytes);
        ib::Grh::next_header::set(ip, ip_proto_udp);
        if (DatagramSegment::hop_limit::get(address) == 0) ib::Grh::hop_limit::set(ip, grh_hop_limit_default);
    }
    std::byte* udp = headers.add(udp_header_bytes);
    store16(udp, roce_source_port);
    store16(udp + 2, ib::udp_port_roce_v2);
    store16(udp + 4, udp_bytes);
}

void write_transport(HeaderWriter& headers, const Qp& qp, const DatagramRequest& request,
                     std::uint32_t pad) noexcept {
    const Port& port = *qp.port;
    std::byte* bth = headers.add(ib::Bth::bytes);
    ib::Bth::opcode::set(bth, request.has_immediate ? ib::ud_send_only_immediate : ib::ud_send_only);
    ib::Bth::solicited::set(bth, request.solicited ? 1 : 0);
    ib::Bth::migrated::set(bth, 1);
    ib::Bth::pad_bytes::set(bth, pad);
    ib::Bth::pkey::set(bth, qp.pkey_index < port.pkeys.size() ? port.pkeys[qp.pkey_index] : 0);
    ib::Bth::destination_qpn::set(bth, DatagramSegment::destination_qpn::get(request.address));
    std::byte* deth = headers.add(ib::Deth::bytes);
    const std::uint32_t qkey = DatagramSegment::qkey::get(request.address);
    ib::Deth::qkey::set(deth, (qkey & privileged_qkey) != 0 ? qp.qkey : qkey);
    ib::Deth::source_qpn::set(deth, qp.source_qpn != 0 ? qp.source_qpn : qp.qpn.value);
    if (request.has_immediate)
        std::memcpy(headers.add(ib::immediate_bytes), &request.immediate, ib::immediate_bytes);
}

/// Moves the front of the payload behind the headers, so that a receiver may parse without walking the list.
Segment* join_front(std::byte* scratch, std::uint32_t header, Segment* piece, Segment* end) noexcept {
    std::uint32_t length = header;
    while (piece != end && length < header_bytes) {
        const std::uint32_t some = std::min(header_bytes - length, piece->length_bytes);
        std::memcpy(scratch + length, piece->data, some);
        length += some;
        piece->data += some;
        piece->length_bytes -= some;
        if (piece->length_bytes == 0) ++piece;
    }
    Segment* const first = piece - 1;
    *first = {scratch, length};
    return first;
}

/// The offload engine knows Ethernet frames: for the time of its work the EtherType of the IPoIB header
/// stands where that of an Ethernet header in front of the IP packet would, in the reserved field.
void insert_ipoib_checksums(std::byte* scratch, const Frame& frame, std::uint32_t header,
                            const SendOffloads& offloads) noexcept {
    const std::uint32_t before = header + ipoib_header_bytes - ethernet_header_bytes;
    Segment& first = const_cast<Segment&>(frame.segments.front()); // NOLINT: our own list
    const Segment whole = first;
    std::byte* const reserved = scratch + header + 2;
    std::byte kept[2];
    std::memcpy(kept, reserved, sizeof kept);
    std::memcpy(reserved, scratch + header, sizeof kept);
    first = {scratch + before, whole.length_bytes - before};
    insert_checksums(scratch + before, {frame.segments, frame.length_bytes - before}, offloads);
    first = whole;
    std::memcpy(reserved, kept, sizeof kept);
}

} // namespace

GatherFault end_datagram(const Qp& qp, const DatagramRequest& request, unsigned pieces,
                         GatherBatch& batch) noexcept {
    const Port& port = *qp.port;
    Segment* const list = &batch.segments[batch.segment_count];
    std::uint64_t payload = 0;
    for (unsigned i = 1; i <= pieces; ++i)
        payload += list[i].length_bytes;
    if (payload > port.mtu_bytes) return {Rule::frame_length, prm::Syndrome::local_length};
    Sizes sizes;
    sizes.payload = static_cast<std::uint32_t>(payload);
    sizes.pad = (4 - (sizes.payload & 3U)) & 3U;
    sizes.transport = ib::Bth::bytes + ib::Deth::bytes + (request.has_immediate ? ib::immediate_bytes : 0) +
                      sizes.payload + sizes.pad + ib::icrc_bytes;
    const bool infiniband = port.link_layer == LinkLayer::infiniband;
    std::byte* const scratch = batch.scratch[batch.frame_count].data();
    HeaderWriter headers{scratch};
    if (infiniband)
        write_lrh(headers, port, request.address, sizes);
    else
        write_roce(headers, port, request.address, sizes);
    write_transport(headers, qp, request, sizes.pad);
    const std::uint32_t tail = sizes.pad + ib::icrc_bytes + (infiniband ? ib::vcrc_bytes : 0);
    list[pieces + 1] = {trailer, tail};
    Segment* const end = list + pieces + 2;
    Segment* const first = join_front(scratch, headers.written(), list + 1, end);
    Frame& frame = batch.frames[batch.frame_count];
    frame = {{first, end}, headers.written() + sizes.payload + tail};
    if (request.offloads.any() && sizes.payload >= ipoib_header_bytes)
        insert_ipoib_checksums(scratch, frame, headers.written(), request.offloads);
    batch.segment_count += pieces + 2;
    ++batch.frame_count;
    return {};
}

} // namespace swhca
