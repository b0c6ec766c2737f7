// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/qp.hpp"

#include "swhca/abi/handlers.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/uar.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace swhca::handlers {
namespace {

// Scatter to CQE is a permission, not a duty: data always goes to the buffers. Loopback of a QP's own frames
// does not arise, as frames leave by the wire.
constexpr std::uint32_t known_driver_flags = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
                                             MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC |
                                             MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC | MLX5_QP_FLAG_BFREG_INDEX;

/// The part both forms of CREATE_QP share, in the extended form's structure.
int make_plain(const Call& call, const ib_uverbs_ex_create_qp& req, Qp*& qp) {
    const auto driver = call.driver<mlx5_ib_create_qp>();
    if (const int error = call.check_driver<mlx5_ib_create_qp>(offsetof(mlx5_ib_create_qp, ece_options)))
        return error;
    if (req.qp_type != IB_UVERBS_QPT_RAW_PACKET && req.qp_type != IB_UVERBS_QPT_UD)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: type %u (RAW_PACKET and UD are offered)",
                      call.name, req.qp_type);
    if ((driver.flags & ~known_driver_flags) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: driver flags 0x%x", call.name,
                      driver.flags & ~known_driver_flags);
    QpRequest request{.user_handle = req.user_handle,
                      .type = req.qp_type == IB_UVERBS_QPT_UD ? QpType::ud : QpType::raw_packet,
                      .pd_handle = req.pd_handle,
                      .send_cq_handle = req.send_cq_handle,
                      .recv_cq_handle = req.recv_cq_handle,
                      .max_send_wr = req.max_send_wr,
                      .max_recv_wr = req.max_recv_wr,
                      .max_send_sge = req.max_send_sge,
                      .max_recv_sge = req.max_recv_sge,
                      .max_inline_bytes = req.max_inline_data,
                      .sq_signal_all = req.sq_sig_all != 0,
                      .create_flags = req.create_flags,
                      .source_qpn = req.source_qpn,
                      .from_srq = req.is_srq != 0,
                      .srq_handle = req.srq_handle,
                      .names_bfreg = (driver.flags & MLX5_QP_FLAG_BFREG_INDEX) != 0,
                      .bfreg = driver.bfreg_index,
                      .ring = driver.buf_addr,
                      .sq_ring = driver.sq_buf_addr,
                      .dbrec = driver.db_addr,
                      .sq_wqebb_count = driver.sq_wqe_count,
                      .rq_wqe_count = driver.rq_wqe_count,
                      .rq_log_wqe_bytes = driver.rq_wqe_shift,
                      .user_index = driver.uidx};
    // A UD QP has both rings in one buffer, the RQ first (libmlx5 verbs.c, mlx5_calc_wq_size); one with a
    // source QPN has them apart, as a RAW_PACKET QP.
    const bool apart = (req.create_flags & create_source_qpn) != 0;
    if (request.type == QpType::ud && !apart && request.rq_log_wqe_bytes < 32)
        request.sq_ring = request.ring + (std::uint64_t{request.rq_wqe_count} << request.rq_log_wqe_bytes);
    return swhca::create_qp(call.context, request, qp);
}

int check_hash(const Call& call, const mlx5_ib_create_qp_rss& driver) {
    constexpr std::uint64_t ipv4 = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4;
    constexpr std::uint64_t ipv6 = MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6;
    constexpr std::uint64_t tcp = MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP;
    constexpr std::uint64_t udp = MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP;
    const std::uint64_t fields = driver.rx_hash_fields_mask;
    const auto* const shown = call.name;
    if (driver.comp_mask != 0 || (driver.flags & ~known_driver_flags) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: RSS comp_mask 0x%x, flags 0x%x", shown,
                      driver.comp_mask, driver.flags);
    if ((fields & ~(ipv4 | ipv6 | tcp | udp)) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: RSS hash fields 0x%llx", shown,
                      static_cast<unsigned long long>(fields));
    if (((fields & ipv4) != 0 && (fields & ipv6) != 0) || ((fields & tcp) != 0 && (fields & udp) != 0))
        return refuse(Rule::bad_argument, EINVAL,
                      "%s: RSS hash fields 0x%llx mix IPv4 with IPv6 or TCP with UDP", shown,
                      static_cast<unsigned long long>(fields));
    if (fields == 0) return 0;
    if (driver.rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ || driver.rx_key_len != sizeof(RssHash::key))
        return refuse(Rule::bad_argument, driver.rx_key_len == sizeof(RssHash::key) ? EOPNOTSUPP : EINVAL,
                      "%s: RSS function %u with a key of %u bytes (Toeplitz, 40)", shown,
                      driver.rx_hash_function, driver.rx_key_len);
    return 0;
}

