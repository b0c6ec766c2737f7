// SPDX-License-Identifier: BSD-3-Clause
/// IPoIB, datagram mode (RFC 4391), for an application that sees Ethernet frames.
///
/// Sent: the Ethernet header is taken off, the 4-byte IPoIB header is inlined, and the address vector (AV) is
/// made of the destination MAC: `02 QQ QQ QQ LL LL` holds the peer's QPN and LID, a group address stands for
/// an IPoIB multicast group. Received: the Ethernet header is written into the GRH area in front of the
/// payload, with such a MAC for the source. ARP and IPv6 neighbour discovery carry 20-byte hardware addresses
/// on the wire and 6-byte ones in the frame; the GIDs that do not fit are remembered per (QPN, LID).
#pragma once

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mbufqp/encap/frame.hpp"
#include "mbufqp/encap/header.hpp"
#include "mbufqp/encap/receive.hpp"
#include "mbufqp/encap/shared_table.hpp"
#include "mbufqp/tx_flags.hpp"
#include "mlx5/wqe.hpp"

#include <infiniband/mlx5dv.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

using Gid = std::array<std::uint8_t, 16>;
/// Hardware address of RFC 4391: flags, QPN (3 bytes), GID.
using HardwareAddress = std::array<std::uint8_t, 20>;

/// Where a UD packet goes within a subnet.
struct UdAddress {
    Qpn qpn{};
    std::uint16_t lid{};
    friend constexpr bool operator==(const UdAddress&, const UdAddress&) = default;
};

inline constexpr std::uint32_t ipoib_header_bytes = 4;
inline constexpr std::uint32_t grh_bytes = 40;
inline constexpr Qpn multicast_qpn{0xffffff};
inline constexpr std::uint16_t first_multicast_lid = 0xc000;

/// The MAC that stands for a peer.
constexpr Mac mac_of(UdAddress peer) noexcept {
    return {0x02,
            static_cast<std::uint8_t>(peer.qpn.value >> 16),
            static_cast<std::uint8_t>(peer.qpn.value >> 8),
            static_cast<std::uint8_t>(peer.qpn.value),
            static_cast<std::uint8_t>(peer.lid >> 8),
            static_cast<std::uint8_t>(peer.lid)};
}
/// False: the MAC stands for no peer (another prefix, QPN 0 or that of multicast, no unicast LID).
inline bool peer_of(const std::byte* mac, UdAddress& peer) noexcept {
    const std::uint32_t head = load_at<be32>(mac).host();
    peer = {Qpn{head & 0xffffff}, load_at<be16>(mac + 4).host()};
    // 0 less 1 is beyond every limit.
    constexpr std::uint32_t prefix = 0x02000000;
    return head - prefix - 1 < multicast_qpn.value - 1 &&
           std::uint32_t{peer.lid} - 1 < first_multicast_lid - 1U;
}

/// An interface's place on the fabric; from the port, the UD QP that owns the QPN, and the subnet manager.
struct IpoibConfig {
    UdAddress own{};
    Gid gid{};
    std::uint16_t pkey{0xffff};
    std::uint32_t qkey{0x0b1b}; ///< of the broadcast group, hence of all
    std::uint8_t scope{2};      ///< of the groups; 2: link-local
    std::uint16_t broadcast_lid{first_multicast_lid};
    std::uint16_t mtu_bytes{2044}; ///< of the IP packet: IB MTU less the header; at most 4092
    std::uint8_t service_level{}, static_rate{};
    std::uint8_t gid_index{};
    std::uint32_t groups{256}; ///< multicast groups besides broadcast
    std::uint32_t peers{4096}; ///< peers whose GID is remembered
};

/// The groups of RFC 4391, section 4: broadcast, and those of an IP multicast address in network order.
Gid broadcast_gid(const IpoibConfig& config) noexcept;
Gid ipv4_group_gid(const IpoibConfig& config, std::uint32_t address) noexcept;
Gid ipv6_group_gid(const IpoibConfig& config, const Gid& address) noexcept;

/// One interface. Sending and receiving from any thread; group changes from the control thread meanwhile.
class IpoibPort {
  public:
    /// EINVAL: an address, MTU, scope or SL that cannot be.
    static Status check(const IpoibConfig& config);
    /// `config` has passed check().
    explicit IpoibPort(const IpoibConfig& config);

    const IpoibConfig& config() const noexcept { return config_; }
    Mac mac() const noexcept { return mac_of(config_.own); }
    /// Longest Ethernet frame, without FCS.
    std::uint32_t max_frame_bytes() const noexcept { return config_.mtu_bytes + ethernet_header_bytes; }

    /// Frames to the group go to `lid` from now. Frames to groups not known go to all (the broadcast group).
    /// EINVAL: no multicast GID or LID; ENOSPC.
    Status add_group(const Gid& gid, std::uint16_t lid);
    bool remove_group(const Gid& gid);

