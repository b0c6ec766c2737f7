// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/encap/opa_vnic.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cerrno>

namespace stride::mbufqp {
namespace {

constexpr std::uint32_t max_lid = 0xffffff;
constexpr std::uint8_t max_sc = 31;

/// Shifts of the routing controls in OpaVnicConfig::rc (OPA_VNIC_ENCAP_RC_*).
enum RcShift : unsigned {
    other = 0,
    ipv4 = 4,
    ipv4_udp = 8,
    ipv4_tcp = 12,
    ipv6 = 16,
    ipv6_tcp = 20,
    ipv6_udp = 24
};

std::uint64_t mac_number(const std::byte* mac) noexcept {
    return std::uint64_t{load_at<be16>(mac).host()} << 32 | load_at<be32>(mac + 2).host();
}
std::uint64_t mac_number(const Mac& mac) noexcept {
    return mac_number(reinterpret_cast<const std::byte*>(mac.data()));
}

std::uint8_t largest_sc(const OpaVnicConfig& config) noexcept {
    return std::max({*std::max_element(config.pcp_to_sc_uc.begin(), config.pcp_to_sc_uc.end()),
                     *std::max_element(config.pcp_to_sc_mc.begin(), config.pcp_to_sc_mc.end()),
                     config.non_vlan_sc_uc, config.non_vlan_sc_mc});
}

} // namespace

Status OpaVnicPort::check(const OpaVnicConfig& config) {
    if (config.vesw_id == 0) return Error{EINVAL, "OPA VNIC: virtual Ethernet switch id 0"};
    const std::uint32_t largest_lid =
        std::max({config.encap_slid, config.u_mcast_dlid,
                  *std::max_element(config.u_ucast_dlid.begin(), config.u_ucast_dlid.end())});
    if (largest_lid > max_lid)
        return Error{EINVAL,
                     strprintf("OPA VNIC %u: LID 0x%x has more than 24 bits", config.vesw_id, largest_lid)};
    if (largest_sc(config) > max_sc)
        return Error{EINVAL, strprintf("OPA VNIC %u: SC %u, takes 0 to %u", config.vesw_id,
                                       largest_sc(config), max_sc)};
    if (config.eth_mtu < smallest_frame_bytes || config.eth_mtu > max_mtu_bytes)
        return Error{EINVAL, strprintf("OPA VNIC %u: MTU %u, takes %u to %u", config.vesw_id, config.eth_mtu,
                                       smallest_frame_bytes, max_mtu_bytes)};
    return {};
}

OpaVnicPort::OpaVnicPort(const OpaVnicConfig& config)
    : config_{config}
    , macs_{config.mac_entries} {
    std::array<std::uint8_t, OpaVnicConfig::default_ports> used{};
    std::size_t count = 0;
    for (std::uint8_t port = 0; port < OpaVnicConfig::default_ports; ++port)
        if ((config.def_port_mask >> port & 1) != 0) used[count++] = port;
    for (std::size_t flow = 0; flow < flows; ++flow)
        default_port_[flow] = count == 0 ? no_port : used[flow % count];
}

Status OpaVnicPort::add_mac(const Mac& mac, std::uint32_t dlid) {
    const std::uint64_t number = mac_number(mac);
    if (number == 0 || dlid == 0 || dlid > max_lid)
        return Error{EINVAL, strprintf("OPA VNIC %u: MAC table entry %012llx to LID 0x%x", config_.vesw_id,
                                       static_cast<unsigned long long>(number), dlid)};
    if (!macs_.insert({number}, {dlid}))
        return Error{ENOSPC, strprintf("OPA VNIC %u: MAC table is full (%u entries)", config_.vesw_id,
                                       macs_.capacity())};
    return {};
}

bool OpaVnicPort::remove_mac(const Mac& mac) { return macs_.erase({mac_number(mac)}); }

std::uint32_t OpaVnicPort::dlid(const std::byte* mac, std::uint8_t entropy) const noexcept {
    SharedTable<1, 1>::Value entry;
    if (macs_.size() != 0 && macs_.find({mac_number(mac)}, entry))
        return static_cast<std::uint32_t>(entry[0]);
    if (is_group(mac)) return config_.u_mcast_dlid;
    if (is_locally_administered(mac))
        return std::to_integer<std::uint32_t>(mac[5]) << 16 | std::to_integer<std::uint32_t>(mac[4]) << 8 |
               std::to_integer<std::uint32_t>(mac[3]);
    const std::uint8_t port = default_port_[((entropy & 0xf) + (entropy >> 4)) % flows];
    return port == no_port ? 0 : config_.u_ucast_dlid[port];
}

std::uint8_t OpaVnicPort::routing_control(const FrameFields& fields) const noexcept {
    unsigned shift = other;
    const bool tcp = fields.ip_protocol == ip_protocol::tcp;
    const bool udp = fields.ip_protocol == ip_protocol::udp;
    if (fields.ether_type == ether_type::ipv4) shift = tcp ? ipv4_tcp : udp ? ipv4_udp : ipv4;
    if (fields.ether_type == ether_type::ipv6) shift = tcp ? ipv6_tcp : udp ? ipv6_udp : ipv6;
    return static_cast<std::uint8_t>(config_.rc >> shift & 7);
}

Decapsulated OpaVnicPort::receive(const ReceiveRequest& request) const noexcept {
    constexpr std::uint32_t around = OpaHeader::bytes + OpaVnic::icrc_tail_bytes;
    const std::uint32_t bytes = request.total_bytes();
    if (request.bytes < around + ethernet_header_bytes || bytes % 8 != 0)
        return Decapsulated::dropped(RxDrop::rx_logic);
    const OpaHeader::Fields header = OpaHeader::read(request.data);
    const bool ethernet = header.head && header.l2 == 2 && header.l4 == OpaHeader::l4_ethernet;
    if (!ethernet || header.quad_words * 8 != bytes) return Decapsulated::dropped(RxDrop::rx_logic);
    if (header.l4_header != config_.vesw_id) return Decapsulated::dropped(drop_of_switch(header.l4_header));
    if (!forwarding()) return Decapsulated::dropped(RxDrop::rx_drop_state);
    const std::uint32_t pad = std::to_integer<std::uint32_t>(request.last()) & 0x3f;
    if (pad > 7 || around + pad > bytes) return Decapsulated::dropped(RxDrop::rx_logic);
    const std::uint32_t frame_bytes = bytes - around - pad;
    if (frame_bytes > max_frame_bytes()) return Decapsulated::dropped(RxDrop::rx_oversize);
    if (frame_bytes < smallest_frame_bytes) return Decapsulated::dropped(RxDrop::rx_runt);
    return {OpaHeader::bytes, frame_bytes, RxDrop::none};
}

/// A packet of a switch that has no port is counted once, on the first port there is, as the kernel does.
RxDrop OpaVnicPort::drop_of_switch(std::uint16_t vesw_id) const noexcept {
    if (siblings_ == nullptr) return RxDrop::rx_bad_veswid;
    const bool counted_here = !siblings_->has(vesw_id) && siblings_->first() == this;
    return counted_here ? RxDrop::rx_bad_veswid : RxDrop::rx_other_port;
}

OpaVnicPort::~OpaVnicPort() {
    if (siblings_ != nullptr) siblings_->remove(*this);
}

Status OpaVnicPort::join(OpaVnicDemux& siblings) {
    if (auto status = siblings.add(*this); !status) return status;
    siblings_ = &siblings;
    return {};
}

bool OpaVnicPort::is_first() const noexcept { return siblings_ == nullptr || siblings_->first() == this; }

Status OpaVnicDemux::add(OpaVnicPort& port) {
    const std::uint16_t vesw_id = port.config().vesw_id;
    if (has(vesw_id))
        return Error{EEXIST, strprintf("OPA VNIC: switch %u has a port on the device already", vesw_id)};
    for (std::size_t i = 0; i < max_ports; ++i) {
        if (ports_[i].load(std::memory_order_relaxed) != nullptr) continue;
        vesw_ids_[i].store(vesw_id, std::memory_order_relaxed);
        ports_[i].store(&port, std::memory_order_release);
        return {};
    }
    return Error{ENOSPC, strprintf("OPA VNIC: %zu ports are all there can be", max_ports)};
}

void OpaVnicDemux::remove(const OpaVnicPort& port) noexcept {
    for (std::size_t i = 0; i < max_ports; ++i) {
        if (ports_[i].load(std::memory_order_relaxed) != &port) continue;
        ports_[i].store(nullptr, std::memory_order_release);
        vesw_ids_[i].store(0, std::memory_order_relaxed);
    }
}

bool OpaVnicDemux::has(std::uint16_t vesw_id) const noexcept {
    return std::any_of(vesw_ids_.begin(), vesw_ids_.end(),
                       [vesw_id](const auto& id) { return id.load(std::memory_order_relaxed) == vesw_id; });
}

OpaVnicPort* OpaVnicDemux::first() const noexcept {
    for (const auto& slot : ports_)
        if (OpaVnicPort* port = slot.load(std::memory_order_acquire)) return port;
    return nullptr;
}

} // namespace stride::mbufqp
