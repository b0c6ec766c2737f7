// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/tx_qp.hpp"

#include "base/barrier.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>

namespace stride::ibv {

Result<TxQp> TxQp::create(std::shared_ptr<Device> device, const Cq& cq, const TxQpConfig& config) {
    const std::string what =
        strprintf("%s: create send QP (wqebbs %u, source QPN 0x%x)", device->name().c_str(), config.wqebbs,
                  config.source_qpn.value_or(Qpn{}).value);
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = device->pd();
    attr.send_cq = cq.get();
    attr.recv_cq = cq.get();
    // One data segment and no inline data: libmlx5 then takes a WR for one WQEBB, for two with an address.
    attr.cap.max_send_wr = RingSize::at_least(std::max(config.wqebbs, 64U)).entries();
    attr.cap.max_send_sge = 1;
    if (config.source_qpn) {
        attr.qp_type = IBV_QPT_UD;
        attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
        attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
        attr.source_qpn = config.source_qpn->value;
        attr.cap.max_send_wr /= 2;
    }
    if (config.max_tso_header_bytes != 0) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
        attr.max_tso_header = static_cast<std::uint16_t>(config.max_tso_header_bytes);
    }
    Owned<ibv_qp> qp{ibv_create_qp_ex(device->context(), &attr), {device}};
    if (!qp) return verbs_error(0, what);

    mlx5dv_qp dv{};
    mlx5dv_obj object{};
    object.qp = {qp.get(), &dv};
    if (const int code = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP); code != 0) return verbs_error(code, what);
    if (!std::has_single_bit(dv.sq.wqe_cnt) || dv.sq.stride != MLX5_SEND_WQE_BB)
        return Error{EINVAL, what + strprintf(": got %u WQEBBs of %u bytes", dv.sq.wqe_cnt, dv.sq.stride)};
    const mlx5::SqRing ring{.wqebbs = static_cast<std::byte*>(dv.sq.buf),
                            .size = RingSize::at_least(dv.sq.wqe_cnt),
                            .dbrec = reinterpret_cast<be32*>(dv.dbrec) + MLX5_SND_DBR,
                            .doorbell = static_cast<std::byte*>(dv.bf.reg),
                            .bf_bytes = dv.bf.size,
                            .qpn = Qpn{qp->qp_num}};
    return TxQp{std::move(qp), ring, cq.ring().dbrec, config.source_qpn.has_value()};
}

Status TxQp::modify(ibv_qp_state next, const char* name) {
    ibv_qp_attr attr{};
    attr.qp_state = next;
    attr.port_num = qp_.get_deleter().device->port();
    const int mask = next == IBV_QPS_INIT && !underlay_ ? IBV_QP_STATE | IBV_QP_PORT : IBV_QP_STATE;
    // On the way to RESET libmlx5 cleans the CQ from its own consumer index, which nobody moves here, and
    // publishes that one.
    const be32 cq_ci = peek_from_device(cq_dbrec_);
    const int code = ibv_modify_qp(qp_.get(), &attr, mask);
    store_to_device(cq_dbrec_, cq_ci);
    if (code != 0) return verbs_error(code, strprintf("QP %#x: modify to %s", qp_->qp_num, name));
    return {};
}

Status TxQp::start() {
    if (auto status = modify(IBV_QPS_INIT, "INIT"); !status) return status;
    if (auto status = modify(IBV_QPS_RTR, "RTR"); !status) return status;
    return modify(IBV_QPS_RTS, "RTS");
}

Status TxQp::reset() {
    if (auto status = modify(IBV_QPS_RESET, "RESET"); !status) return status;
    *ring_.dbrec = be32{0};
    return {};
}

Status TxQp::recover() {
    if (auto status = reset(); !status) return status;
    return start();
}

} // namespace stride::ibv
