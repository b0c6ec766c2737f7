// SPDX-License-Identifier: BSD-3-Clause
// UD through stock libibverbs and libmlx5 on an InfiniBand port that is plugged into itself: address handles,
// groups, a shared receive queue with its limit, a source QPN, a thread domain's register, and a region that
// changes its PD.
#include "verbs_fixture.hpp"

#include <cerrno>
#include <ctime>
#include <endian.h>
#include <poll.h>

using namespace fixture;

namespace {

constexpr std::uint32_t qkey = 0x1234;
constexpr std::size_t grh_bytes = 40, message_bytes = 256;

ibv_qp* create_ud_qp(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {16, srq != nullptr ? 0U : 16U, 1, 1, 0};
    attr.qp_type = IBV_QPT_UD;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd;
    ibv_qp* qp = ibv_create_qp_ex(pd->context, &attr);
    CHECK(qp != nullptr);
    ibv_qp_attr state{};
    state.qp_state = IBV_QPS_INIT;
    state.port_num = 1;
    state.qkey = qkey;
    CHECK(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY) == 0);
    state.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(qp, &state, IBV_QP_STATE) == 0);
    state.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    return qp;
}

ibv_sge receive_buffer(Endpoint& end) {
    return {reinterpret_cast<std::uintptr_t>(end.buffer.data()), grh_bytes + message_bytes, end.mr->lkey};
}

void send_to(Endpoint& end, ibv_qp* qp, ibv_ah* ah, std::uint32_t qpn) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(end.buffer.data()) + 4096, message_bytes, end.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {ah, qpn, qkey};
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

/// Waits for completions of one send and one receive; the receive's.
ibv_wc wait_for_both(ibv_cq* cq) {
    ibv_wc received{};
    const std::time_t end = std::time(nullptr) + 20;
    for (int left = 2; left > 0;) {
        ibv_wc wc{};
        const int count = ibv_poll_cq(cq, 1, &wc);
        CHECK(count >= 0 && std::time(nullptr) < end);
        if (count == 0) continue;
        CHECK(wc.status == IBV_WC_SUCCESS);
        if (wc.opcode == IBV_WC_RECV) received = wc;
        --left;
    }
    return received;
}

ibv_ah* create_ah(ibv_pd* pd, std::uint16_t dlid) {
    ibv_ah_attr attr{};
    attr.dlid = dlid;
    attr.port_num = 1;
    ibv_ah* ah = ibv_create_ah(pd, &attr);
    CHECK(ah != nullptr);
    return ah;
}

std::uint16_t own_lid(ibv_context* context) {
    ibv_port_attr port{};
    CHECK(ibv_query_port(context, 1, &port) == 0);
    CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND && port.lid == 17 && port.sm_lid == 3);
    CHECK(port.pkey_tbl_len == 2);
    __be16 pkey = 0;
    CHECK(ibv_query_pkey(context, 1, 1, &pkey) == 0 && be16toh(pkey) == 0x8005);
    return port.lid;
}

void a_shared_queue_serves_two_qps_and_tells_when_it_runs_low(Endpoint& end, ibv_ah* ah) {
    ibv_srq_init_attr init{};
    init.attr = {8, 1, 0};
    ibv_srq* srq = ibv_create_srq(end.pd, &init);
    CHECK(srq != nullptr);
    ibv_qp* qps[2] = {create_ud_qp(end.pd, end.cq, srq), create_ud_qp(end.pd, end.cq, srq)};
    CHECK(ibv_destroy_srq(srq) == EBUSY);
    for (std::uint64_t id = 0; id < 3; ++id) {
        ibv_sge sge = receive_buffer(end);
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0);
    }
    ibv_srq_attr limit{};
    limit.srq_limit = 2;
    CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
    CHECK(ibv_query_srq(srq, &limit) == 0 && limit.srq_limit == 2);
    for (const ibv_qp* to : {qps[1], qps[0]}) {
        send_to(end, qps[0], ah, to->qp_num);
        const ibv_wc wc = wait_for_both(end.cq);
        CHECK(wc.qp_num == to->qp_num && wc.src_qp == qps[0]->qp_num && wc.slid == 17);
        CHECK(wc.byte_len == grh_bytes + message_bytes);
    }
    pollfd wait{end.context->async_fd, POLLIN, 0};
    CHECK(poll(&wait, 1, 20000) == 1);
    ibv_async_event event{};
    CHECK(ibv_get_async_event(end.context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
    ibv_ack_async_event(&event);
    CHECK(ibv_query_srq(srq, &limit) == 0 && limit.srq_limit == 0);
    for (ibv_qp* qp : qps)
        CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_srq(srq) == 0);
}

