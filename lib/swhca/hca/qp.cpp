// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/qp.hpp"

#include "swhca/engine/queues.hpp"
#include "swhca/hca/events.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/uar.hpp"
#include "swhca/hca/user_memory.hpp"
#include "swhca/hca/wq.hpp"

#include <algorithm>
#include <bit>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

namespace swhca {
namespace {

constexpr std::uint32_t wqebb_bytes = 64;
constexpr std::uint32_t l2_inline_bytes = 18;
constexpr std::uint32_t known_qp_flags =
    IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS |
    IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING | create_source_qpn;
constexpr std::uint32_t max_qpn = 0xffffff;

struct QpParts {
    Pd* pd{};
    Cq *send_cq{}, *recv_cq{};
    Srq* srq{};
};

int find_parts(Context& context, const QpRequest& request, QpParts& parts) {
    parts.pd = find_object(context.pds, request.pd_handle);
    parts.send_cq = find_object(context.cqs, request.send_cq_handle);
    parts.recv_cq = find_object(context.cqs, request.recv_cq_handle);
    if (parts.pd == nullptr) return refuse(Rule::bad_handle, EINVAL, "CREATE_QP: pd %u", request.pd_handle);
    if (parts.send_cq == nullptr && request.max_send_wr != 0)
        return refuse(Rule::bad_handle, EINVAL, "CREATE_QP: send cq %u", request.send_cq_handle);
    if (parts.recv_cq == nullptr && request.max_recv_wr != 0)
        return refuse(Rule::bad_handle, EINVAL, "CREATE_QP: receive cq %u", request.recv_cq_handle);
    if (!request.from_srq) return 0;
    parts.srq = find_object(context.srqs, request.srq_handle);
    if (parts.srq == nullptr || parts.recv_cq == nullptr)
        return refuse(Rule::bad_handle, EINVAL, "CREATE_QP: srq %u, receive cq %u", request.srq_handle,
                      request.recv_cq_handle);
    return 0;
}

/// What goes with the type: shared receive queues and source QPNs are for UD, stripping and FCS for
/// RAW_PACKET.
int check_kind(const QpRequest& request) {
    constexpr std::uint32_t raw_only = IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;
    const bool has_source = (request.create_flags & create_source_qpn) != 0;
    if (request.type == QpType::ud) {
        if ((request.create_flags & raw_only) != 0)
            return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_QP: create_flags 0x%x on a UD QP",
                          request.create_flags & raw_only);
        if (has_source && (request.source_qpn > max_qpn || request.from_srq))
            return refuse(Rule::bad_argument, EINVAL, "CREATE_QP: source_qpn 0x%x%s", request.source_qpn,
                          request.from_srq ? " with a shared receive queue" : "");
        return 0;
    }
    if (has_source || request.from_srq)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_QP: %s on a RAW_PACKET QP",
                      has_source ? "source_qpn" : "a shared receive queue");
    return 0;
}

int check_sizes(const DeviceCaps& caps, const QpRequest& request) {
    if ((request.create_flags & ~known_qp_flags) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_QP: create_flags 0x%x",
                      request.create_flags & ~known_qp_flags);
    if (std::max(request.max_send_wr, request.max_recv_wr) > caps.max_qp_wr ||
        std::max(request.sq_wqebb_count, request.rq_wqe_count) > caps.max_qp_wr)
        return refuse(Rule::bad_argument, EINVAL,
                      "CREATE_QP: %u send WRs in %u WQEBBs, %u receive WRs, device max %u",
                      request.max_send_wr, request.sq_wqebb_count, request.max_recv_wr, caps.max_qp_wr);
    if (request.names_bfreg && request.bfreg >= uar::bfregs)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_QP: register %u of %u", request.bfreg, uar::bfregs);
    if (std::max(request.max_send_sge, request.max_recv_sge) > caps.max_sge)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_QP: max_sge %u and %u, device max %u",
                      request.max_send_sge, request.max_recv_sge, caps.max_sge);
    return 0;
}

