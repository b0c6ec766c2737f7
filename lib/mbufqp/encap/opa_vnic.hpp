// SPDX-License-Identifier: BSD-3-Clause
/// OPA VNIC: Ethernet frames over an Omni-Path fabric, in 16B packets.
///
/// Sent: 16 bytes of L2 header and 4 of L4 before the frame, and behind it pad, ICRC and tail up to a
/// multiple of 8 bytes. The ICRC is the HCA's to compute; its place is left 0. Received: all that is taken
/// off and the switch id checked. Layout: kernel Documentation/infiniband/opa_vnic.rst; rules of DLID, SC,
/// VL, RC and entropy: drivers/infiniband/ulp/opa_vnic/opa_vnic_encap.c, whose names are used here.
#pragma once

#include "base/result.hpp"
#include "mbufqp/encap/frame.hpp"
#include "mbufqp/encap/header.hpp"
#include "mbufqp/encap/receive.hpp"
#include "mbufqp/encap/shared_table.hpp"
#include "mbufqp/tx_flags.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

/// What the Ethernet manager of the fabric tells a VNIC port (opa_vesw_info, opa_per_veswport_info).
struct OpaVnicConfig {
    static constexpr std::size_t pcps = 8; ///< VLAN priorities
    static constexpr std::size_t default_ports = 16;
    std::uint16_t vesw_id{}; ///< virtual Ethernet switch; not 0
    std::uint16_t pkey{0xffff};
    std::uint32_t encap_slid{};   ///< 24 bits
    std::uint32_t u_mcast_dlid{}; ///< of group addresses that have no MAC table entry; 0: none
    std::array<std::uint32_t, default_ports> u_ucast_dlid{}; ///< of unknown unicast, chosen by flow
    std::uint16_t def_port_mask{};                           ///< which of those are in use
    /// Routing control: 3 bits each for default, IPv4, IPv4 UDP, IPv4 TCP, IPv6, IPv6 TCP, IPv6 UDP at
    /// 0, 4, ... 24.
    std::uint32_t rc{};
    std::array<std::uint8_t, pcps> pcp_to_sc_uc{}, pcp_to_sc_mc{}; ///< 5 bits each
    std::array<std::uint8_t, pcps> pcp_to_vl_uc{}, pcp_to_vl_mc{};
    std::uint8_t non_vlan_sc_uc{}, non_vlan_sc_mc{}, non_vlan_vl_uc{}, non_vlan_vl_mc{};
    std::uint16_t eth_mtu{1500};     ///< at most 10240
    std::uint32_t mac_entries{2048}; ///< room in the MAC table
};

/// How a frame leaves: what goes into the header beside addresses.
struct OpaRoute {
    std::uint32_t dlid{}; ///< 0: there is none
    std::uint8_t sc{}, vl{}, rc{}, entropy{};
};

class OpaVnicDemux;

/// One port of a virtual Ethernet switch. Routing and receiving from any thread; changes from the control
/// thread while they go on.
class OpaVnicPort {
  public:
    static constexpr std::uint32_t max_mtu_bytes = 10240;

    /// EINVAL: an id, LID, SC or MTU that the header has no room for.
    static Status check(const OpaVnicConfig& config);
    /// `config` has passed check().
    explicit OpaVnicPort(const OpaVnicConfig& config);
    ~OpaVnicPort();
    OpaVnicPort(const OpaVnicPort&) = delete;
    OpaVnicPort& operator=(const OpaVnicPort&) = delete;

    const OpaVnicConfig& config() const noexcept { return config_; }
    /// Longest frame, without FCS, a tag included (the kernel's mtu + VLAN_ETH_HLEN).
    std::uint32_t max_frame_bytes() const noexcept {
        return config_.eth_mtu + ethernet_header_bytes + vlan_tag_bytes;
    }

    /// MAC table: frames to `mac` go to `dlid`. ENOSPC; EINVAL: null MAC or LID.
    Status add_mac(const Mac& mac, std::uint32_t dlid);
    /// False: was not there.
    bool remove_mac(const Mac& mac);
    /// Whether the port is in state FORWARDING (else DROP_ALL); it starts so.
    void set_forwarding(bool forwarding) noexcept {
        forwarding_.store(forwarding, std::memory_order_relaxed);
    }
    bool forwarding() const noexcept { return forwarding_.load(std::memory_order_relaxed); }
    /// Joins the ports of a device that all get every packet, until it is destroyed: what is for one of them
    /// is for no other to count. Before the first receive. As OpaVnicDemux::add().
    Status join(OpaVnicDemux& siblings);
    /// No other port has joined before it.
    bool is_first() const noexcept;

