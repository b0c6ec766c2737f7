// SPDX-License-Identifier: BSD-3-Clause
/// Shared receive queues. All functions: commands held; 0 or an errno.
#pragma once

#include "swhca/hca/cq.hpp"
#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

/// As CREATE_SRQ and its driver part (mlx5_ib_create_srq) say it.
struct SrqRequest {
    std::uint64_t user_handle{};
    std::uint32_t pd_handle{};
    std::uint32_t max_wr{}, max_sge{}, limit{};
    std::uint64_t ring{}, dbrec{};
    std::uint32_t user_index{};
};

int create_srq(Context& context, const SrqRequest& request, Srq*& srq);
/// Arms the event that is due when fewer than `limit` WQEs are left.
int set_srq_limit(Context& context, std::uint32_t handle, std::uint32_t limit);
/// EBUSY while QPs receive from it.
int destroy_srq(Context& context, std::uint32_t handle, EventsRead& read);

} // namespace swhca
