// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/rqt.hpp"

#include <bit>
#include <vector>

namespace stride::ibv {

Result<Rqt> Rqt::create(std::shared_ptr<Device> device, std::span<ibv_wq* const> wqs) {
    const std::string what = strprintf("%s: create RQT (entries %zu)", device->name().c_str(), wqs.size());
    const std::uint32_t max = device->caps().max_rqt_entries;
    if (!std::has_single_bit(wqs.size())) return Error{EINVAL, what + ": not a power of two"};
    if (wqs.size() > max) return Error{EINVAL, what + strprintf(": the device takes at most %u", max)};
    std::vector<ibv_wq*> entries{wqs.begin(), wqs.end()};
    ibv_rwq_ind_table_init_attr attr{};
    attr.log_ind_tbl_size = static_cast<std::uint32_t>(std::countr_zero(wqs.size()));
    attr.ind_tbl = entries.data();
    Owned<ibv_rwq_ind_table> table{ibv_create_rwq_ind_table(device->context(), &attr), {device}};
    if (!table) return verbs_error(0, what);
    return Rqt{std::move(table)};
}

} // namespace stride::ibv