int check_rings(const QpRequest& request) {
    if (request.sq_wqebb_count != 0) {
        if (!std::has_single_bit(request.sq_wqebb_count) || request.sq_ring % wqebb_bytes != 0)
            return refuse(Rule::bad_argument, EINVAL, "CREATE_QP: SQ of %u WQEBBs at 0x%llx",
                          request.sq_wqebb_count, static_cast<unsigned long long>(request.sq_ring));
        if (!is_mapped(request.sq_ring, std::uint64_t{request.sq_wqebb_count} * wqebb_bytes, false))
            return refuse(Rule::bad_argument, EFAULT, "CREATE_QP: SQ 0x%llx not mapped",
                          static_cast<unsigned long long>(request.sq_ring));
    }
    if (request.rq_wqe_count != 0) {
        const int error =
            check_rq_ring("CREATE_QP", request.ring, request.rq_wqe_count, request.rq_log_wqe_bytes);
        if (error != 0) return error;
    }
    return check_dbrec("CREATE_QP", request.dbrec);
}

/// A register of its own while there is one; the one shared least otherwise. Register 0 comes last: libmlx5
/// has no BlueFlame there and takes no lock.
std::uint32_t take_bfreg(Context& context) {
    auto& users = context.bfreg_users;
    const auto least = std::min_element(users.begin() + 1, users.begin() + context.bfregs);
    ++*least;
    return static_cast<std::uint32_t>(least - users.begin());
}

void make_send_half(Context& context, const QpRequest& request, Qp& qp, Cq* cq) {
    if (request.names_bfreg) {
        qp.bfreg_number = uar::bfregs + request.bfreg;
        ++context.bfreg_users[qp.bfreg_number];
    } else {
        qp.bfreg_number = take_bfreg(context);
    }
    qp.sq.ring = reinterpret_cast<std::byte*>(request.sq_ring);
    qp.sq.size = RingSize::at_least(request.sq_wqebb_count);
    qp.sq.dbrec = reinterpret_cast<be32*>(request.dbrec) + 1;
    qp.sq.bfreg =
        context.uar + (request.names_bfreg ? uar::register_offset(MLX5_IB_MMAP_ALLOC_WC, request.bfreg)
                                           : uar::register_offset(context.uar_window, qp.bfreg_number));
    qp.sq.user_index = request.user_index;
    qp.sq.cq = cq;
    qp.sq.min_inline_bytes = context.device->caps.min_inline_mode != 0 ? l2_inline_bytes : 0;
}

void make_receive_half(Context& context, const QpRequest& request, Qp& qp, Cq* cq) {
    const std::uint32_t flags = request.create_flags;
    qp.rq = make_rq(context, {.pd = qp.pd,
                              .cq = cq,
                              .user_handle = request.user_handle,
                              .ring = request.ring,
                              .dbrec = request.dbrec,
                              .wqe_count = request.rq_wqe_count,
                              .log_wqe_bytes = request.rq_log_wqe_bytes,
                              .user_index = request.user_index,
                              .vlan_strip = (flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING) != 0,
                              .scatter_fcs = (flags & IB_UVERBS_QP_CREATE_SCATTER_FCS) != 0,
                              .end_padding = (flags & IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING) != 0});
}

/// Files the QP and lets the engine know it.
Qp* file_qp(Context& context, std::unique_ptr<Qp> made, Pd& pd) {
    Device& device = *context.device;
    made->qpn.value = device.next_qpn++ & 0xffffffU;
    made->port = &device.port;
    Qp* qp = file_object(context, context.qps, std::move(made));
    Engine::Quiesced quiet{*device.engine};
    set_qp_state(*qp, QueueState::reset);
    ++pd.users;
    ++device.qps;
    return qp;
}

constexpr QueueState states[] = {QueueState::reset, QueueState::init, QueueState::rtr,
                                 QueueState::ready, QueueState::sqd,  QueueState::error};
// enum ib_qp_state: RESET 0, INIT 1, RTR 2, RTS 3, SQD 4, SQE 5 (not offered), ERR 6
constexpr std::uint8_t error_number = 6;

bool state_of_number(std::uint8_t number, QueueState& state) {
    if (number == error_number) return state = QueueState::error, true;
    if (number > 4) return false;
    return state = states[number], true;
}

struct Transition {
    QueueState from, to;
    std::uint32_t raw_needs, ud_needs; ///< attributes that must be given
    std::uint32_t optional;
};

