// SPDX-License-Identifier: BSD-3-Clause
// GET_CONTEXT and the queries: what the device says of itself, from the same caps that creation enforces.
#include "swhca/abi/handlers.hpp"
#include "swhca/hca/cq.hpp"
#include "swhca/hca/events.hpp"
#include "swhca/hca/uar.hpp"

#include <bit>
#include <cerrno>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

namespace swhca::handlers {
namespace {

constexpr std::uint32_t raw_packet_bit = 1U << IB_UVERBS_QPT_RAW_PACKET;
constexpr std::uint64_t firmware_version = 16ULL << 32 | 35ULL << 16 | 4030ULL;
constexpr std::uint32_t vendor_mellanox = 0x02c9;

mlx5_ib_alloc_ucontext_resp describe_context(const Device& device) {
    mlx5_ib_alloc_ucontext_resp resp{};
    resp.qp_tab_size = device.caps.max_qp;
    resp.bf_reg_size = uar::register_bytes;
    resp.tot_bfregs = uar::bfregs;
    resp.cache_line_size = 64;
    resp.max_sq_desc_sz = 1024;
    resp.max_rq_desc_sz = 512;
    resp.max_send_wqebb = device.caps.max_qp_wr;
    resp.max_recv_wr = device.caps.max_qp_wr;
    resp.num_ports = 1;
    resp.response_length = sizeof resp;
    resp.cqe_version = 1;
    resp.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
    resp.max_srq_recv_wr = device.caps.max_qp_wr;
    resp.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
    resp.clock_info_versions = 1U << MLX5_IB_CLOCK_INFO_V1;
    resp.num_dyn_bfregs = uar::bfregs;
    resp.eth_min_inline =
        device.caps.min_inline_mode != 0 ? MLX5_USER_INLINE_MODE_L2 : MLX5_USER_INLINE_MODE_NONE;
    resp.log_uar_size = 12;
    resp.num_uars_per_page = 1;
    return resp;
}

int check_context_request(const Call& call, const mlx5_ib_alloc_ucontext_req_v2& req) {
    if (req.comp_mask != 0 || (req.flags & ~std::uint32_t{MLX5_IB_ALLOC_UCTX_DEVX}) != 0)
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s: comp_mask 0x%x, flags 0x%x", call.name,
                      req.comp_mask, req.flags);
    if (req.total_num_bfregs == 0 || req.num_low_latency_bfregs > req.total_num_bfregs - 1)
        return refuse(Rule::bad_argument, EINVAL, "%s: %u bfregs, %u of them low-latency", call.name,
                      req.total_num_bfregs, req.num_low_latency_bfregs);
    if (req.max_cqe_version < 1)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: CQE version 0 (a library before 2015)", call.name);
    return 0;
}

ib_uverbs_query_device_resp describe_device(const Device& device) {
    const DeviceCaps& caps = device.caps;
    ib_uverbs_query_device_resp resp{};
    resp.fw_ver = firmware_version;
    resp.node_guid = resp.sys_image_guid = std::bit_cast<std::uint64_t>(be64{device.node_guid});
    resp.max_mr_size = ~0ULL;
    resp.page_size_cap = ~0xfffULL;
    resp.vendor_id = vendor_mellanox;
    resp.vendor_part_id = part_number(caps);
    resp.max_qp = caps.max_qp;
    resp.max_qp_wr = caps.max_qp_wr;
    resp.device_cap_flags = IB_UVERBS_DEVICE_CURR_QP_STATE_MOD | IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
                            IB_UVERBS_DEVICE_SYS_IMAGE_GUID | IB_UVERBS_DEVICE_UD_IP_CSUM |
                            IB_UVERBS_DEVICE_RAW_IP_CSUM | IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING;
    resp.max_sge = resp.max_sge_rd = caps.max_sge;
    resp.max_cq = caps.max_cq;
    resp.max_cqe = caps.max_cqe;
    resp.max_mr = caps.max_mr;
    resp.max_pd = caps.max_pd;
    resp.max_raw_ethy_qp = caps.max_qp;
    resp.max_pkeys = static_cast<std::uint16_t>(device.port.pkeys.size());
    resp.max_srq = caps.max_srq;
    resp.max_srq_wr = caps.max_qp_wr - 1;
    resp.max_srq_sge = caps.max_srq_sge;
    resp.max_ah = caps.max_ah;
    resp.max_mcast_grp = caps.max_groups;
    resp.max_mcast_qp_attach = caps.max_group_qps;
    resp.max_total_mcast_qp_attach = caps.max_groups * caps.max_group_qps;
    resp.local_ca_ack_delay = 16;
    resp.phys_port_cnt = 1;
    return resp;
}

ib_uverbs_ex_query_device_resp describe_device_ex(const Device& device) {
    const DeviceCaps& caps = device.caps;
    ib_uverbs_ex_query_device_resp resp{};
    resp.base = describe_device(device);
    resp.timestamp_mask = ~0ULL;
    resp.hca_core_clock = 1'000'000; // kHz: timestamps count nanoseconds
    resp.device_cap_flags_ex = resp.base.device_cap_flags |
                               static_cast<std::uint64_t>(IB_UVERBS_DEVICE_RAW_SCATTER_FCS) |
                               static_cast<std::uint64_t>(IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING);
    resp.rss_caps.supported_qpts = raw_packet_bit;
    resp.rss_caps.max_rwq_indirection_tables = caps.max_rqt;
    resp.rss_caps.max_rwq_indirection_table_size = 1U << caps.max_log_rqt_entries;
    resp.max_wq_type_rq = caps.max_wq;
    resp.raw_packet_caps = IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING | IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS |
                           IB_UVERBS_RAW_PACKET_CAP_IP_CSUM;
    resp.cq_moderation_caps.max_cq_moderation_count = 0xffff;
    resp.cq_moderation_caps.max_cq_moderation_period = 0xfff;
    return resp;
}

mlx5_ib_query_device_resp describe_driver_caps(const DeviceCaps& caps) {
    mlx5_ib_query_device_resp resp{};
    resp.response_length = sizeof resp;
    if (caps.max_tso_bytes != 0) resp.tso_caps = {caps.max_tso_bytes, raw_packet_bit};
    resp.rss_caps.rx_hash_fields_mask = MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 |
                                        MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6 |
                                        MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP |
                                        MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP;
    resp.rss_caps.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
    if (caps.cqe_compression) {
        resp.cqe_comp_caps.max_num = 64;
        resp.cqe_comp_caps.supported_format =
            MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM | MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX;
        resp.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP;
    }
    resp.flags |= MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD;
    if (caps.enhanced_mpw)
        resp.mlx5_ib_support_multi_pkt_send_wqes = MLX5_IB_ALLOW_MPW | MLX5_IB_SUPPORT_EMPW;
    resp.sw_parsing_caps = {MLX5_IB_SW_PARSING | MLX5_IB_SW_PARSING_CSUM | MLX5_IB_SW_PARSING_LSO,
                            raw_packet_bit};
    if (caps.striding)
        resp.striding_rq_caps = {caps.min_log_stride_bytes,
                                 caps.max_log_stride_bytes,
                                 caps.min_log_strides,
                                 caps.max_log_strides,
                                 raw_packet_bit,
                                 0};
    return resp;
}

} // namespace