    /// `fields` of the frame, as it will be on the wire (with a tag to be inserted).
    OpaRoute route(const std::byte* destination_mac, const FrameFields& fields) const noexcept {
        OpaRoute route;
        route.entropy = entropy(fields.flow_hash);
        route.dlid = dlid(destination_mac, route.entropy);
        const bool group = is_group(destination_mac);
        if (fields.tagged) {
            const unsigned pcp = fields.tci >> 13;
            route.sc = group ? config_.pcp_to_sc_mc[pcp] : config_.pcp_to_sc_uc[pcp];
            route.vl = group ? config_.pcp_to_vl_mc[pcp] : config_.pcp_to_vl_uc[pcp];
        } else {
            route.sc = group ? config_.non_vlan_sc_mc : config_.non_vlan_sc_uc;
            route.vl = group ? config_.non_vlan_vl_mc : config_.non_vlan_vl_uc;
        }
        route.rc = routing_control(fields);
        return route;
    }

    /// XOR of the bytes of the flow hash.
    static constexpr std::uint8_t entropy(std::uint32_t flow_hash) noexcept {
        const std::uint32_t half = flow_hash ^ flow_hash >> 16;
        return static_cast<std::uint8_t>(half ^ half >> 8);
    }

    /// The frame in a 16B packet, or why there is none. Frames of other switches are not looked into.
    Decapsulated receive(const ReceiveRequest& request) const noexcept;

  private:
    static constexpr std::size_t flows = 32;
    static constexpr std::uint8_t no_port = 0xff;

    RxDrop drop_of_switch(std::uint16_t vesw_id) const noexcept;
    std::uint32_t dlid(const std::byte* mac, std::uint8_t entropy) const noexcept;
    std::uint8_t routing_control(const FrameFields& fields) const noexcept;

    OpaVnicConfig config_;
    std::array<std::uint8_t, flows> default_port_{}; ///< by flow
    OpaVnicDemux* siblings_{};
    std::atomic<bool> forwarding_{true};
    SharedTable<1, 1> macs_; ///< MAC as a number to DLID
};

/// The 16B and L4 header, five little-endian dwords.
class OpaHeader {
  public:
    static constexpr std::uint32_t bytes = 20;
    static constexpr std::uint8_t l4_ethernet = 0x78;

    struct Fields {
        std::uint32_t slid{}, dlid{}; ///< 24 bits
        std::uint32_t quad_words{};   ///< of the whole packet, 11 bits
        std::uint8_t sc{}, rc{};      ///< 5, 3 bits
        std::uint8_t l2{2}, l4{l4_ethernet};
        bool becn{}, fecn{}, head{true}; ///< head: LT, Link Transfer Head flit
        std::uint16_t pkey{}, entropy{};
        std::uint16_t l4_header{}; ///< virtual Ethernet switch id
    };

    static void write(std::byte* out, const Fields& fields) noexcept {
        static_assert(std::endian::native == std::endian::little, "the header is little-endian");
        const std::uint32_t flags = std::uint32_t{fields.fecn} << 28 | std::uint32_t{fields.l2} << 29 |
                                    std::uint32_t{fields.head} << 31;
        const std::uint32_t dwords[bytes / 4] = {
            (fields.slid & lid_low) | fields.quad_words << 20 | std::uint32_t{fields.becn} << 31,
            (fields.dlid & lid_low) | std::uint32_t{fields.sc} << 20 | std::uint32_t{fields.rc} << 25 | flags,
            fields.l4 | (fields.slid >> 20) << 8 | (fields.dlid >> 20) << 12 |
                std::uint32_t{fields.pkey} << 16,
            fields.entropy, std::uint32_t{fields.l4_header} << 16};
        std::memcpy(out, dwords, bytes);
    }
    static Fields read(const std::byte* in) noexcept {
        std::uint32_t dwords[bytes / 4];
        std::memcpy(dwords, in, bytes);
        Fields fields;
        fields.slid = (dwords[0] & lid_low) | (dwords[2] >> 8 & 0xf) << 20;
        fields.dlid = (dwords[1] & lid_low) | (dwords[2] >> 12 & 0xf) << 20;
        fields.quad_words = dwords[0] >> 20 & 0x7ff;
        fields.becn = dwords[0] >> 31 != 0;
        fields.sc = static_cast<std::uint8_t>(dwords[1] >> 20 & 0x1f);
        fields.rc = static_cast<std::uint8_t>(dwords[1] >> 25 & 0x7);
        fields.fecn = (dwords[1] >> 28 & 1) != 0;
        fields.l2 = static_cast<std::uint8_t>(dwords[1] >> 29 & 0x3);
        fields.head = dwords[1] >> 31 != 0;
        fields.l4 = static_cast<std::uint8_t>(dwords[2]);
        fields.pkey = static_cast<std::uint16_t>(dwords[2] >> 16);
        fields.entropy = static_cast<std::uint16_t>(dwords[3]);
        fields.l4_header = static_cast<std::uint16_t>(dwords[4] >> 16);
        return fields;
    }

  private:
    static constexpr std::uint32_t lid_low = 0xfffff;
};

