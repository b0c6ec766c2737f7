// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/datagram.hpp"

#include "swhca/abi/handlers.hpp"

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace swhca::handlers {
namespace {

/// Both commands have the same members.
template <class Request>
MulticastGroup group_of(const Request& req) {
    MulticastGroup group;
    std::memcpy(group.gid.data(), req.gid, group.gid.size());
    group.lid = req.mlid;
    return group;
}

} // namespace

int create_ah(const Call& call) {
    const auto req = call.core<ib_uverbs_create_ah>();
    AhRequest request{.pd_handle = req.pd_handle,
                      .port = req.attr.port_num,
                      .global = req.attr.is_global != 0,
                      .sgid_index = req.attr.grh.sgid_index};
    std::memcpy(request.dgid.data(), req.attr.grh.dgid, request.dgid.size());
    Ah* ah = nullptr;
    std::array<std::uint8_t, 6> mac{};
    if (const int error = swhca::create_ah(call.context, request, ah, mac)) return error;
    mlx5_ib_create_ah_resp driver{};
    driver.response_length = sizeof driver;
    std::memcpy(driver.dmac, mac.data(), mac.size());
    int error = call.answer_core(ib_uverbs_create_ah_resp{.ah_handle = ah->handle});
    if (error == 0) error = call.answer_driver(driver);
    if (error != 0) swhca::destroy_ah(call.context, ah->handle);
    return error;
}

int destroy_ah(const Call& call) {
    return swhca::destroy_ah(call.context, call.core<ib_uverbs_destroy_ah>().ah_handle);
}

int attach_mcast(const Call& call) {
    const auto req = call.core<ib_uverbs_attach_mcast>();
    return swhca::attach_group(call.context, req.qp_handle, group_of(req));
}

int detach_mcast(const Call& call) {
    const auto req = call.core<ib_uverbs_detach_mcast>();
    return swhca::detach_group(call.context, req.qp_handle, group_of(req));
}

} // namespace swhca::handlers
