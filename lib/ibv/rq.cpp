// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/rq.hpp"

#include "base/barrier.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>

namespace stride::ibv {
namespace {

std::string describe(const Device& device, const RqConfig& config) {
    std::string text =
        strprintf("%s: create WQ (wqes %u, sges %u", device.name().c_str(), config.wqes, config.sges);
    if (config.striding)
        text += strprintf(", log_stride_bytes %u, log_strides %u", config.striding->log_stride_bytes,
                          config.striding->log_strides);
    return text + ")";
}

Status check_shape(const Caps& caps, const StridingShape& shape) {
    const StridingCaps& offered = caps.striding;
    if (!offered.raw_packet) return Error{ENOTSUP, "the device has no striding RQ"};
    if (shape.log_stride_bytes < offered.min_log_stride_bytes ||
        shape.log_stride_bytes > offered.max_log_stride_bytes)
        return Error{EINVAL, strprintf("the device takes log_stride_bytes %u to %u",
                                       offered.min_log_stride_bytes, offered.max_log_stride_bytes)};
    if (shape.log_strides < offered.min_log_strides || shape.log_strides > offered.max_log_strides)
        return Error{EINVAL, strprintf("the device takes log_strides %u to %u", offered.min_log_strides,
                                       offered.max_log_strides)};
    return {};
}

ibv_wq_init_attr core_attributes(const Device& device, const Cq& cq, const RqConfig& config) {
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = RingSize::at_least(std::max(config.wqes, 1U)).entries();
    attr.max_sge = config.sges;
    attr.pd = device.pd();
    attr.cq = cq.get();
    if (config.vlan_strip) attr.create_flags |= IBV_WQ_FLAGS_CVLAN_STRIPPING;
    if (config.scatter_fcs) attr.create_flags |= IBV_WQ_FLAGS_SCATTER_FCS;
    if (attr.create_flags != 0) attr.comp_mask |= IBV_WQ_INIT_ATTR_FLAGS;
    return attr;
}

} // namespace

Result<Rq> Rq::create(std::shared_ptr<Device> device, const Cq& cq, const RqConfig& config) {
    const std::string what = describe(*device, config);
    ibv_wq_init_attr attr = core_attributes(*device, cq, config);
    mlx5dv_wq_init_attr dv_attr{};
    if (config.striding) {
        if (auto fits = check_shape(device->caps(), *config.striding); !fits)
            return Error{fits.error().code, what + ": " + fits.error().what};
        dv_attr.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
        dv_attr.striding_rq_attrs.single_stride_log_num_of_bytes = config.striding->log_stride_bytes;
        dv_attr.striding_rq_attrs.single_wqe_log_num_of_strides = config.striding->log_strides;
        dv_attr.striding_rq_attrs.two_byte_shift_en = config.striding->two_byte_shift ? 1 : 0;
    }
    Owned<ibv_wq> wq{config.striding ? mlx5dv_create_wq(device->context(), &attr, &dv_attr)
                                     : ibv_create_wq(device->context(), &attr),
                     {device}};
    if (!wq) return verbs_error(0, what);

    mlx5dv_rwq dv{};
    mlx5dv_obj object{};
    object.rwq = {wq.get(), &dv};
    if (const int code = mlx5dv_init_obj(&object, MLX5DV_OBJ_RWQ); code != 0) return verbs_error(code, what);
    if (!std::has_single_bit(dv.wqe_cnt) || !std::has_single_bit(dv.stride))
        return Error{EINVAL, what + strprintf(": got %u WQEs of %u bytes", dv.wqe_cnt, dv.stride)};
    const mlx5::RqRing ring{.wqes = static_cast<std::byte*>(dv.buf),
                            .size = RingSize::at_least(dv.wqe_cnt),
                            .log_wqe_bytes = RingSize::at_least(dv.stride).log(),
                            .dbrec = reinterpret_cast<be32*>(dv.dbrec),
                            .wqn = Wqn{wq->wq_num}};
    return Rq{std::move(wq), ring, cq.ring().dbrec};
}

Status Rq::modify(ibv_wq_state next, const char* name) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = next;
    const int code = keep_cq_index(cq_dbrec_, [&] { return ibv_modify_wq(wq_.get(), &attr); });
    if (code != 0) return verbs_error(code, strprintf("WQ %#x: modify to %s", wq_->wq_num, name));
    return {};
}

Status Rq::make_ready() {
    const be32 posted = peek_from_device(ring_.dbrec);
    if (auto status = modify(IBV_WQS_RDY, "RDY"); !status) return status;
    store_to_device(ring_.dbrec, posted);
    return {};
}

Status Rq::reset() {
    if (state() == IBV_WQS_RESET) return {};
    if (auto status = modify(IBV_WQS_RESET, "RESET"); !status) return status;
    *ring_.dbrec = be32{0};
    return {};
}

} // namespace stride::ibv
