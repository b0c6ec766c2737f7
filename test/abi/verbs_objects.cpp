// SPDX-License-Identifier: BSD-3-Clause
// Objects of the model through stock libibverbs and libmlx5: caps, creation, wrong and right order of
// destruction, bad handles and arguments, many contexts, and a context closed with everything in it.
#include "verbs_fixture.hpp"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fixture;

namespace {

void device_offers_what_connectx5_does() {
    ibv_context* context = open_device("mlx5_0");
    mlx5dv_context caps{};
    caps.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ | MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
    CHECK(mlx5dv_query_device(context, &caps) == 0);
    CHECK((caps.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) != 0);
    CHECK(caps.striding_rq_caps.min_single_stride_log_num_of_bytes == 6);
    CHECK(caps.striding_rq_caps.max_single_stride_log_num_of_bytes == 13);
    CHECK(caps.striding_rq_caps.min_single_wqe_log_num_of_strides == 3);
    CHECK(caps.striding_rq_caps.max_single_wqe_log_num_of_strides == 16);
    CHECK(caps.striding_rq_caps.supported_qpts == 1U << IBV_QPT_RAW_PACKET);
    CHECK((caps.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) != 0);
    CHECK((caps.cqe_comp_caps.supported_format & MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX) != 0);
    ibv_port_attr port{};
    CHECK(ibv_query_port(context, 1, &port) == 0);
    CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET && port.state == IBV_PORT_ACTIVE);
    CHECK(ibv_query_port(context, 2, &port) != 0);
    ibv_gid gid{};
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    const unsigned char expected[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x53, 0x57, 0xff, 0xfe, 0, 0, 0};
    CHECK(std::memcmp(gid.raw, expected, sizeof expected) == 0);
    CHECK(ibv_close_device(context) == 0);
}

void destruction_in_the_wrong_order_is_busy() {
    Endpoint end("mlx5_0");
    ibv_wq* wq = create_wq(end, true);
    CHECK(wq != nullptr && set_wq_state(wq, IBV_WQS_RDY) == 0);
    ibv_rwq_ind_table* rqt = create_rqt(end.context, wq);
    CHECK(rqt != nullptr);
    ibv_qp* rss = create_rss_qp(end, rqt, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4);
    CHECK(rss != nullptr);
    ibv_flow* flow = create_all_flow(rss);
    CHECK(flow != nullptr);
    ibv_qp* raw = create_raw_qp(end);
    CHECK(raw != nullptr && bring_to_rts(raw) == 0);

    CHECK(ibv_destroy_qp(rss) == EBUSY);
    CHECK(ibv_destroy_rwq_ind_table(rqt) == EBUSY);
    CHECK(ibv_destroy_wq(wq) == EBUSY);
    CHECK(ibv_destroy_cq(end.cq) == EBUSY);
    CHECK(ibv_dealloc_pd(end.pd) == EBUSY);

    CHECK(ibv_destroy_flow(flow) == 0);
    CHECK(ibv_destroy_qp(rss) == 0);
    CHECK(ibv_destroy_rwq_ind_table(rqt) == 0);
    CHECK(ibv_destroy_wq(wq) == 0);
    CHECK(ibv_destroy_qp(raw) == 0);
}

