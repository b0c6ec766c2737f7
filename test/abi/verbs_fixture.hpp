// SPDX-License-Identifier: BSD-3-Clause
/// What the verbs programs of this folder share: a check that ends the program with its line, owned buffers,
/// and devices by name.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno,        \
                         std::strerror(errno));                                                              \
            std::exit(1);                                                                                    \
        }                                                                                                    \
    } while (false)

namespace fixture {

constexpr std::size_t buffer_bytes = 1 << 20;

inline ibv_context* open_device(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    CHECK(list != nullptr);
    ibv_context* context = nullptr;
    for (int i = 0; i < count; ++i)
        if (name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    CHECK(context != nullptr);
    return context;
}

/// A device with a PD, a registered buffer and a CQ.
struct Endpoint {
    ibv_context* context{};
    ibv_pd* pd{};
    std::vector<unsigned char> buffer = std::vector<unsigned char>(buffer_bytes);
    ibv_mr* mr{};
    ibv_cq* cq{};

    explicit Endpoint(const std::string& device)
        : context{open_device(device)} {
        CHECK((pd = ibv_alloc_pd(context)) != nullptr);
        CHECK((mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE)) != nullptr);
        CHECK((cq = ibv_create_cq(context, 255, nullptr, nullptr, 0)) != nullptr);
    }
    ~Endpoint() {
        CHECK(ibv_destroy_cq(cq) == 0);
        CHECK(ibv_dereg_mr(mr) == 0);
        CHECK(ibv_dealloc_pd(pd) == 0);
        CHECK(ibv_close_device(context) == 0);
    }
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;
};

inline ibv_wq* create_wq(Endpoint& end, bool striding, std::uint32_t max_wr = 8) {
    ibv_wq_init_attr attr{};
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = max_wr;
    attr.max_sge = 1;
    attr.pd = end.pd;
    attr.cq = end.cq;
    mlx5dv_wq_init_attr driver{};
    driver.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    driver.striding_rq_attrs.single_stride_log_num_of_bytes = 11;
    driver.striding_rq_attrs.single_wqe_log_num_of_strides = 5;
    return striding ? mlx5dv_create_wq(end.context, &attr, &driver) : ibv_create_wq(end.context, &attr);
}

inline int set_wq_state(ibv_wq* wq, ibv_wq_state state) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = state;
    return ibv_modify_wq(wq, &attr);
}

inline ibv_rwq_ind_table* create_rqt(ibv_context* context, ibv_wq* wq) {
    ibv_rwq_ind_table_init_attr attr{};
    attr.log_ind_tbl_size = 0;
    attr.ind_tbl = &wq;
    return ibv_create_rwq_ind_table(context, &attr);
}

inline ibv_qp* create_rss_qp(Endpoint& end, ibv_rwq_ind_table* rqt, std::uint64_t fields) {
    static std::uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda};
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
    attr.pd = end.pd;
    attr.rwq_ind_tbl = rqt;
    attr.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof key, key, fields};
    return ibv_create_qp_ex(end.context, &attr);
}

inline ibv_qp* create_raw_qp(Endpoint& end) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = end.cq;
    attr.cap.max_send_wr = 64;
    attr.cap.max_send_sge = 2;
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.sq_sig_all = 1;
    return ibv_create_qp(end.pd, &attr);
}

/// 0 or the errno of the first change that failed.
inline int bring_to_rts(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT)) return error;
    attr.qp_state = IBV_QPS_RTR;
    if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE)) return error;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/// A rule for all frames to `qp`.
inline ibv_flow* create_all_flow(ibv_qp* qp) {
    ibv_flow_attr attr{};
    attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
    attr.size = sizeof attr;
    attr.port = 1;
    return ibv_create_flow(qp, &attr);
}

} // namespace fixture
