// SPDX-License-Identifier: BSD-3-Clause
#include "requests.hpp"

#include "arena.hpp"

#include <cstring>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace fuzz {
namespace {

// What lies where in the arena.
constexpr std::uint64_t answers = arena_address;
constexpr std::uint64_t records = arena_address + 0x2000; ///< doorbell records, 64 bytes each
constexpr std::uint64_t cq_ring = arena_address + 0x4000;
constexpr std::uint64_t wq_ring = arena_address + 0x8000;
constexpr std::uint64_t sq_ring = arena_address + 0xc000;
constexpr std::uint64_t ud_ring = arena_address + 0x10000;
constexpr std::uint64_t srq_ring = arena_address + 0x14000;
constexpr std::uint64_t buffers = arena_address + 0x20000;
constexpr std::uint64_t buffer_bytes = 0x20000;

// Handles, in the order of creation.
constexpr std::uint32_t pd = 1, mr = 2, cq = 3, wq = 4, rqt = 5, rss = 6, raw = 7, ud = 8, flow = 9, srq = 10,
                        ah = 11;

template <class T>
void append(Request& request, const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    request.insert(request.end(), bytes, bytes + sizeof value);
}
template <class T>
Request bytes_of(const T& value) {
    Request request;
    append(request, value);
    return request;
}

/// A write() command; the core part starts with the address of the answer if there is one.
template <class Core>
Request legacy(std::uint32_t command, Core core, std::size_t answer_bytes = 0, const Request& driver = {}) {
    if constexpr (requires { core.response; }) core.response = answers;
    Request request;
    append(request, ib_uverbs_cmd_hdr{command,
                                      static_cast<std::uint16_t>(
                                          (sizeof(ib_uverbs_cmd_hdr) + sizeof core + driver.size()) / 4),
                                      static_cast<std::uint16_t>(answer_bytes / 4)});
    append(request, core);
    request.insert(request.end(), driver.begin(), driver.end());
    return request;
}

/// An extended one.
Request extended(std::uint32_t command, Request core, std::size_t answer_bytes = 0,
                 const Request& driver = {}, std::size_t driver_answer_bytes = 0) {
    core.resize((core.size() + 7) / 8 * 8);
    Request request;
    append(request, ib_uverbs_cmd_hdr{command | IB_USER_VERBS_CMD_FLAG_EXTENDED,
                                      static_cast<std::uint16_t>(core.size() / 8),
                                      static_cast<std::uint16_t>(answer_bytes / 8)});
    append(request, ib_uverbs_ex_cmd_hdr{answers, static_cast<std::uint16_t>(driver.size() / 8),
                                         static_cast<std::uint16_t>(driver_answer_bytes / 8), 0});
    request.insert(request.end(), core.begin(), core.end());
    request.insert(request.end(), driver.begin(), driver.end());
    return request;
}

Request get_context() {
    mlx5_ib_alloc_ucontext_req_v2 driver{};
    driver.total_num_bfregs = 16;
    driver.num_low_latency_bfregs = 4;
    driver.max_cqe_version = 1;
    return legacy(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{},
                  sizeof(ib_uverbs_get_context_resp) + sizeof(mlx5_ib_alloc_ucontext_resp), bytes_of(driver));
}

Request reg_mr() {
    ib_uverbs_reg_mr core{};
    core.start = core.hca_va = buffers;
    core.length = buffer_bytes;
    core.pd_handle = pd;
    core.access_flags = 1;
    return legacy(IB_USER_VERBS_CMD_REG_MR, core, sizeof(ib_uverbs_reg_mr_resp));
}

Request create_cq() {
    ib_uverbs_create_cq core{};
    core.cqe = 63;
    core.comp_channel = -1;
    mlx5_ib_create_cq driver{};
    driver.buf_addr = cq_ring;
    driver.db_addr = records;
    driver.cqe_size = 64;
    return legacy(IB_USER_VERBS_CMD_CREATE_CQ, core,
                  sizeof(ib_uverbs_create_cq_resp) + sizeof(mlx5_ib_create_cq_resp), bytes_of(driver));
}

Request create_wq() {
    ib_uverbs_ex_create_wq core{};
    core.pd_handle = pd;
    core.cq_handle = cq;
    core.max_wr = 8;
    core.max_sge = 1;
    mlx5_ib_create_wq driver{};
    driver.buf_addr = wq_ring;
    driver.db_addr = records + 64;
    driver.rq_wqe_count = 8;
    driver.rq_wqe_shift = 5;
    driver.comp_mask = MLX5_IB_CREATE_WQ_STRIDING_RQ;
    driver.single_stride_log_num_of_bytes = 8;
    driver.single_wqe_log_num_of_strides = 6;
    return extended(IB_USER_VERBS_EX_CMD_CREATE_WQ, bytes_of(core), sizeof(ib_uverbs_ex_create_wq_resp),
                    bytes_of(driver), sizeof(mlx5_ib_create_wq_resp));
}

Request modify_wq() {
    ib_uverbs_ex_modify_wq core{};
    core.attr_mask = 1;
    core.wq_handle = wq;
    core.wq_state = 1;
    return extended(IB_USER_VERBS_EX_CMD_MODIFY_WQ, bytes_of(core));
}

Request create_rqt() {
    Request core = bytes_of(ib_uverbs_ex_create_rwq_ind_table{});
    append(core, wq);
    return extended(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, core,
                    sizeof(ib_uverbs_ex_create_rwq_ind_table_resp));
}

Request create_rss() {
    ib_uverbs_ex_create_qp core{};
    core.pd_handle = pd;
    core.qp_type = IB_UVERBS_QPT_RAW_PACKET;
    core.comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    core.rwq_ind_tbl_handle = rqt;
    mlx5_ib_create_qp_rss driver{};
    driver.rx_hash_fields_mask = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4;
    driver.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
    driver.rx_key_len = 40;
    std::memset(driver.rx_hash_key, 0x6d, 40);
    return extended(IB_USER_VERBS_EX_CMD_CREATE_QP, bytes_of(core), sizeof(ib_uverbs_ex_create_qp_resp),
                    bytes_of(driver), sizeof(mlx5_ib_create_qp_resp));
}

Request create_qp(std::uint8_t type, std::uint64_t ring, std::uint64_t record) {
    ib_uverbs_create_qp core{};
    core.pd_handle = pd;
    core.send_cq_handle = core.recv_cq_handle = cq;
    core.max_send_wr = core.max_recv_wr = 4;
    core.max_send_sge = core.max_recv_sge = 1;
    core.qp_type = type;
    mlx5_ib_create_qp driver{};
    driver.buf_addr = ring;
    driver.db_addr = record;
    driver.sq_wqe_count = 16;
    driver.rq_wqe_count = 4;
    driver.rq_wqe_shift = 4;
    driver.sq_buf_addr = type == IB_UVERBS_QPT_RAW_PACKET ? ring + 0x1000 : 0;
    Request bytes = bytes_of(driver);
    bytes.resize(56);
    return legacy(IB_USER_VERBS_CMD_CREATE_QP, core,
                  sizeof(ib_uverbs_create_qp_resp) + sizeof(mlx5_ib_create_qp_resp), bytes);
}

/// State of a QP, by one step.
Request modify_qp(std::uint32_t handle, std::uint8_t state) {
    ib_uverbs_modify_qp core{};
    core.qp_handle = handle;
    core.attr_mask = 1;
    core.qp_state = state;
    core.port_num = 1;
    if (state == 1) core.attr_mask |= 1U << 5;                           // port
    if (state == 1 && handle == ud) core.attr_mask |= 1U << 4 | 1U << 6; // P_Key, Q_Key
    if (state == 3 && handle == ud) core.attr_mask |= 1U << 16;          // SQ PSN
    return legacy(IB_USER_VERBS_CMD_MODIFY_QP, core);
}

Request create_flow(std::uint32_t handle) {
    ib_uverbs_create_flow core; // ends in an array of no length, which takes no initializer
    std::memset(&core, 0, sizeof core);
    core.qp_handle = handle;
    core.flow_attr.size = sizeof(ib_uverbs_flow_spec_eth);
    core.flow_attr.num_of_specs = 1;
    core.flow_attr.port = 1;
    ib_uverbs_flow_spec_eth spec{};
    spec.type = 0x20; // IB_FLOW_SPEC_ETH
    spec.size = sizeof spec;
    spec.val.dst_mac[0] = 2;
    std::memset(spec.mask.dst_mac, 0xff, sizeof spec.mask.dst_mac);
    Request bytes = bytes_of(core);
    append(bytes, spec);
    return extended(IB_USER_VERBS_EX_CMD_CREATE_FLOW, bytes, sizeof(ib_uverbs_create_flow_resp));
}

Request create_srq() {
    ib_uverbs_create_srq core{};
    core.pd_handle = pd;
    core.max_wr = 15;
    core.max_sge = 1;
    mlx5_ib_create_srq driver{};
    driver.buf_addr = srq_ring;
    driver.db_addr = records + 256;
    driver.uidx = 0xffffff;
    return legacy(IB_USER_VERBS_CMD_CREATE_SRQ, core,
                  sizeof(ib_uverbs_create_srq_resp) + sizeof(mlx5_ib_create_srq_resp), bytes_of(driver));
}

Request create_ah() {
    ib_uverbs_create_ah core{};
    core.pd_handle = pd;
    core.attr.dlid = 2;
    core.attr.port_num = 1;
    core.attr.is_global = 1;
    constexpr std::uint8_t peer[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x53, 0x57, 0xff, 0xfe, 0, 0, 1};
    std::memcpy(core.attr.grh.dgid, peer, sizeof peer);
    return legacy(IB_USER_VERBS_CMD_CREATE_AH, core, sizeof(ib_uverbs_create_ah_resp));
}

Request resize_cq() {
    ib_uverbs_resize_cq core{};
    core.cq_handle = cq;
    core.cqe = 31;
    mlx5_ib_resize_cq driver{};
    driver.buf_addr = cq_ring + 0x2000;
    driver.cqe_size = 64;
    return legacy(IB_USER_VERBS_CMD_RESIZE_CQ, core, sizeof(ib_uverbs_resize_cq_resp), bytes_of(driver));
}

template <class Core>
Request plain(std::uint32_t command, std::size_t answer_bytes, void (*fill)(Core& core)) {
    Core core{};
    fill(core);
    return legacy(command, core, answer_bytes);
}

std::vector<Request> make_creating() {
    return {get_context(),
            plain<ib_uverbs_alloc_pd>(IB_USER_VERBS_CMD_ALLOC_PD, 8, [](auto&) {}),
            reg_mr(),
            create_cq(),
            create_wq(),
            modify_wq(),
            create_rqt(),
            create_rss(),
            create_qp(IB_UVERBS_QPT_RAW_PACKET, sq_ring, records + 128),
            modify_qp(raw, 1),
            modify_qp(raw, 2),
            modify_qp(raw, 3),
            create_qp(IB_UVERBS_QPT_UD, ud_ring, records + 192),
            modify_qp(ud, 1),
            modify_qp(ud, 2),
            modify_qp(ud, 3),
            create_flow(rss),
            create_srq(),
            create_ah(),
            plain<ib_uverbs_create_comp_channel>(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 4, [](auto&) {})};
}

/// Looks at objects, and takes them away.
std::vector<Request> make_others() {
    return {
        plain<ib_uverbs_query_device>(IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(ib_uverbs_query_device_resp),
                                      [](auto&) {}),
        plain<ib_uverbs_query_port>(IB_USER_VERBS_CMD_QUERY_PORT, sizeof(ib_uverbs_query_port_resp),
                                    [](auto& core) { core.port_num = 1; }),
        extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, bytes_of(ib_uverbs_ex_query_device{}), 304, {}, 104),
        plain<ib_uverbs_query_qp>(IB_USER_VERBS_CMD_QUERY_QP, sizeof(ib_uverbs_query_qp_resp),
                                  [](auto& core) { core.qp_handle = raw; }),
        extended(IB_USER_VERBS_EX_CMD_MODIFY_CQ, bytes_of(ib_uverbs_ex_modify_cq{cq, 1, {4, 16}, 0})),
        extended(IB_USER_VERBS_EX_CMD_CREATE_CQ, bytes_of(ib_uverbs_ex_create_cq{0, 63, 0, -1, 0, 0, 0}), 16,
                 bytes_of(mlx5_ib_create_cq{cq_ring, records, 64, 1, 1, 0, 0, 0, 0}), 8),
        resize_cq(),
        plain<ib_uverbs_rereg_mr>(
            IB_USER_VERBS_CMD_REREG_MR, sizeof(ib_uverbs_rereg_mr_resp),
            [](auto& core) { core.mr_handle = mr, core.flags = 4, core.access_flags = 0; }),
        plain<ib_uverbs_query_srq>(IB_USER_VERBS_CMD_QUERY_SRQ, sizeof(ib_uverbs_query_srq_resp),
                                   [](auto& core) { core.srq_handle = srq; }),
        plain<ib_uverbs_modify_srq>(IB_USER_VERBS_CMD_MODIFY_SRQ, 0,
                                    [](auto& core) { core.srq_handle = srq; }),
        plain<ib_uverbs_attach_mcast>(
            IB_USER_VERBS_CMD_ATTACH_MCAST, 0,
            [](auto& core) { core.gid[0] = 0xff, core.qp_handle = ud, core.mlid = 0xc001; }),
        plain<ib_uverbs_detach_mcast>(
            IB_USER_VERBS_CMD_DETACH_MCAST, 0,
            [](auto& core) { core.gid[0] = 0xff, core.qp_handle = ud, core.mlid = 0xc001; }),
        extended(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, bytes_of(ib_uverbs_destroy_flow{0, flow})),
        plain<ib_uverbs_destroy_ah>(IB_USER_VERBS_CMD_DESTROY_AH, 0, [](auto& core) { core.ah_handle = ah; }),
        plain<ib_uverbs_destroy_srq>(IB_USER_VERBS_CMD_DESTROY_SRQ, sizeof(ib_uverbs_destroy_srq_resp),
                                     [](auto& core) { core.srq_handle = srq; }),
        plain<ib_uverbs_destroy_qp>(IB_USER_VERBS_CMD_DESTROY_QP, sizeof(ib_uverbs_destroy_qp_resp),
                                    [](auto& core) { core.qp_handle = raw; }),
        plain<ib_uverbs_destroy_qp>(IB_USER_VERBS_CMD_DESTROY_QP, sizeof(ib_uverbs_destroy_qp_resp),
                                    [](auto& core) { core.qp_handle = rss; }),
        extended(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
                 bytes_of(ib_uverbs_ex_destroy_rwq_ind_table{0, rqt})),
        extended(IB_USER_VERBS_EX_CMD_DESTROY_WQ, bytes_of(ib_uverbs_ex_destroy_wq{0, wq}),
                 sizeof(ib_uverbs_ex_destroy_wq_resp)),
        plain<ib_uverbs_destroy_cq>(IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(ib_uverbs_destroy_cq_resp),
                                    [](auto& core) { core.cq_handle = cq; }),
        plain<ib_uverbs_dereg_mr>(IB_USER_VERBS_CMD_DEREG_MR, 0, [](auto& core) { core.mr_handle = mr; }),
        plain<ib_uverbs_dealloc_pd>(IB_USER_VERBS_CMD_DEALLOC_PD, 0, [](auto& core) { core.pd_handle = pd; }),
    };
}

} // namespace

const std::vector<Request>& good_requests() {
    static const std::vector<Request> all = [] {
        std::vector<Request> requests = make_creating();
        for (Request& request : make_others())
            requests.push_back(std::move(request));
        return requests;
    }();
    return all;
}

std::size_t creating_requests() {
    static const std::size_t count = make_creating().size();
    return count;
}

} // namespace fuzz
