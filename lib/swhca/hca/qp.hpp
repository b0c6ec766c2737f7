// SPDX-License-Identifier: BSD-3-Clause
/// Queue pairs: RAW_PACKET, UD, and RSS (a TIR over an indirection table). All functions: commands held; 0 or
/// an errno.
#pragma once

#include "swhca/hca/cq.hpp"
#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

/// Beside IB_UVERBS_QP_CREATE_*: the kernel takes it (ib_verbs.h, IB_QP_CREATE_SOURCE_QPN), its uapi does not
/// name it.
constexpr std::uint32_t create_source_qpn = 1U << 10;

/// As CREATE_QP and its driver part (mlx5_ib_create_qp) say it.
struct QpRequest {
    std::uint64_t user_handle{};
    QpType type{QpType::raw_packet};
    std::uint32_t pd_handle{}, send_cq_handle{}, recv_cq_handle{};
    std::uint32_t max_send_wr{}, max_recv_wr{}, max_send_sge{}, max_recv_sge{}, max_inline_bytes{};
    bool sq_signal_all{};
    std::uint32_t create_flags{}; ///< IB_UVERBS_QP_CREATE_*
    std::uint32_t source_qpn{};   ///< with create_source_qpn
    bool from_srq{};
    std::uint32_t srq_handle{};
    bool names_bfreg{}; ///< of a thread domain: its register is `bfreg`
    std::uint32_t bfreg{};
    std::uint64_t ring{}, sq_ring{}, dbrec{};
    std::uint32_t sq_wqebb_count{}, rq_wqe_count{}, rq_log_wqe_bytes{}, user_index{};
};

/// As EX_CREATE_QP and its driver part (mlx5_ib_create_qp_rss) say it.
struct RssQpRequest {
    std::uint64_t user_handle{};
    std::uint32_t pd_handle{}, rqt_handle{};
    RssHash hash{};
};

/// As MODIFY_QP says it; `mask` in bits of enum ib_qp_attr_mask.
struct QpChange {
    std::uint32_t mask{};
    std::uint8_t state{}, current_state{}; ///< enum ib_qp_state
    std::uint8_t port{};
    std::uint16_t pkey_index{};
    std::uint32_t qkey{}, sq_psn{};
};

/// Numbers of enum ib_qp_attr_mask used here.
namespace qp_attr {
constexpr std::uint32_t state = 1U << 0, current_state = 1U << 1, pkey_index = 1U << 4, port = 1U << 5,
                        qkey = 1U << 6, sq_psn = 1U << 16;
}

int create_qp(Context& context, const QpRequest& request, Qp*& qp);
int create_rss_qp(Context& context, const RssQpRequest& request, Qp*& qp);
int modify_qp(Context& context, std::uint32_t handle, const QpChange& change);
/// EBUSY while flows end there.
int destroy_qp(Context& context, std::uint32_t handle, EventsRead& read);

/// State numbers of enum ib_qp_state.
std::uint8_t qp_state_number(QueueState state) noexcept;

} // namespace swhca
