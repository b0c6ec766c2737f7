// SPDX-License-Identifier: BSD-3-Clause
/// Receive work queues and the indirection tables over them. All functions: commands held; 0 or an errno.
#pragma once

#include "swhca/hca/cq.hpp"
#include "swhca/hca/device.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace swhca {

/// As EX_CREATE_WQ and its driver part (mlx5_ib_create_wq) say it.
struct WqRequest {
    std::uint64_t user_handle{};
    std::uint32_t pd_handle{}, cq_handle{};
    std::uint32_t max_wr{}, max_sge{};
    std::uint32_t create_flags{}; ///< IB_UVERBS_WQ_FLAGS_*
    std::uint64_t ring{}, dbrec{};
    std::uint32_t wqe_count{}, log_wqe_bytes{}, user_index{};
    bool striding{};
    std::uint32_t log_stride_bytes{}, log_strides{};
    bool two_byte_shift{};
};

/// What a receive queue is made of, a WQ or the half of a QP. The rings are checked.
struct RqParts {
    Pdn pd{};
    Cq* cq{};
    std::uint64_t user_handle{};
    std::uint64_t ring{}, dbrec{};
    std::uint32_t wqe_count{}, log_wqe_bytes{}, user_index{};
    bool vlan_strip{}, scatter_fcs{}, end_padding{};
};
std::unique_ptr<Rq> make_rq(Context& context, const RqParts& parts);

int create_wq(Context& context, const WqRequest& request, Rq*& wq);
/// `to` of the verbs states reset, ready, error. `expected`, unless null, is where the program believes it
/// is.
int modify_wq(Context& context, std::uint32_t handle, const QueueState* expected, QueueState to);
/// Turns VLAN stripping on or off.
int modify_wq_vlan_strip(Context& context, std::uint32_t handle, bool strip);
/// EBUSY while a table holds it.
int destroy_wq(Context& context, std::uint32_t handle, EventsRead& read);

int create_rqt(Context& context, std::span<const std::uint32_t> wq_handles, Rqt*& rqt);
/// EBUSY while an RSS QP uses it.
int destroy_rqt(Context& context, std::uint32_t handle);

/// Checks an RQ's ring: power of two, memory mapped. `what` names the command.
int check_rq_ring(const char* what, std::uint64_t ring, std::uint64_t entries, std::uint32_t log_wqe_bytes);
/// Checks a doorbell record's memory.
int check_dbrec(const char* what, std::uint64_t dbrec);

} // namespace swhca