int make_rss(const Call& call, const ib_uverbs_ex_create_qp& req, Qp*& qp) {
    const auto driver = call.driver<mlx5_ib_create_qp_rss>();
    if (const int error = call.check_driver<mlx5_ib_create_qp_rss>(offsetof(mlx5_ib_create_qp_rss, flags)))
        return error;
    if (req.qp_type != IB_UVERBS_QPT_RAW_PACKET)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: RSS QP of type %u", call.name, req.qp_type);
    if (req.max_send_wr != 0 || req.max_recv_wr != 0 || req.create_flags != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: RSS QP with queues of its own or create_flags 0x%x",
                      call.name, req.create_flags);
    if (const int error = check_hash(call, driver)) return error;
    RssQpRequest request{
        .user_handle = req.user_handle, .pd_handle = req.pd_handle, .rqt_handle = req.rwq_ind_tbl_handle};
    request.hash.fields = driver.rx_hash_fields_mask;
    std::memcpy(request.hash.key.data(), driver.rx_hash_key, request.hash.key.size());
    return swhca::create_rss_qp(call.context, request, qp);
}

ib_uverbs_create_qp_resp describe(const Qp& qp) {
    ib_uverbs_create_qp_resp resp{};
    resp.qp_handle = qp.handle;
    resp.qpn = qp.qpn.value;
    resp.max_send_wr = qp.max_send_wr;
    resp.max_recv_wr = qp.max_recv_wr;
    resp.max_send_sge = qp.max_send_sge;
    resp.max_recv_sge = qp.max_recv_sge;
    resp.max_inline_data = qp.max_inline_bytes;
    return resp;
}

/// The numbers of the device objects behind the QP: here they all carry its own, except the RQ.
mlx5_ib_create_qp_resp describe_driver(const Qp& qp) {
    mlx5_ib_create_qp_resp resp{};
    if (qp.type == QpType::rss) {
        resp.comp_mask = MLX5_IB_CREATE_QP_RESP_MASK_TIRN;
        resp.tirn = qp.qpn.value;
        return resp;
    }
    resp.bfreg_index = uar::library_index(qp.bfreg_number);
    if (qp.type != QpType::raw_packet) return resp;
    if (qp.sq.cq != nullptr) {
        resp.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TISN | MLX5_IB_CREATE_QP_RESP_MASK_SQN;
        resp.tisn = resp.sqn = qp.qpn.value;
    }
    if (qp.rq != nullptr) {
        resp.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TIRN | MLX5_IB_CREATE_QP_RESP_MASK_RQN;
        resp.tirn = qp.qpn.value;
        resp.rqn = qp.rq->wqn.value;
    }
    return resp;
}

template <class Resp>
int answer(const Call& call, const Qp& qp, const Resp& resp) {
    int error = call.answer_core(resp);
    if (error == 0) error = call.answer_driver(describe_driver(qp));
    if (error != 0) {
        EventsRead read;
        swhca::destroy_qp(call.context, qp.handle, read);
    }
    return error;
}

QpChange to_change(const ib_uverbs_modify_qp& req) {
    return {.mask = req.attr_mask,
            .state = req.qp_state,
            .current_state = req.cur_qp_state,
            .port = req.port_num,
            .pkey_index = req.pkey_index,
            .qkey = req.qkey,
            .sq_psn = req.sq_psn};
}