void states_follow_the_rules() {
    Endpoint end("mlx5_0");
    ibv_qp* raw = create_raw_qp(end);
    CHECK(raw != nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(raw, &attr, IBV_QP_STATE) == EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    CHECK(ibv_modify_qp(raw, &attr, IBV_QP_STATE) == EINVAL); // without a port
    CHECK(bring_to_rts(raw) == 0);
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(raw, &attr, IBV_QP_STATE | IBV_QP_PORT, &init) == 0);
    CHECK(attr.qp_state == IBV_QPS_RTS && attr.port_num == 1);
    CHECK(init.cap.max_send_wr >= 64);
    attr.qp_state = IBV_QPS_ERR;
    CHECK(ibv_modify_qp(raw, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(raw, &attr, IBV_QP_STATE) == 0);
    CHECK(bring_to_rts(raw) == 0);
    CHECK(ibv_destroy_qp(raw) == 0);

    ibv_wq* wq = create_wq(end, false);
    CHECK(wq != nullptr && set_wq_state(wq, IBV_WQS_RDY) == 0);
    CHECK(set_wq_state(wq, IBV_WQS_ERR) == 0);
    CHECK(set_wq_state(wq, IBV_WQS_RDY) == EINVAL);
    CHECK(set_wq_state(wq, IBV_WQS_RESET) == 0);
    CHECK(set_wq_state(wq, IBV_WQS_RDY) == 0);
    CHECK(ibv_destroy_wq(wq) == 0);
}

void bad_arguments_are_refused() {
    Endpoint end("mlx5_0");
    CHECK(ibv_reg_mr(end.pd, nullptr, 4096, 0) == nullptr && errno == EFAULT);
    CHECK(ibv_reg_mr(end.pd, end.buffer.data(), 0, 0) == nullptr && errno == EINVAL);
    CHECK(ibv_reg_mr(end.pd, end.buffer.data(), 4096, IBV_ACCESS_REMOTE_WRITE) == nullptr && errno == EINVAL);
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = attr.max_sge = 1;
    attr.pd = end.pd;
    attr.cq = end.cq;
    mlx5dv_wq_init_attr driver{};
    driver.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    driver.striding_rq_attrs = {6, 3, 0}; // a WQE of 512 bytes, below the device's least
    CHECK(mlx5dv_create_wq(end.context, &attr, &driver) == nullptr && errno == EINVAL);
    // A handle of another context names nothing here.
    ibv_context* other = open_device("mlx5_0");
    ibv_pd* foreign = ibv_alloc_pd(other);
    foreign->context = end.context;
    foreign->handle += 1000;
    CHECK(ibv_dealloc_pd(foreign) == ENOENT);
    foreign->context = other;
    foreign->handle -= 1000;
    CHECK(ibv_dealloc_pd(foreign) == 0);
    CHECK(ibv_close_device(other) == 0);
}

/// Writes words as a command; the errno, or 0.
int write_words(int fd, std::vector<std::uint32_t> words) {
    const auto bytes = static_cast<ssize_t>(words.size() * sizeof words[0]);
    return write(fd, words.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : errno;
}

void malformed_commands_are_refused() {
    ibv_context* context = open_device("mlx5_1");
    const int fd = context->cmd_fd;
    // As the kernel: memory that is not there is EFAULT, whoever points at it.
    auto* nowhere =
        static_cast<std::byte*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(write(fd, nowhere, 24) == -1 && errno == EFAULT);
    const auto address = std::bit_cast<std::uint64_t>(nowhere);
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_ALLOC_PD, 4U | 1U << 16, static_cast<std::uint32_t>(address),
                           static_cast<std::uint32_t>(address >> 32)}) == EFAULT);
    munmap(nowhere, 4096);
    constexpr std::uint32_t extended = IB_USER_VERBS_CMD_FLAG_EXTENDED;
    CHECK(write_words(fd, {}) == EINVAL);
    CHECK(write_words(fd, {77, 2}) == EOPNOTSUPP);
    CHECK(write_words(fd, {extended | 99, 0, 0, 0, 0, 0}) == EOPNOTSUPP);
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_ALLOC_PD, 2}) == EINVAL);        // no core part
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_ALLOC_PD, 99, 0, 0}) == EINVAL); // wrong length
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_ALLOC_PD, 4, 0, 0}) == ENOSPC);  // no room to answer
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_ALLOC_PD, 4 | 2U << 16, 16, 0}) ==
          EFAULT);                                                                    // answer to address 16
    CHECK(write_words(fd, {extended | IB_USER_VERBS_EX_CMD_CREATE_WQ, 1}) == EINVAL); // no extended header
    CHECK(write_words(fd, {IB_USER_VERBS_CMD_GET_CONTEXT, 4 | 4U << 16, 16, 0}) == EINVAL); // open already
    char byte;
    CHECK(read(fd, &byte, 1) == -1 && errno == EINVAL);
    CHECK(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 1L << 20) == MAP_FAILED && errno == EINVAL);
    // The clock can be read, not set.
    CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 5L << 20) == MAP_FAILED &&
          errno == EPERM);
    void* clock = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 5L << 20);
    CHECK(clock != MAP_FAILED && munmap(clock, 4096) == 0);
    struct stat info;
    CHECK(fstat(fd, &info) == 0 && S_ISCHR(info.st_mode));
    CHECK(ibv_close_device(context) == 0);
}

void many_contexts_live_side_by_side() {
    std::vector<ibv_context*> contexts;
    for (int i = 0; i < 40; ++i)
        contexts.push_back(open_device(i % 2 == 0 ? "mlx5_0" : "mlx5_1"));
    for (ibv_context* context : contexts)
        CHECK(ibv_close_device(context) == 0);
}

