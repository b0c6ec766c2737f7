// SPDX-License-Identifier: BSD-3-Clause
/// Opening a set: what is asked for against what the port is.
#include "mbufqp/qp.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cstring>

namespace stride::mbufqp {
namespace {

constexpr std::uint16_t max_queues = 256;
constexpr std::uint32_t default_ethernet_mtu = 1500;
constexpr std::uint32_t max_ethernet_mtu = 9600;
/// Ethernet header and two tags beyond the MTU.
constexpr std::uint32_t ethernet_overhead_bytes = ethernet_header_bytes + 2 * vlan_tag_bytes;

Status check(const mbufqp_config& config) {
    if (config.device == nullptr) return Error{EINVAL, "no device"};
    if (config.encap != MBUFQP_ETHERNET && config.encap != MBUFQP_IPOIB && config.encap != MBUFQP_OPA_VNIC)
        return Error{EINVAL, strprintf("no encap %d", static_cast<int>(config.encap))};
    if (config.tx_queues == 0 || config.tx_queues > max_queues || config.rx_queues > max_queues)
        return Error{EINVAL, strprintf("%u send and %u receive queues: 1 and 0 to %u", config.tx_queues,
                                       config.rx_queues, max_queues)};
    if (config.rx_queues != 0 && config.rx_pool == nullptr) return Error{EINVAL, "no pool to receive into"};
    if (config.encap == MBUFQP_OPA_VNIC && config.opa_vnic == nullptr && config.share == nullptr)
        return Error{EINVAL, "OPA VNIC: no configuration"};
    if (config.encap == MBUFQP_IPOIB && config.share == nullptr && config.rx_queues != 1)
        return Error{ENOTSUP,
                     strprintf("IPoIB: %u receive queues; the UD QP of the QPN has one", config.rx_queues)};
    return {};
}

OpaVnicConfig vnic_config(const mbufqp_opa_vnic& from, std::uint16_t mtu) {
    OpaVnicConfig config;
    config.vesw_id = from.vesw_id;
    if (from.pkey != 0) config.pkey = from.pkey;
    config.encap_slid = from.encap_slid;
    config.u_mcast_dlid = from.u_mcast_dlid;
    std::copy(std::begin(from.u_ucast_dlid), std::end(from.u_ucast_dlid), config.u_ucast_dlid.begin());
    config.def_port_mask = from.def_port_mask;
    config.rc = from.rc;
    std::copy(std::begin(from.pcp_to_sc_uc), std::end(from.pcp_to_sc_uc), config.pcp_to_sc_uc.begin());
    std::copy(std::begin(from.pcp_to_sc_mc), std::end(from.pcp_to_sc_mc), config.pcp_to_sc_mc.begin());
    std::copy(std::begin(from.pcp_to_vl_uc), std::end(from.pcp_to_vl_uc), config.pcp_to_vl_uc.begin());
    std::copy(std::begin(from.pcp_to_vl_mc), std::end(from.pcp_to_vl_mc), config.pcp_to_vl_mc.begin());
    config.non_vlan_sc_uc = from.non_vlan_sc_uc;
    config.non_vlan_sc_mc = from.non_vlan_sc_mc;
    config.non_vlan_vl_uc = from.non_vlan_vl_uc;
    config.non_vlan_vl_mc = from.non_vlan_vl_mc;
    config.eth_mtu = mtu;
    return config;
}

Result<std::uint16_t> mtu_of(const mbufqp_config& config, const ibv::LinkState& link) {
    std::uint32_t largest = max_ethernet_mtu;
    std::uint32_t usual = default_ethernet_mtu;
    if (config.encap == MBUFQP_IPOIB) usual = largest = link.max_mtu_bytes - ipoib_header_bytes;
    if (config.encap == MBUFQP_OPA_VNIC) largest = OpaVnicPort::max_mtu_bytes;
    const std::uint32_t mtu = config.mtu != 0 ? config.mtu : usual;
    if (mtu < 68 || mtu > largest) return Error{EINVAL, strprintf("MTU %u: 68 to %u", mtu, largest)};
    return static_cast<std::uint16_t>(mtu);
}

} // namespace

const void* QpCommon::encap_context() const noexcept {
    if (ipoib) return &*ipoib;
    return opa_vnic ? static_cast<const void*>(&*opa_vnic) : nullptr;
}
void* QpCommon::encap_context() noexcept {
    return const_cast<void*>(static_cast<const QpCommon*>(this)->encap_context());
}
std::uint32_t QpCommon::max_frame_bytes() const noexcept {
    if (ipoib) return ipoib->max_frame_bytes();
    return opa_vnic ? opa_vnic->max_frame_bytes() : mtu + ethernet_overhead_bytes;
}
std::uint32_t QpCommon::max_wire_bytes() const noexcept {
    switch (encap) {
    case EncapKind::ethernet:
        return mtu + ethernet_overhead_bytes;
    case EncapKind::ipoib:
        return grh_bytes + ipoib_header_bytes + mtu;
    // A packet longer than the MTU is for the VNIC to count, so there is some room for it.
    case EncapKind::opa_vnic:
        return OpaHeader::bytes + mtu + ethernet_overhead_bytes + OpaVnic::max_trailer_bytes;
    }
    return 0;
}

Result<std::unique_ptr<Qp>> Qp::open(const mbufqp_config& config, struct ::mbufqp* handle, Qp* share) {
    if (auto status = check(config); !status) return status.take_error();
    std::unique_ptr<Qp> qp{new Qp};
    if (auto status = share != nullptr ? qp->share_with(*share, config) : qp->open_common(config); !status)
        return status.take_error();
    if (auto status = qp->open_channel(config, handle); !status) return status.take_error();
    if (auto status = qp->open_receive(config); !status) return status.take_error();
    if (auto status = qp->open_encap(config); !status) return status.take_error();
    if (auto status = qp->open_send(config); !status) return status.take_error();
    if (auto status = qp->start(config); !status) return status.take_error();
    return qp;
}

Status Qp::share_with(Qp& other, const mbufqp_config& config) {
    QpCommon& common = *other.common_;
    if (common.encap != static_cast<EncapKind>(config.encap) || common.device->name() != config.device ||
        (config.port != 0 && common.device->port() != config.port))
        return Error{EINVAL, std::string{"not the device, port and encap of the set to share with, on "} +
                                 common.device->name()};
    if (auto status = common.share.join(config.tx_queues, config.rx_queues); !status) return status;
    common_ = other.common_;
    return {};
}

Status Qp::open_common(const mbufqp_config& config) {
    const auto kind = static_cast<EncapKind>(config.encap);
    auto device = ibv::Device::open(config.device, config.port != 0 ? config.port : std::uint8_t{1});
    if (!device) return device.take_error();
    auto link = device.value()->link();
    if (!link) return link.take_error();
    if (kind == EncapKind::ethernet && !link->ethernet)
        return Error{ENOTSUP, std::string{config.device} + " is no Ethernet port"};
    auto mtu = mtu_of(config, link.value());
    if (!mtu) return mtu.take_error();
    owner_ = true;
    common_ = std::make_shared<QpCommon>(std::move(device).value());
    common_->encap = kind;
    common_->mtu = mtu.value();
    common_->share.own(config.tx_queues);
    if (kind == EncapKind::ipoib) return {}; // the MAC is made of the QPN
    auto mac = common_->device->mac();
    if (!mac) return mac.take_error();
    common_->mac = mac.value();
    return {};
}

Status Qp::open_encap(const mbufqp_config& config) {
    if (!owner_) return {};
    if (common_->encap == EncapKind::opa_vnic) {
        const OpaVnicConfig vnic = vnic_config(*config.opa_vnic, common_->mtu);
        if (auto status = OpaVnicPort::check(vnic); !status) return status;
        common_->opa_vnic.emplace(vnic);
    }
    if (common_->encap != EncapKind::ipoib) return {};
    const mbufqp_ipoib asked = config.ipoib != nullptr ? *config.ipoib : mbufqp_ipoib{};
    auto address = ibv::port_address(*common_->device, asked.pkey_index, 0);
    if (!address) return address.take_error();
    IpoibConfig ipoib;
    common_->qpn = rx_[0]->ud()->qpn();
    ipoib.own = {*common_->qpn, address->lid};
    ipoib.gid = address->gid;
    ipoib.pkey = static_cast<std::uint16_t>(address->pkey | 0x8000); // groups bear the full member's
    if (asked.qkey != 0) ipoib.qkey = asked.qkey;
    if (asked.scope != 0) ipoib.scope = asked.scope;
    if (asked.broadcast_lid != 0) ipoib.broadcast_lid = asked.broadcast_lid;
    ipoib.service_level = asked.service_level;
    ipoib.mtu_bytes = common_->mtu;
    if (auto status = IpoibPort::check(ipoib); !status) return status;
    common_->ipoib.emplace(ipoib);
    common_->mac = common_->ipoib->mac();
    return {};
}

} // namespace stride::mbufqp