/// State as verbs shows it: a send half in error beside a working receive half is SQE.
std::uint8_t shown_state(const Qp& qp) {
    constexpr std::uint8_t send_queue_error = 5;
    const bool send_dead = qp.sq.cq != nullptr && qp.sq.state == QueueState::error;
    const bool receive_dead = qp.rq != nullptr && qp.rq->state == QueueState::error;
    if (send_dead && qp.rq != nullptr && !receive_dead) return send_queue_error;
    return qp_state_number(send_dead || receive_dead ? QueueState::error : qp.state);
}

} // namespace

int create_qp(const Call& call) {
    const auto req = call.core<ib_uverbs_create_qp>();
    ib_uverbs_ex_create_qp wide{};
    wide.user_handle = req.user_handle;
    wide.pd_handle = req.pd_handle;
    wide.send_cq_handle = req.send_cq_handle;
    wide.recv_cq_handle = req.recv_cq_handle;
    wide.srq_handle = req.srq_handle;
    wide.max_send_wr = req.max_send_wr;
    wide.max_recv_wr = req.max_recv_wr;
    wide.max_send_sge = req.max_send_sge;
    wide.max_recv_sge = req.max_recv_sge;
    wide.max_inline_data = req.max_inline_data;
    wide.sq_sig_all = req.sq_sig_all;
    wide.qp_type = req.qp_type;
    wide.is_srq = req.is_srq;
    Qp* qp = nullptr;
    if (const int error = make_plain(call, wide, qp)) return error;
    return answer(call, *qp, describe(*qp));
}

int ex_create_qp(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_create_qp>();
    if ((req.comp_mask & ~std::uint32_t{IB_UVERBS_CREATE_QP_MASK_IND_TABLE}) != 0)
        return refuse(Rule::bad_command, EINVAL, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    if (const int error = call.check_rest(call.core_in, sizeof req)) return error;
    Qp* qp = nullptr;
    const bool rss = (req.comp_mask & IB_UVERBS_CREATE_QP_MASK_IND_TABLE) != 0;
    if (const int error = rss ? make_rss(call, req, qp) : make_plain(call, req, qp)) return error;
    ib_uverbs_ex_create_qp_resp resp{};
    resp.base = describe(*qp);
    resp.response_length = sizeof resp;
    return answer(call, *qp, resp);
}

int modify_qp(const Call& call) {
    const auto req = call.core<ib_uverbs_modify_qp>();
    return swhca::modify_qp(call.context, req.qp_handle, to_change(req));
}

int ex_modify_qp(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_modify_qp>();
    if (const int error = swhca::modify_qp(call.context, req.base.qp_handle, to_change(req.base)))
        return error;
    return call.answer_core(ib_uverbs_ex_modify_qp_resp{0, sizeof(ib_uverbs_ex_modify_qp_resp)});
}

int query_qp(const Call& call) {
    const auto req = call.core<ib_uverbs_query_qp>();
    const Qp* qp = find_object(call.context.qps, req.qp_handle);
    if (qp == nullptr) return refuse(Rule::bad_handle, EINVAL, "%s: qp %u", call.name, req.qp_handle);
    if (qp->type == QpType::rss)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: qp 0x%x is an RSS QP", call.name, qp->qpn.value);
    Engine::Quiesced quiet{*call.context.device->engine};
    ib_uverbs_query_qp_resp resp{};
    resp.max_send_wr = qp->max_send_wr;
    resp.max_recv_wr = qp->max_recv_wr;
    resp.max_send_sge = qp->max_send_sge;
    resp.max_recv_sge = qp->max_recv_sge;
    resp.max_inline_data = qp->max_inline_bytes;
    resp.qkey = qp->qkey;
    resp.sq_psn = qp->sq_psn;
    resp.pkey_index = qp->pkey_index;
    resp.qp_state = resp.cur_qp_state = shown_state(*qp);
    resp.port_num = qp->port_number;
    resp.sq_sig_all = qp->sq_signal_all ? 1 : 0;
    return call.answer_core(resp);
}

int destroy_qp(const Call& call) {
    EventsRead read;
    if (const int error = swhca::destroy_qp(call.context, call.core<ib_uverbs_destroy_qp>().qp_handle, read))
        return error;
    return call.answer_core(ib_uverbs_destroy_qp_resp{read.async});
}

} // namespace swhca::handlers