// IBTA 10.3.1 and the kernel's qp_state_table; every state also goes to reset and to error.
constexpr Transition transitions[] = {
    {QueueState::reset, QueueState::init, qp_attr::port, qp_attr::port | qp_attr::pkey_index | qp_attr::qkey,
     0},
    {QueueState::init, QueueState::init, 0, 0, qp_attr::port | qp_attr::pkey_index | qp_attr::qkey},
    {QueueState::init, QueueState::rtr, 0, 0, qp_attr::pkey_index | qp_attr::qkey},
    {QueueState::rtr, QueueState::ready, 0, qp_attr::sq_psn, qp_attr::current_state | qp_attr::qkey},
    {QueueState::ready, QueueState::ready, 0, 0, qp_attr::current_state | qp_attr::qkey},
    {QueueState::ready, QueueState::sqd, 0, 0, 0},
    {QueueState::sqd, QueueState::ready, 0, 0, qp_attr::current_state | qp_attr::qkey},
    {QueueState::sqd, QueueState::sqd, 0, 0, qp_attr::pkey_index | qp_attr::qkey},
};

int check_transition(const Qp& qp, const QpChange& change, QueueState from, QueueState to) {
    if (to == QueueState::reset || to == QueueState::error) return 0;
    const auto* known = std::find_if(std::begin(transitions), std::end(transitions),
                                     [&](const Transition& t) { return t.from == from && t.to == to; });
    if (known == std::end(transitions))
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_QP: qp 0x%x from state %u to %u", qp.qpn.value,
                      qp_state_number(from), qp_state_number(to));
    // A SOURCE_QPN QP takes a state and nothing else: keys are those of the QPN's owner (mlx5_ib_modify_qp).
    const bool underlay = qp.source_qpn != 0;
    const std::uint32_t own_needs = qp.type == QpType::ud ? known->ud_needs : known->raw_needs;
    const std::uint32_t needs = underlay ? 0 : own_needs;
    const std::uint32_t given = change.mask & ~qp_attr::state;
    const std::uint32_t allowed =
        underlay ? qp_attr::current_state : needs | known->optional | known->ud_needs;
    if ((given & needs) != needs || (given & ~allowed) != 0)
        return refuse(Rule::bad_argument, EINVAL,
                      "MODIFY_QP: qp 0x%x to state %u: attributes 0x%x, needs 0x%x, takes 0x%x", qp.qpn.value,
                      qp_state_number(to), given, needs, allowed);
    return 0;
}

int check_attributes(const Qp& qp, const QpChange& change) {
    if ((change.mask & qp_attr::port) != 0 && change.port != qp.port->number)
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_QP: qp 0x%x: port %u of 1", qp.qpn.value,
                      change.port);
    if ((change.mask & qp_attr::pkey_index) != 0 && change.pkey_index >= qp.port->pkeys.size())
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_QP: qp 0x%x: pkey_index %u of %zu", qp.qpn.value,
                      change.pkey_index, qp.port->pkeys.size());
    return 0;
}

void keep_attributes(Qp& qp, const QpChange& change) {
    if ((change.mask & qp_attr::port) != 0) qp.port_number = change.port;
    if ((change.mask & qp_attr::pkey_index) != 0) qp.pkey_index = change.pkey_index;
    if ((change.mask & qp_attr::qkey) != 0) qp.qkey = change.qkey;
    if ((change.mask & qp_attr::sq_psn) != 0) qp.sq_psn = change.sq_psn;
}

} // namespace

std::uint8_t qp_state_number(QueueState state) noexcept {
    return state == QueueState::error ? error_number : static_cast<std::uint8_t>(state);
}