void a_group_reaches_who_is_attached(Endpoint& end) {
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[1] = 0x12;
    group.raw[15] = 7;
    constexpr std::uint16_t mlid = 0xc005;
    ibv_qp* qp = create_ud_qp(end.pd, end.cq);
    ibv_sge sge = receive_buffer(end);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
    ibv_gid unicast{};
    CHECK(ibv_attach_mcast(qp, &unicast, mlid) == EINVAL);
    CHECK(ibv_detach_mcast(qp, &group, mlid) == EINVAL);
    CHECK(ibv_attach_mcast(qp, &group, mlid) == 0);
    CHECK(ibv_destroy_qp(qp) == EBUSY);
    ibv_ah_attr attr{};
    attr.dlid = mlid;
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.dgid = group;
    ibv_ah* ah = ibv_create_ah(end.pd, &attr);
    CHECK(ah != nullptr);
    send_to(end, qp, ah, 0xffffff);
    CHECK((wait_for_both(end.cq).wc_flags & IBV_WC_GRH) != 0);
    CHECK(ibv_destroy_ah(ah) == 0);
    CHECK(ibv_detach_mcast(qp, &group, mlid) == 0 && ibv_destroy_qp(qp) == 0);
}

void a_thread_domain_has_a_register_of_its_own(Endpoint& end, ibv_ah* ah) {
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(end.context, &td_attr);
    CHECK(td != nullptr);
    ibv_parent_domain_init_attr domain{};
    domain.pd = end.pd;
    domain.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(end.context, &domain);
    CHECK(parent != nullptr);
    ibv_qp* qp = create_ud_qp(parent, end.cq);
    ibv_sge sge = receive_buffer(end);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
    send_to(end, qp, ah, qp->qp_num);
    CHECK(wait_for_both(end.cq).src_qp == qp->qp_num);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
}

/// Such a QP takes no attribute but its state: they are those of the QP it stands for.
void a_borrowed_source_qpn_is_what_the_receiver_sees(Endpoint& end, ibv_ah* ah) {
    constexpr std::uint32_t source_qpn = 0x456;
    ibv_qp* receiver = create_ud_qp(end.pd, end.cq);
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = end.cq;
    attr.cap = {16, 0, 1, 0, 0};
    attr.qp_type = IBV_QPT_UD;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = end.pd;
    attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
    attr.source_qpn = source_qpn;
    ibv_qp* qp = ibv_create_qp_ex(end.context, &attr);
    CHECK(qp != nullptr);
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr change{};
        change.qp_state = state;
        CHECK(ibv_modify_qp(qp, &change, IBV_QP_STATE) == 0);
    }
    ibv_sge sge = receive_buffer(end);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_recv(receiver, &wr, &bad) == 0);
    send_to(end, qp, ah, receiver->qp_num);
    const ibv_wc wc = wait_for_both(end.cq);
    CHECK(wc.qp_num == receiver->qp_num && wc.src_qp == source_qpn);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(receiver) == 0);
}

void a_region_can_move_to_another_domain() {
    Endpoint end("mlx5_0");
    ibv_pd* other = ibv_alloc_pd(end.context);
    CHECK(other != nullptr && ibv_rereg_mr(end.mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0) == 0);
    CHECK(ibv_dealloc_pd(other) == EBUSY);
    CHECK(ibv_rereg_mr(end.mr, IBV_REREG_MR_CHANGE_PD, end.pd, nullptr, 0, 0) == 0);
    CHECK(ibv_dealloc_pd(other) == 0);
    CHECK(ibv_rereg_mr(end.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, end.buffer.data(), 4096, 0) == 0);
    CHECK(end.mr->length == 4096);
}

} // namespace

int main() {
    {
        Endpoint end("mlx5_0");
        ibv_ah* ah = create_ah(end.pd, own_lid(end.context));
        a_shared_queue_serves_two_qps_and_tells_when_it_runs_low(end, ah);
        a_thread_domain_has_a_register_of_its_own(end, ah);
        a_group_reaches_who_is_attached(end);
        a_borrowed_source_qpn_is_what_the_receiver_sees(end, ah);
        CHECK(ibv_destroy_ah(ah) == 0);
    }
    a_region_can_move_to_another_domain();
    std::puts("verbs_datagram: all passed");
}
