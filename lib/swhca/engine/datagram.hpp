// SPDX-License-Identifier: BSD-3-Clause
/// Datagrams of UD QPs: headers written on the way out, read on the way in. On InfiniBand ports a packet
/// begins with its LRH; on Ethernet ports it is RoCE v1 or v2, as the source GID's type says.
#pragma once

#include "swhca/engine/gather.hpp"
#include "swhca/engine/offload.hpp"
#include "swhca/hca/port.hpp"
#include "swhca/wire/infiniband.hpp"

#include <array>
#include <cstdint>

namespace swhca {

/// What a WQE of a UD QP says, but its data.
struct DatagramRequest {
    const std::byte* address{}; ///< datagram segment, 48 bytes
    be32 immediate{};           ///< as it stands in the WQE
    bool has_immediate{};
    bool solicited{};
    SendOffloads offloads{}; ///< SOURCE_QPN QPs: checksums of an IPoIB packet
};

/// Makes a frame of the pieces of a datagram, `batch.segments[segment_count + 1 ...]`, and adds it to the
/// batch, which has room for two segments more.
GatherFault end_datagram(const Qp& qp, const DatagramRequest& request, unsigned pieces,
                         GatherBatch& batch) noexcept;

/// Headers of a received datagram.
struct Datagram {
    std::array<std::byte, ib::Grh::bytes> grh{}; ///< the GRH area of the receive buffer
    bool has_grh{};
    bool multicast{};
    bool has_immediate{};
    bool solicited{};
    std::uint8_t service_level{};
    std::uint8_t network_type{}; ///< RoCE: 0 GRH, 1 IPv6, 2 IPv4; as CQEs tell it
    std::uint16_t source_lid{}, destination_lid{};
    std::uint16_t pkey{};
    std::uint32_t qkey{};
    Qpn destination{}, source{};
    be32 immediate{};
    std::uint32_t payload_offset{}, payload_bytes{};
};

/// An Ethernet frame that is RoCE. Looks at its first segment.
bool is_roce(const Frame& frame) noexcept;

/// False: the headers make no sense, or are of another transport than UD.
bool parse_datagram(const Frame& frame, LinkLayer link, Datagram& datagram) noexcept;

/// Where a datagram of the port's own goes.
struct DatagramRoute {
    bool to_wire{}, to_self{};
};
DatagramRoute route_of(const Port& port, const Frame& frame) noexcept;

/// The datagram is addressed to the port, or to a group. `from_wire`: it was not the port itself that sent
/// it.
bool is_for_port(const Port& port, const Frame& frame, const Datagram& datagram, bool from_wire) noexcept;

} // namespace swhca