int create_qp(Context& context, const QpRequest& request, Qp*& qp) {
    Device& device = *context.device;
    QpParts parts;
    if (const int error = find_parts(context, request, parts)) return error;
    if (const int error = check_sizes(device.caps, request)) return error;
    if (const int error = check_kind(request)) return error;
    if (const int error = check_rings(request)) return error;
    if (device.qps >= device.caps.max_qp) return ENOMEM;
    auto made = std::make_unique<Qp>();
    made->type = request.type;
    made->pd = parts.pd->pdn;
    made->user_handle = request.user_handle;
    made->sq_signal_all = request.sq_signal_all;
    made->max_send_wr = request.max_send_wr;
    // As the kernel's driver answers QUERY_QP: what the ring holds.
    made->max_recv_wr = request.rq_wqe_count != 0 ? request.rq_wqe_count : request.max_recv_wr;
    made->max_send_sge = request.max_send_sge;
    made->max_recv_sge = request.max_recv_sge;
    made->max_inline_bytes = request.max_inline_bytes;
    made->recv_cq = parts.recv_cq;
    made->srq = parts.srq;
    if (parts.srq != nullptr) ++parts.srq->users;
    if ((request.create_flags & create_source_qpn) != 0) made->source_qpn = request.source_qpn;
    made->block_multicast_loopback =
        (request.create_flags & IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK) != 0;
    made->context = &context;
    if (request.sq_wqebb_count != 0) make_send_half(context, request, *made, parts.send_cq);
    if (request.rq_wqe_count != 0) make_receive_half(context, request, *made, parts.recv_cq);
    if (made->sq.cq != nullptr) ++made->sq.cq->users;
    if (parts.recv_cq != nullptr) ++parts.recv_cq->users;
    qp = file_qp(context, std::move(made), *parts.pd);
    return 0;
}

int create_rss_qp(Context& context, const RssQpRequest& request, Qp*& qp) {
    Device& device = *context.device;
    Pd* pd = find_object(context.pds, request.pd_handle);
    Rqt* rqt = find_object(context.rqts, request.rqt_handle);
    if (pd == nullptr || rqt == nullptr)
        return refuse(Rule::bad_handle, EINVAL, "CREATE_QP: pd %u, indirection table %u", request.pd_handle,
                      request.rqt_handle);
    if (device.qps >= device.caps.max_qp) return ENOMEM;
    auto made = std::make_unique<Qp>();
    made->type = QpType::rss;
    made->pd = pd->pdn;
    made->user_handle = request.user_handle;
    made->rqt = rqt;
    made->rss = request.hash;
    ++rqt->users;
    qp = file_qp(context, std::move(made), *pd);
    return 0;
}

int modify_qp(Context& context, std::uint32_t handle, const QpChange& change) {
    Qp* qp = find_object(context.qps, handle);
    if (qp == nullptr) return refuse(Rule::bad_handle, EINVAL, "MODIFY_QP: qp %u", handle);
    if (qp->type == QpType::rss)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "MODIFY_QP: qp 0x%x is an RSS QP, which has no states",
                      qp->qpn.value);
    Engine::Quiesced quiet{*context.device->engine};
    const QueueState from = qp->state;
    QueueState to = from;
    if ((change.mask & qp_attr::state) != 0 && !state_of_number(change.state, to))
        return refuse(Rule::bad_argument, EINVAL, "MODIFY_QP: state %u", change.state);
    if ((change.mask & qp_attr::current_state) != 0)
        if (const int error = check_claimed_state("MODIFY_QP", qp->qpn.value,
                                                  {qp_state_number(from), change.current_state}))
            return error;
    if (const int error = check_transition(*qp, change, from, to)) return error;
    if (const int error = check_attributes(*qp, change)) return error;
    keep_attributes(*qp, change);
    if (to != from) set_qp_state(*qp, to);
    return 0;
}

int destroy_qp(Context& context, std::uint32_t handle, EventsRead& read) {
    Qp* qp = find_object(context.qps, handle);
    if (qp == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_QP: qp %u", handle);
    // The kernel refuses while groups hold the QP (ib_uverbs: uverbs_free_qp).
    if (qp->flows != 0 || !qp->groups.empty()) return EBUSY;
    {
        Engine::Quiesced quiet{*context.device->engine};
        close_qp(*qp);
        read.async = qp->async_events - take_back_async(context, qp->user_handle);
    }
    if (qp->sq.cq != nullptr) {
        --qp->sq.cq->users;
        --context.bfreg_users[qp->bfreg_number];
    }
    if (qp->recv_cq != nullptr) --qp->recv_cq->users;
    if (qp->rqt != nullptr) --qp->rqt->users;
    if (qp->srq != nullptr) --qp->srq->users;
    --domain_of(context, qp->pd).users;
    context.qps.erase(handle);
    --context.device->qps;
    return 0;
}

} // namespace swhca