/// The encap: what stands around a frame in the WQE. Context: an OpaVnicPort.
struct OpaVnic {
    static constexpr std::uint32_t address_ds = 0;
    static constexpr std::uint32_t min_frame_bytes = ethernet_header_bytes;
    static constexpr std::uint32_t header_reads_bytes = frame_fields_bytes;
    /// 16B and L4 header, addresses, inserted tag.
    static constexpr std::uint32_t max_header_bytes = OpaHeader::bytes + 2 * mac_bytes + vlan_tag_bytes;
    static constexpr std::uint32_t usual_header_bytes = OpaHeader::bytes;
    static constexpr std::uint32_t usual_wqebbs = 2;
    static constexpr bool shares_wqe = false;
    /// What a queue may be asked for. The HCA does not look into 16B packets for checksums.
    static constexpr TxFeatures offered{TxFeature::multi_segment, TxFeature::vlan_insert,
                                        TxFeature::fast_free};
    static constexpr bool may_refuse = true;
    static constexpr std::uint32_t icrc_tail_bytes = 5;
    /// Pad, ICRC, tail; and zeros up to the smallest frame, for the receiver drops runts.
    static constexpr std::uint32_t max_trailer_bytes =
        smallest_frame_bytes - min_frame_bytes + 7 + icrc_tail_bytes;
    /// LT of the tail flit: bits 62-63 are 01.
    static constexpr std::uint8_t tail_flit = 0x40;

    static constexpr bool has_header(TxFeatures) noexcept { return true; }

    /// Bytes behind a frame of `frame_bytes` (tag included): at most 12 for frames that are no runts.
    static constexpr std::uint32_t trailer_bytes(std::uint32_t frame_bytes) noexcept {
        const std::uint32_t whole = frame_bytes < smallest_frame_bytes ? smallest_frame_bytes : frame_bytes;
        return whole - frame_bytes + pad_bytes(whole) + icrc_tail_bytes;
    }
    /// Writes trailer_bytes(frame_bytes) bytes.
    static void trailer(std::uint32_t frame_bytes, std::byte* out) noexcept {
        const std::uint32_t whole = frame_bytes < smallest_frame_bytes ? smallest_frame_bytes : frame_bytes;
        const std::uint32_t bytes = trailer_bytes(frame_bytes);
        std::memset(out, 0, bytes - 1);
        out[bytes - 1] = std::byte{static_cast<std::uint8_t>(pad_bytes(whole) | tail_flit)};
    }
    static constexpr std::uint32_t pad_bytes(std::uint32_t frame_bytes) noexcept {
        return -(OpaHeader::bytes + frame_bytes + icrc_tail_bytes) & 7;
    }

    static InlineHeader header(const HeaderRequest& request, std::byte* out) noexcept {
        const OpaVnicPort& port = *static_cast<const OpaVnicPort*>(request.context);
        if (!port.forwarding()) [[unlikely]]
            return InlineHeader::refused(TxRefusal::not_forwarding);
        const std::uint32_t read =
            request.frame_bytes < header_reads_bytes ? request.frame_bytes : header_reads_bytes;
        FrameFields fields = parse_frame(request.frame, read);
        std::uint32_t frame_bytes = request.frame_bytes;
        if (request.tag) {
            fields.tagged = true;
            fields.tci = request.tci;
            frame_bytes += vlan_tag_bytes;
        }
        const OpaRoute route = port.route(request.frame, fields);
        if (route.dlid == 0) [[unlikely]]
            return InlineHeader::refused(TxRefusal::no_address);
        const OpaVnicConfig& config = port.config();
        OpaHeader::write(out,
                         {.slid = config.encap_slid,
                          .dlid = route.dlid,
                          .quad_words = (OpaHeader::bytes + frame_bytes + trailer_bytes(frame_bytes)) / 8,
                          .sc = route.sc,
                          .rc = route.rc,
                          .pkey = config.pkey,
                          .entropy = route.entropy,
                          .l4_header = config.vesw_id});
        if (!request.tag) return {.inlined_bytes = OpaHeader::bytes};
        std::byte* const inner = out + OpaHeader::bytes;
        std::memcpy(inner, request.frame, std::size_t{2} * mac_bytes);
        store_at(inner + 2 * mac_bytes, be32{std::uint32_t{ether_type::vlan} << 16 | request.tci});
        return {.inlined_bytes = max_header_bytes, .taken_bytes = 2 * mac_bytes};
    }

    static Decapsulated receive(const void* context, const ReceiveRequest& request) noexcept {
        return static_cast<const OpaVnicPort*>(context)->receive(request);
    }
};

/// The VNIC ports of a device, by virtual Ethernet switch id: each has queues of its own that get every
/// packet, and takes those of its switch (OpaVnicPort::join()). Changes from the control thread.
class OpaVnicDemux {
  public:
    static constexpr std::size_t max_ports = 16;

    /// EEXIST: there is a port of this switch already; ENOSPC.
    Status add(OpaVnicPort& port);
    void remove(const OpaVnicPort& port) noexcept;
    /// Looks at no port, so that one may go meanwhile.
    bool has(std::uint16_t vesw_id) const noexcept;

    /// The port that errors of no port are counted on; nullptr if there is none.
    OpaVnicPort* first() const noexcept;

  private:
    std::array<std::atomic<OpaVnicPort*>, max_ports> ports_{};
    std::array<std::atomic<std::uint16_t>, max_ports> vesw_ids_{}; ///< of those; 0: none
};

} // namespace stride::mbufqp
