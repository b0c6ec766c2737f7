// SPDX-License-Identifier: BSD-3-Clause
// Memory unmapped under a live region, ring or CQ ends in an error that the program can see, never in a
// crash; and the program's own faults stay its own.
#include "verbs_fixture.hpp"

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <ctime>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

using namespace fixture;

namespace {

constexpr std::size_t region_bytes = 1 << 16;

void* map_memory() {
    void* memory = mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

void post_send(ibv_qp* qp, void* data, std::uint32_t lkey) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(data), 100, lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

ibv_wc wait_completion(ibv_cq* cq) {
    ibv_wc wc{};
    const std::time_t end = std::time(nullptr) + 20;
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        CHECK(std::time(nullptr) < end);
    return wc;
}

void expect_event(ibv_context* context, ibv_event_type type) {
    pollfd wait{context->async_fd, POLLIN, 0};
    CHECK(poll(&wait, 1, 20000) == 1);
    ibv_async_event event{};
    CHECK(ibv_get_async_event(context, &event) == 0 && event.event_type == type);
    ibv_ack_async_event(&event);
}

void a_send_from_an_unmapped_region_completes_in_error() {
    Endpoint end("mlx5_0");
    void* memory = map_memory();
    ibv_mr* mr = ibv_reg_mr(end.pd, memory, region_bytes, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr != nullptr);
    ibv_qp* qp = create_raw_qp(end);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);
    post_send(qp, memory, mr->lkey);
    CHECK(wait_completion(end.cq).status == IBV_WC_SUCCESS);
    CHECK(munmap(memory, region_bytes) == 0);
    post_send(qp, memory, mr->lkey);
    CHECK(wait_completion(end.cq).status == IBV_WC_LOC_PROT_ERR);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_dereg_mr(mr) == 0);
}

void a_frame_for_an_unmapped_buffer_completes_in_error() {
    Endpoint sender("mlx5_0"), receiver("mlx5_1");
    void* memory = map_memory();
    ibv_mr* mr = ibv_reg_mr(receiver.pd, memory, region_bytes, IBV_ACCESS_LOCAL_WRITE);
    ibv_wq* wq = create_wq(receiver, false);
    CHECK(mr != nullptr && wq != nullptr && set_wq_state(wq, IBV_WQS_RDY) == 0);
    ibv_rwq_ind_table* rqt = create_rqt(receiver.context, wq);
    ibv_qp* rss = create_rss_qp(receiver, rqt, 0);
    ibv_flow* flow = create_all_flow(rss);
    CHECK(flow != nullptr);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory), 2048, mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_wq_recv(wq, &wr, &bad) == 0);
    CHECK(munmap(memory, region_bytes) == 0);
    ibv_qp* qp = create_raw_qp(sender);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);
    post_send(qp, sender.buffer.data(), sender.mr->lkey);
    CHECK(wait_completion(receiver.cq).status != IBV_WC_SUCCESS);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(rss) == 0);
    CHECK(ibv_destroy_rwq_ind_table(rqt) == 0 && ibv_destroy_wq(wq) == 0 && ibv_dereg_mr(mr) == 0);
}

/// Unmaps `bytes` at a ring and puts unreadable pages there, so that nothing else takes the place.
void take_away(void* ring, std::size_t bytes) {
    constexpr std::size_t page = 4096;
    bytes = (bytes + page - 1) / page * page;
    CHECK(mmap(ring, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == ring);
}

void give_back(void* ring, std::size_t bytes) {
    constexpr std::size_t page = 4096;
    bytes = (bytes + page - 1) / page * page;
    CHECK(mprotect(ring, bytes, PROT_READ | PROT_WRITE) == 0);
}

void an_unmapped_completion_ring_is_an_event() {
    Endpoint end("mlx5_0");
    ibv_qp* qp = create_raw_qp(end);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);
    mlx5dv_cq cq{};
    mlx5dv_obj object{};
    object.cq = {end.cq, &cq};
    CHECK(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) == 0);
    const std::size_t bytes = std::size_t{cq.cqe_cnt} * cq.cqe_size;
    take_away(cq.buf, bytes);
    post_send(qp, end.buffer.data(), end.mr->lkey);
    expect_event(end.context, IBV_EVENT_CQ_ERR);
    give_back(cq.buf, bytes);
    CHECK(ibv_destroy_qp(qp) == 0);
}

void an_unmapped_send_ring_is_a_dead_queue() {
    Endpoint end("mlx5_0");
    ibv_qp* qp = create_raw_qp(end);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);
    mlx5dv_qp view{};
    mlx5dv_obj object{};
    object.qp = {qp, &view};
    CHECK(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP) == 0);
    const std::size_t bytes = std::size_t{view.sq.wqe_cnt} * view.sq.stride;
    take_away(view.sq.buf, bytes);
    // Rung by hand: libmlx5 would write the WQE first. The register holds the WQE's ctrl segment (index,
    // QPN).
    view.dbrec[MLX5_SND_DBR] = htobe32(1);
    const std::uint64_t value = htobe64(static_cast<std::uint64_t>(qp->qp_num) << 8 | 1);
    __atomic_store_n(static_cast<std::uint64_t*>(view.bf.reg), value, __ATOMIC_RELEASE);
    expect_event(end.context, IBV_EVENT_QP_FATAL);
    give_back(view.sq.buf, bytes);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
    CHECK(ibv_destroy_qp(qp) == 0);
}

sigjmp_buf landing;
void land(int) { siglongjmp(landing, 1); }

void the_programs_own_fault_reaches_its_own_handler() {
    Endpoint end("mlx5_0"); // the guard is there from now on
    struct sigaction ours {
    }, before{}, back{};
    ours.sa_handler = land;
    CHECK(sigaction(SIGSEGV, &ours, &before) == 0 && before.sa_handler == SIG_DFL);
    void* memory = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    if (sigsetjmp(landing, 1) == 0) {
        *static_cast<volatile char*>(memory) = 1;
        CHECK(false);
    }
    CHECK(sigaction(SIGSEGV, &before, &back) == 0 && back.sa_handler == land);
}

} // namespace

int main() {
    a_send_from_an_unmapped_region_completes_in_error();
    a_frame_for_an_unmapped_buffer_completes_in_error();
    an_unmapped_completion_ring_is_an_event();
    an_unmapped_send_ring_is_a_dead_queue();
    the_programs_own_fault_reaches_its_own_handler();
    std::puts("verbs_unmapped: all passed");
}