    /// Address vector of a frame's destination; false: there is none. `frame` as in HeaderRequest.
    bool address(const std::byte* frame, std::uint32_t bytes, std::byte* datagram) const noexcept {
        UdAddress peer;
        if (!peer_of(frame, peer)) [[unlikely]]
            return group_address(frame, bytes, datagram);
        std::memcpy(datagram, &unicast_, sizeof unicast_);
        const be32 qpn{peer.qpn.value | MLX5_EXTENDED_UD_AV};
        store_at(datagram + offsetof(mlx5_wqe_av, dqp_dct), qpn);
        store_at(datagram + offsetof(mlx5_wqe_av, rlid), be16{peer.lid});
        return true;
    }

    /// Headers of ARP and ICMPv6, which may have to be rewritten; everything else gets the plain one.
    InlineHeader control_header(const HeaderRequest& request, std::byte* out) const noexcept;
    /// The frame in what a UD QP received; remembers GIDs.
    Decapsulated receive(const ReceiveRequest& request) noexcept;

    /// A hardware address for a MAC: own, remembered, or with a GID of zeros; zeros for what is no peer's
    /// MAC.
    HardwareAddress hardware_address(const std::byte* mac) const noexcept;

  private:
    using Peers = SharedTable<1, 2>;
    using Groups = SharedTable<2, 1>;

    bool group_address(const std::byte* frame, std::uint32_t bytes, std::byte* datagram) const noexcept;
    InlineHeader arp_header(const HeaderRequest& request, std::byte* out) const noexcept;
    InlineHeader neighbour_header(const HeaderRequest& request, std::byte* out) const noexcept;
    Decapsulated receive_arp(const ReceiveRequest& request) noexcept;
    Decapsulated receive_neighbour(const ReceiveRequest& request, Decapsulated frame) noexcept;
    bool is_own(const std::byte* hardware_address) const noexcept;
    bool learn(const std::byte* hardware_address, const ReceiveRequest& request, Mac& mac) noexcept;
    void write_ethernet_header(const ReceiveRequest& request, std::byte* out, bool multicast) const noexcept;

    IpoibConfig config_;
    mlx5_wqe_av unicast_{};   ///< all but QPN and LID
    mlx5_wqe_av broadcast_{}; ///< to everybody
    Groups groups_;           ///< MGID to LID
    Peers peers_;             ///< QPN and LID to GID
};

/// The encap: what stands in front of the payload in the WQE. Context: an IpoibPort.
struct Ipoib {
    /// Datagram segment and pad.
    static constexpr std::uint32_t address_ds = 4;
    static constexpr std::uint32_t min_frame_bytes = ethernet_header_bytes;
    /// Enough for neighbour discovery up to its link-layer address options.
    static constexpr std::uint32_t header_reads_bytes = 192;
    static constexpr std::uint32_t max_header_bytes = 224;
    static constexpr std::uint32_t usual_header_bytes = ipoib_header_bytes;
    static constexpr std::uint32_t max_trailer_bytes = 0;
    static constexpr bool may_refuse = true;
    static constexpr std::uint32_t usual_wqebbs = 2;
    static constexpr bool shares_wqe = false;
    /// What a queue may be asked for.
    static constexpr TxFeatures offered{TxFeature::multi_segment, TxFeature::checksum, TxFeature::fast_free};

    static constexpr bool has_header(TxFeatures) noexcept { return true; }

    static InlineHeader header(const HeaderRequest& request, std::byte* out) noexcept {
        const IpoibPort& port = *static_cast<const IpoibPort*>(request.context);
        // P_Keys are what a fabric has for VLANs: there is no place for a tag.
        if (request.tag) [[unlikely]]
            return InlineHeader::refused(TxRefusal::offload);
        if (!port.address(request.frame, request.frame_bytes, request.address)) [[unlikely]]
            return InlineHeader::refused(TxRefusal::no_address);
        const be16 type = load_at<be16>(request.frame + 2 * mac_bytes);
        if (is_control(request, type)) [[unlikely]] {
            const HeaderRequest copy = request; // what no call gets to see stays in registers
            return port.control_header(copy, out);
        }
        return plain_header(type, out);
    }

    static InlineHeader plain_header(be16 type, std::byte* out) noexcept {
        store_at(out, be32{std::uint32_t{type.host()} << 16});
        return {.inlined_bytes = ipoib_header_bytes, .taken_bytes = ethernet_header_bytes};
    }

    static Decapsulated receive(void* context, const ReceiveRequest& request) noexcept {
        return static_cast<IpoibPort*>(context)->receive(request);
    }

  private:
    static bool is_control(const HeaderRequest& request, be16 type) noexcept {
        constexpr std::uint32_t next_header_at = ethernet_header_bytes + 6;
        return type == be16{ether_type::arp} ||
               (type == be16{ether_type::ipv6} && request.frame_bytes > next_header_at &&
                request.frame[next_header_at] == std::byte{ip_protocol::icmpv6});
    }
};

} // namespace stride::mbufqp