int get_context(const Call& call) {
    Context& context = call.context;
    const auto req = call.driver<mlx5_ib_alloc_ucontext_req_v2>();
    if (context.opened) return refuse(Rule::bad_command, EINVAL, "%s: the context is open", call.name);
    if (const int error =
            call.check_driver<mlx5_ib_alloc_ucontext_req_v2>(sizeof(mlx5_ib_alloc_ucontext_req)))
        return error;
    // libmlx5 asks with DevX first and goes on without: no rule is broken.
    if ((req.flags & MLX5_IB_ALLOC_UCTX_DEVX) != 0) return EINVAL;
    if (const int error = check_context_request(call, req)) return error;
    SocketPair pair;
    if (const int error = open_event_pair(pair)) return error;
    const ib_uverbs_get_context_resp resp{.async_fd = static_cast<std::uint32_t>(pair.program_fd),
                                          .num_comp_vectors = completion_vectors};
    int error = call.answer_core(resp);
    if (error == 0) error = call.answer_driver(describe_context(*context.device));
    if (error != 0) {
        for (const int fd : {pair.program_fd, pair.copy_fd, pair.engine_fd})
            close(fd);
        return error;
    }
    context.async_program_fd = pair.copy_fd;
    context.async_engine_fd = pair.engine_fd;
    context.opened = true;
    return 0;
}

int query_device(const Call& call) { return call.answer_core(describe_device(*call.context.device)); }

int ex_query_device(const Call& call) {
    const auto req = call.core<ib_uverbs_ex_query_device>();
    if (req.comp_mask != 0 || req.reserved != 0)
        return refuse(Rule::bad_command, EINVAL, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    auto resp = describe_device_ex(*call.context.device);
    resp.response_length =
        static_cast<std::uint32_t>(std::min<std::size_t>(sizeof resp, call.core_out_bytes));
    if (const int error = call.answer_core(resp)) return error;
    return call.answer_driver(describe_driver_caps(call.context.device->caps));
}

int query_port(const Call& call) {
    const auto req = call.core<ib_uverbs_query_port>();
    const Port& port = call.context.device->port;
    if (req.port_num != port.number)
        return refuse(Rule::bad_argument, EINVAL, "%s: port %u of 1", call.name, req.port_num);
    const bool up = port_is_up(port);
    ib_uverbs_query_port_resp resp{};
    const bool ethernet = port.link_layer == LinkLayer::ethernet;
    resp.port_cap_flags = port_capabilities(port);
    resp.max_msg_sz = 1U << 30;
    resp.gid_tbl_len = static_cast<std::int32_t>(port.gids.size());
    resp.pkey_tbl_len = static_cast<std::uint16_t>(port.pkeys.size());
    resp.lid = port.lid;
    resp.sm_lid = port.sm_lid;
    resp.subnet_timeout = ethernet ? 0 : 18;
    resp.state = up ? 4 : 1;      // ACTIVE, DOWN (enum ib_port_state)
    resp.phys_state = up ? 5 : 3; // LinkUp, Disabled
    resp.max_mtu = resp.active_mtu =
        5; // 4096 (enum ib_mtu): the largest there is; Ethernet frames go further
    resp.max_vl_num = 1;
    resp.active_width = 2;  // 4X
    resp.active_speed = 32; // EDR: 100 Gb/s over four lanes
    resp.link_layer = static_cast<std::uint8_t>(port.link_layer);
    resp.flags = ethernet ? IB_UVERBS_QPF_GRH_REQUIRED : 0;
    return call.answer_core(resp);
}

} // namespace swhca::handlers