void each_send_queue_has_its_own_doorbell_register() {
    Endpoint end("mlx5_0");
    std::vector<ibv_qp*> qps;
    std::vector<void*> registers;
    for (int i = 0; i < 8; ++i) {
        qps.push_back(create_raw_qp(end));
        CHECK(qps.back() != nullptr);
        mlx5dv_qp view{};
        mlx5dv_obj object{};
        object.qp = {qps.back(), &view};
        CHECK(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP) == 0);
        for (void* other : registers)
            CHECK(view.bf.reg != other);
        registers.push_back(view.bf.reg);
        CHECK(view.bf.size == 256);
    }
    for (ibv_qp* qp : qps)
        CHECK(ibv_destroy_qp(qp) == 0);
}

/// The last copy of a command descriptor takes everything along, whatever lives in the context.
void closing_the_descriptor_destroys_everything() {
    static Endpoint* left = new Endpoint("mlx5_1"); // never destroyed: its objects go with the descriptor
    static ibv_wq* wq = create_wq(*left, true);     // static, as the next: what is left is no leak
    CHECK(wq != nullptr && set_wq_state(wq, IBV_WQS_RDY) == 0);
    static ibv_rwq_ind_table* table = create_rqt(left->context, wq);
    static ibv_qp* rss = create_rss_qp(*left, table, 0);
    CHECK(rss != nullptr);
    static ibv_flow* flow = create_all_flow(rss);
    CHECK(flow != nullptr);
    CHECK(bring_to_rts(create_raw_qp(*left)) == 0);
    const int copy = dup(left->context->cmd_fd);
    CHECK(copy >= 0);
    CHECK(close(left->context->cmd_fd) == 0);
    left->context->cmd_fd = copy;
    ibv_port_attr port{};
    CHECK(ibv_query_port(left->context, 1, &port) == 0); // by the copy
    CHECK(close(copy) == 0);
    CHECK(ibv_query_port(left->context, 1, &port) != 0);
}

void a_forked_child_has_dead_contexts_and_may_open_its_own() {
    Endpoint end("mlx5_0");
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        ibv_port_attr port{};
        if (ibv_query_port(end.context, 1, &port) != EIO) _exit(1);
        ibv_context* own = open_device("mlx5_0");
        if (ibv_query_port(own, 1, &port) != 0) _exit(2);
        ibv_close_device(own);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ibv_port_attr port{};
    CHECK(ibv_query_port(end.context, 1, &port) == 0);
}

/// By swhca.h, as a test would do it.
void a_link_that_flaps_is_told_to_every_context() {
    using SetLink = int(const char*, int);
    auto* set_link = reinterpret_cast<SetLink*>(dlsym(RTLD_DEFAULT, "swhca_set_link"));
    CHECK(set_link != nullptr && set_link("no_such_device", 0) == ENODEV);
    // A pair has one cable: who is at the other end sees it too.
    ibv_context* contexts[3] = {open_device("mlx5_0"), open_device("mlx5_0"), open_device("mlx5_1")};
    for (const bool up : {false, true}) {
        CHECK(set_link("mlx5_0", up ? 1 : 0) == 0);
        for (ibv_context* context : contexts) {
            ibv_async_event event{};
            CHECK(ibv_get_async_event(context, &event) == 0);
            CHECK(event.event_type == (up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR));
            CHECK(event.element.port_num == 1);
            ibv_ack_async_event(&event);
            ibv_port_attr port{};
            CHECK(ibv_query_port(context, 1, &port) == 0);
            CHECK(port.state == (up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN));
        }
    }
    for (ibv_context* context : contexts)
        CHECK(ibv_close_device(context) == 0);
}

void completion_channels_end_with_their_last_user() {
    ibv_context* context = open_device("mlx5_0");
    ibv_comp_channel* channel = ibv_create_comp_channel(context);
    CHECK(channel != nullptr);
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, channel, 0);
    CHECK(cq != nullptr && ibv_req_notify_cq(cq, 0) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
    CHECK(ibv_destroy_cq(cq) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == 0);
    CHECK(ibv_close_device(context) == 0);
}

} // namespace

int main() {
    device_offers_what_connectx5_does();
    destruction_in_the_wrong_order_is_busy();
    states_follow_the_rules();
    bad_arguments_are_refused();
    malformed_commands_are_refused();
    many_contexts_live_side_by_side();
    each_send_queue_has_its_own_doorbell_register();
    completion_channels_end_with_their_last_user();
    a_link_that_flaps_is_told_to_every_context();
    a_forked_child_has_dead_contexts_and_may_open_its_own();
    closing_the_descriptor_destroys_everything();
    std::puts("verbs_objects: all passed");
}
