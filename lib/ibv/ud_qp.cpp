// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/ud_qp.hpp"

#include "base/barrier.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace stride::ibv {
namespace {

ibv_gid verbs_gid(const std::array<std::uint8_t, 16>& gid) noexcept {
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
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = device->pd();
    attr.send_cq = cq.get();
    attr.recv_cq = cq.get();
    attr.cap.max_recv_wr = RingSize::at_least(std::max(config.receive_wqes, 2U)).entries();
    attr.cap.max_recv_sge = config.receive_sges;
    Owned<ibv_qp> qp{ibv_create_qp_ex(device->context(), &attr), {device}};
    if (!qp) return verbs_error(0, what);

    mlx5dv_qp dv{};
    mlx5dv_obj object{};
    object.qp = {qp.get(), &dv};
    if (const int code = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP); code != 0) return verbs_error(code, what);
    if (!std::has_single_bit(dv.rq.wqe_cnt) || !std::has_single_bit(dv.rq.stride))
        return Error{EINVAL, what + strprintf(": got %u WQEs of %u bytes", dv.rq.wqe_cnt, dv.rq.stride)};
    const mlx5::RqRing ring{.wqes = static_cast<std::byte*>(dv.rq.buf),
                            .size = RingSize::at_least(dv.rq.wqe_cnt),
                            .log_wqe_bytes = RingSize::at_least(dv.rq.stride).log(),
                            .dbrec = reinterpret_cast<be32*>(dv.dbrec) + MLX5_RCV_DBR,
                            .wqn = Wqn{qp->qp_num}};
    return UdQp{std::move(qp), ring, cq.ring().dbrec, config};
}

Status UdQp::modify(ibv_qp_attr& attr, int mask, const char* name) {
    // libmlx5 has an idea of the CQ's consumer index of its own, and publishes it on the way to RESET.
    const be32 cq_ci = peek_from_device(cq_dbrec_);
    const int code = ibv_modify_qp(qp_.get(), &attr, mask);
    store_to_device(cq_dbrec_, cq_ci);
    if (code != 0) return verbs_error(code, strprintf("QP %#x: modify to %s", qp_->qp_num, name));
    return {};
}

Status UdQp::make_init() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = config_.pkey_index;
    attr.port_num = qp_.get_deleter().device->port();
    attr.qkey = config_.qkey;
    return modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
}

Status UdQp::start() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    if (auto status = modify(attr, IBV_QP_STATE, "RTR"); !status) return status;
    attr.qp_state = IBV_QPS_RTS;
    return modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

Status UdQp::reset() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    if (auto status = modify(attr, IBV_QP_STATE, "RESET"); !status) return status;
    store_to_device(ring_.dbrec, be32{0});
    return {};
}

Status UdQp::attach(const std::array<std::uint8_t, 16>& gid, std::uint16_t lid) {
    const ibv_gid group = verbs_gid(gid);
    if (const int code = ibv_attach_mcast(qp_.get(), &group, lid); code != 0)
        return verbs_error(code, strprintf("QP %#x: attach to group at LID 0x%x", qp_->qp_num, lid));
    return {};
}

Status UdQp::detach(const std::array<std::uint8_t, 16>& gid, std::uint16_t lid) {
    const ibv_gid group = verbs_gid(gid);
    if (const int code = ibv_detach_mcast(qp_.get(), &group, lid); code != 0)
        return verbs_error(code, strprintf("QP %#x: detach from group at LID 0x%x", qp_->qp_num, lid));
    return {};
}

} // namespace stride::ibv
