// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/underlay_rq.hpp"

#include <algorithm>

namespace stride::ibv {

Result<UnderlayRq> UnderlayRq::create(std::shared_ptr<Device> device, const Cq& cq,
                                      const UnderlayRqConfig& config) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_UD;
    attr.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
    attr.source_qpn = config.source_qpn.value;
    attr.cap.max_recv_wr = RingSize::at_least(std::max(config.wqes, 2U)).entries();
    attr.cap.max_recv_sge = config.sges;
    auto qp =
        RingQp::create(device, cq, attr,
                       strprintf("%s: create receive QP (WQEs %u, SGEs %u, source QPN 0x%x)",
                                 device->name().c_str(), config.wqes, config.sges, config.source_qpn.value));
    if (!qp) return qp.take_error();
    return UnderlayRq{std::move(qp).value()};
}

Status UnderlayRq::make_ready() {
    const be32 posted = peek_from_device(ring().dbrec);
    if (auto status = qp_.modify(IBV_QPS_INIT, "INIT"); !status) return status;
    if (auto status = qp_.modify(IBV_QPS_RTR, "RTR"); !status) return status;
    store_to_device(ring().dbrec, posted);
    return {};
}

} // namespace stride::ibv
