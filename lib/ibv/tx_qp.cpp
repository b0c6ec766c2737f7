// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/tx_qp.hpp"

#include <algorithm>

namespace stride::ibv {

Result<TxQp> TxQp::create(std::shared_ptr<Device> device, const Cq& cq, const TxQpConfig& config) {
    const std::string what =
        strprintf("%s: create send QP (wqebbs %u, source QPN 0x%x)", device->name().c_str(), config.wqebbs,
                  config.source_qpn.value_or(Qpn{}).value);
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
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
    auto qp = RingQp::create(device, cq, attr, what);
    if (!qp) return qp.take_error();
    return TxQp{std::move(qp).value(), config.source_qpn.has_value()};
}

Status TxQp::start() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = qp_.port();
    const int mask = underlay_ ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_PORT;
    if (auto status = qp_.modify(attr, mask, "INIT"); !status) return status;
    if (auto status = qp_.modify(IBV_QPS_RTR, "RTR"); !status) return status;
    return qp_.modify(IBV_QPS_RTS, "RTS");
}

Status TxQp::recover() {
    if (auto status = reset(); !status) return status;
    return start();
}

} // namespace stride::ibv
