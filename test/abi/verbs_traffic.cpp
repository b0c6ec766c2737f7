// SPDX-License-Identifier: BSD-3-Clause
// Frames from mlx5_0 to mlx5_1 through verbs: post_send on a RAW_PACKET QP, a regular WQ behind a flow rule,
// and completion events on the way.
#include "verbs_fixture.hpp"

#include <cerrno>
#include <ctime>
#include <poll.h>
#include <utility>

using namespace fixture;

namespace {

constexpr unsigned frames = 500;
constexpr std::size_t slot_bytes = 2048;
constexpr unsigned slots = 8;

std::uint32_t frame_length(unsigned number) { return 60 + number * 37 % 1400; }

/// A broadcast frame of an experimental EtherType that says its number in every byte.
void write_frame(unsigned char* at, unsigned number) {
    std::memset(at, 0xff, 6);
    const unsigned char rest[8] = {0x02, 0, 0, 0, 0, 1, 0x88, 0xb5};
    std::memcpy(at + 6, rest, sizeof rest);
    std::memset(at + 14, static_cast<int>(number & 0xff), frame_length(number) - 14);
}

ibv_wc wait_completion(ibv_cq* cq) {
    ibv_wc wc{};
    const std::time_t end = std::time(nullptr) + 20;
    for (;;) {
        const int count = ibv_poll_cq(cq, 1, &wc);
        CHECK(count >= 0);
        if (count == 1) return wc;
        CHECK(std::time(nullptr) < end);
    }
}

void post_receive(Endpoint& end, ibv_wq* wq, unsigned slot) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(end.buffer.data()) + slot * slot_bytes, slot_bytes,
                end.mr->lkey};
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_wq_recv(wq, &wr, &bad) == 0);
}

void post_send(Endpoint& end, ibv_qp* qp, unsigned number) {
    unsigned char* at = end.buffer.data() + number % slots * slot_bytes;
    write_frame(at, number);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    // Two segments, so that the gather list is exercised.
    ibv_sge sges[2] = {{address, 20, end.mr->lkey}, {address + 20, frame_length(number) - 20, end.mr->lkey}};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = sges;
    wr.num_sge = 2;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

void frames_arrive_whole_and_in_order(Endpoint& sender, Endpoint& receiver, ibv_qp* qp, ibv_wq* wq) {
    for (unsigned slot = 0; slot < slots; ++slot)
        post_receive(receiver, wq, slot);
    for (unsigned number = 0; number < frames; ++number) {
        post_send(sender, qp, number);
        CHECK(wait_completion(sender.cq).status == IBV_WC_SUCCESS);
        const ibv_wc received = wait_completion(receiver.cq);
        CHECK(received.status == IBV_WC_SUCCESS);
        CHECK(received.byte_len == frame_length(number));
        CHECK(received.wr_id == number % slots);
        std::vector<unsigned char> expected(frame_length(number));
        write_frame(expected.data(), number);
        CHECK(std::memcmp(receiver.buffer.data() + received.wr_id * slot_bytes, expected.data(),
                          expected.size()) == 0);
        post_receive(receiver, wq, static_cast<unsigned>(received.wr_id));
    }
}

/// One event for one arm, and none left over to make the destruction wait.
void a_completion_event_wakes_the_program(Endpoint& sender, ibv_qp* qp, ibv_comp_channel* channel,
                                          ibv_cq* cq) {
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    post_send(sender, qp, 0);
    pollfd wait{channel->fd, POLLIN, 0};
    CHECK(poll(&wait, 1, 20000) == 1);
    ibv_cq* which = nullptr;
    void* context = nullptr;
    CHECK(ibv_get_cq_event(channel, &which, &context) == 0 && which == cq);
    ibv_ack_cq_events(cq, 1);
    CHECK(wait_completion(cq).status == IBV_WC_SUCCESS);
    // An event that nobody reads must not hold up ibv_destroy_cq.
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    post_send(sender, qp, 1);
    CHECK(poll(&wait, 1, 20000) == 1);
    CHECK(wait_completion(cq).status == IBV_WC_SUCCESS);
}

void a_bad_lkey_puts_the_queue_in_error(Endpoint& end, ibv_qp* qp) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(end.buffer.data()), 60, end.mr->lkey + 1};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
    CHECK(wait_completion(end.cq).status == IBV_WC_LOC_PROT_ERR);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    CHECK(attr.qp_state == IBV_QPS_ERR);
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    CHECK(bring_to_rts(qp) == 0);
    post_send(end, qp, 3);
    CHECK(wait_completion(end.cq).status == IBV_WC_SUCCESS);
}

} // namespace

int main() {
    Endpoint sender("mlx5_0");
    Endpoint receiver("mlx5_1");
    ibv_wq* wq = create_wq(receiver, false, slots);
    CHECK(wq != nullptr && set_wq_state(wq, IBV_WQS_RDY) == 0);
    ibv_rwq_ind_table* rqt = create_rqt(receiver.context, wq);
    ibv_qp* rss = create_rss_qp(receiver, rqt, 0);
    CHECK(rss != nullptr);
    ibv_flow* flow = create_all_flow(rss);
    CHECK(flow != nullptr);
    ibv_qp* qp = create_raw_qp(sender);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);

    frames_arrive_whole_and_in_order(sender, receiver, qp, wq);
    a_bad_lkey_puts_the_queue_in_error(sender, qp);
    CHECK(ibv_destroy_qp(qp) == 0);

    ibv_comp_channel* channel = ibv_create_comp_channel(sender.context);
    ibv_cq* event_cq = ibv_create_cq(sender.context, 63, nullptr, channel, 0);
    CHECK(event_cq != nullptr);
    ibv_cq* plain_cq = std::exchange(sender.cq, event_cq);
    qp = create_raw_qp(sender);
    CHECK(qp != nullptr && bring_to_rts(qp) == 0);
    a_completion_event_wakes_the_program(sender, qp, channel, event_cq);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(event_cq) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == 0);
    sender.cq = plain_cq;

    CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(rss) == 0);
    CHECK(ibv_destroy_rwq_ind_table(rqt) == 0 && ibv_destroy_wq(wq) == 0);
    std::puts("verbs_traffic: all passed");
}
