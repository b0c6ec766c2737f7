// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/ring_qp.hpp"

#include "base/barrier.hpp"

#include <infiniband/mlx5dv.h>

#include <bit>

namespace stride::ibv {

Result<RingQp> RingQp::create(const std::shared_ptr<Device>& device, const Cq& cq, ibv_qp_init_attr_ex attr,
                              const std::string& what) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr.pd = device->pd();
    attr.send_cq = cq.get();
    attr.recv_cq = cq.get();
    Owned<ibv_qp> created{ibv_create_qp_ex(device->context(), &attr), {device}};
    if (!created) return verbs_error(0, what);
    RingQp qp{std::move(created), cq.ring().dbrec};
    if (auto status = qp.find_rings(attr, what); !status) return status.take_error();
    return qp;
}

Status RingQp::find_rings(const ibv_qp_init_attr_ex& attr, const std::string& what) {
    mlx5dv_qp dv{};
    dv.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
    mlx5dv_obj object{};
    object.qp = {qp_.get(), &dv};
    if (const int code = mlx5dv_init_obj(&object, MLX5DV_OBJ_QP); code != 0) return verbs_error(code, what);
    be32* const dbrecs = reinterpret_cast<be32*>(dv.dbrec);
    if ((dv.comp_mask & MLX5DV_QP_MASK_UAR_MMAP_OFFSET) != 0) uar_offset_ = dv.uar_mmap_offset;
    if (attr.cap.max_send_wr != 0) {
        if (!std::has_single_bit(dv.sq.wqe_cnt) || dv.sq.stride != MLX5_SEND_WQE_BB)
            return Error{EINVAL,
                         what + strprintf(": got %u WQEBBs of %u bytes", dv.sq.wqe_cnt, dv.sq.stride)};
        sq_ = {.wqebbs = static_cast<std::byte*>(dv.sq.buf),
               .size = RingSize::at_least(dv.sq.wqe_cnt),
               .dbrec = dbrecs + MLX5_SND_DBR,
               .doorbell = static_cast<std::byte*>(dv.bf.reg),
               .bf_bytes = dv.bf.size,
               .qpn = qpn()};
    }
    if (attr.cap.max_recv_wr != 0) {
        if (!std::has_single_bit(dv.rq.wqe_cnt) || !std::has_single_bit(dv.rq.stride))
            return Error{EINVAL, what + strprintf(": got %u WQEs of %u bytes", dv.rq.wqe_cnt, dv.rq.stride)};
        rq_ = {.wqes = static_cast<std::byte*>(dv.rq.buf),
               .size = RingSize::at_least(dv.rq.wqe_cnt),
               .log_wqe_bytes = RingSize::at_least(dv.rq.stride).log(),
               .dbrec = dbrecs + MLX5_RCV_DBR,
               .wqn = Wqn{qpn().value}};
    }
    return {};
}

Status RingQp::modify(ibv_qp_attr attr, int mask, const char* name) {
    const int code = keep_cq_index(cq_dbrec_, [&] { return ibv_modify_qp(qp_.get(), &attr, mask); });
    if (code != 0) return verbs_error(code, strprintf("QP %#x: modify to %s", qp_->qp_num, name));
    return {};
}

Status RingQp::modify(ibv_qp_state next, const char* name) {
    ibv_qp_attr attr{};
    attr.qp_state = next;
    return modify(attr, IBV_QP_STATE, name);
}

Status RingQp::reset() {
    if (auto status = modify(IBV_QPS_RESET, "RESET"); !status) return status;
    if (sq_.dbrec != nullptr) store_to_device(sq_.dbrec, be32{0});
    if (rq_.dbrec != nullptr) store_to_device(rq_.dbrec, be32{0});
    return {};
}

} // namespace stride::ibv
