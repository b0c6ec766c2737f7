// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/tir.hpp"

namespace stride::ibv {

Result<Tir> Tir::create(std::shared_ptr<Device> device, const Rqt& rqt, const TirConfig& config) {
    RssKey key = config.key;
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attr.pd = device->pd();
    attr.rwq_ind_tbl = rqt.get();
    attr.rx_hash_conf.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
    attr.rx_hash_conf.rx_hash_key_len = static_cast<std::uint8_t>(key.size());
    attr.rx_hash_conf.rx_hash_key = key.data();
    attr.rx_hash_conf.rx_hash_fields_mask = config.hash_fields;
    Owned<ibv_qp> qp{ibv_create_qp_ex(device->context(), &attr), {device}};
    if (!qp)
        return verbs_error(0, strprintf("%s: create TIR (hash fields %#llx)", device->name().c_str(),
                                        static_cast<unsigned long long>(config.hash_fields)));
    return Tir{std::move(qp)};
}

} // namespace stride::ibv
