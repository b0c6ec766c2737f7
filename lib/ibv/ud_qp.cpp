// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/ud_qp.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stride::ibv {
namespace {

ibv_gid verbs_gid(const GroupGid& gid) noexcept {
    ibv_gid raw;
    std::memcpy(raw.raw, gid.data(), gid.size());
    return raw;
}

} // namespace

Result<PortAddress> port_address(const Device& device, std::uint16_t pkey_index, int gid_index) {
    const std::string who = strprintf("%s port %u: ", device.name().c_str(), device.port());
    ibv_port_attr attr{};
    if (const int code = ibv_query_port(device.context(), device.port(), &attr); code != 0)
        return verbs_error(code, who + "query port");
    if (attr.link_layer != IBV_LINK_LAYER_INFINIBAND) return Error{ENOTSUP, who + "is no InfiniBand port"};
    ibv_gid gid{};
    if (ibv_query_gid(device.context(), device.port(), gid_index, &gid) != 0)
        return verbs_error(0, who + strprintf("query GID %d", gid_index));
    __be16 pkey{};
    if (ibv_query_pkey(device.context(), device.port(), pkey_index, &pkey) != 0)
        return verbs_error(0, who + strprintf("query P_Key %u", pkey_index));
    PortAddress address{
        .lid = attr.lid, .pkey = be16::from_wire(pkey).host(), .active_mtu_bytes = 128U << attr.active_mtu};
    std::memcpy(address.gid.data(), gid.raw, address.gid.size());
    return address;
}

Result<UdQp> UdQp::create(std::shared_ptr<Device> device, const Cq& cq, const UdQpConfig& config) {
    const std::string what =
        strprintf("%s: create UD QP (receive WQEs %u, SGEs %u, Q_Key 0x%x)", device->name().c_str(),
                  config.receive_wqes, config.receive_sges, config.qkey);
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_UD;
    attr.cap.max_recv_wr = RingSize::at_least(std::max(config.receive_wqes, 2U)).entries();
    attr.cap.max_recv_sge = config.receive_sges;
    auto qp = RingQp::create(device, cq, attr, what);
    if (!qp) return qp.take_error();
    return UdQp{std::move(qp).value(), config};
}

Status UdQp::make_init() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = config_.pkey_index;
    attr.port_num = qp_.port();
    attr.qkey = config_.qkey;
    return qp_.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
}

Status UdQp::start() {
    if (auto status = qp_.modify(IBV_QPS_RTR, "RTR"); !status) return status;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    return qp_.modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

Status UdQp::attach(const GroupGid& gid, std::uint16_t lid) {
    const ibv_gid group = verbs_gid(gid);
    if (const int code = ibv_attach_mcast(qp_.get(), &group, lid); code != 0)
        return verbs_error(code, strprintf("QP %#x: attach to group at LID 0x%x", qpn().value, lid));
    groups_.emplace_back(qp_.get(), gid, lid);
    return {};
}

Status UdQp::detach(const GroupGid& gid, std::uint16_t lid) {
    const auto same = [&](const Membership& member) { return member.is(gid, lid); };
    const auto found = std::find_if(groups_.begin(), groups_.end(), same);
    if (found == groups_.end())
        return Error{ENOENT, strprintf("QP %#x: is not attached to a group at LID 0x%x", qpn().value, lid)};
    groups_.erase(found);
    return {};
}

UdQp::Membership::Membership(ibv_qp* qp, const GroupGid& gid, std::uint16_t lid) noexcept
    : group_{new Group{gid, lid}, Leave{qp}} {}

void UdQp::Membership::Leave::operator()(Group* group) const noexcept {
    const ibv_gid gid = verbs_gid(group->gid);
    if (const int code = ibv_detach_mcast(qp, &gid, group->lid); code != 0)
        log_line(LogLevel::error, "QP %#x: detach from group at LID 0x%x: %s", qp->qp_num, group->lid,
                 std::strerror(code));
    delete group;
}

} // namespace stride::ibv
