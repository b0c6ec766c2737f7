// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/cq.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>

namespace stride::ibv {

Result<CompletionChannel> CompletionChannel::create(std::shared_ptr<Device> device) {
    Owned<ibv_comp_channel> channel{ibv_create_comp_channel(device->context()), {device}};
    if (!channel) return verbs_error(0, device->name() + ": create completion channel");
    return CompletionChannel{std::move(channel)};
}

Result<Cq> Cq::create(std::shared_ptr<Device> device, const CqConfig& config) {
    const std::uint32_t cqes = RingSize::at_least(std::max(config.cqes, 2U)).entries();
    const std::string what =
        strprintf("%s: create CQ (cqes %u, cqe_bytes %u, compression format %u)", device->name().c_str(),
                  cqes, config.cqe_bytes, config.compression_format);
    if (cqes > device->caps().max_cqes)
        return Error{EINVAL, what + strprintf(": the device takes at most %u", device->caps().max_cqes)};
    ibv_cq_init_attr_ex attr{};
    attr.cqe = cqes - 1; // libmlx5 makes the ring for one more than asked
    attr.channel = config.channel;
    mlx5dv_cq_init_attr dv_attr{};
    dv_attr.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    dv_attr.cqe_size = static_cast<std::uint16_t>(config.cqe_bytes);
    if (config.compression_format != 0) {
        dv_attr.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
        dv_attr.cqe_comp_res_format = static_cast<std::uint8_t>(config.compression_format);
    }
    ibv_cq_ex* const created = mlx5dv_create_cq(device->context(), &attr, &dv_attr);
    if (created == nullptr) return verbs_error(0, what);
    Owned<ibv_cq> cq{ibv_cq_ex_to_cq(created), {device}};

    mlx5dv_cq dv{};
    mlx5dv_obj object{};
    object.cq = {cq.get(), &dv};
    if (const int code = mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ); code != 0) return verbs_error(code, what);
    if (dv.cqe_size != config.cqe_bytes || !std::has_single_bit(dv.cqe_cnt))
        return Error{EINVAL, what + strprintf(": got %u CQEs of %u bytes", dv.cqe_cnt, dv.cqe_size)};
    const mlx5::CqRing ring{.cqes = static_cast<std::byte*>(dv.buf),
                            .size = RingSize::at_least(dv.cqe_cnt),
                            .cqe_bytes = dv.cqe_size,
                            .dbrec = reinterpret_cast<be32*>(dv.dbrec),
                            .uar = static_cast<std::byte*>(dv.cq_uar),
                            .cqn = Cqn{dv.cqn}};
    return Cq{std::move(cq), ring};
}

} // namespace stride::ibv
