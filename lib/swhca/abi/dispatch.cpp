// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/abi/dispatch.hpp"

#include "swhca/abi/handlers.hpp"
#include "swhca/engine/faults.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>

namespace swhca {
namespace {

using Handler = int (*)(const Call&);

/// A command of the table: sizes are those of the core structures, which a legacy request does not carry.
struct Command {
    std::uint32_t number;
    bool extended;
    const char* name;
    std::size_t core_in_bytes;  ///< least that is taken
    std::size_t core_out_bytes; ///< least that is answered (legacy: exactly)
    Handler handler;
};

constexpr Command commands[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, false, "GET_CONTEXT", sizeof(ib_uverbs_get_context),
     sizeof(ib_uverbs_get_context_resp), handlers::get_context},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, false, "QUERY_DEVICE", sizeof(ib_uverbs_query_device),
     sizeof(ib_uverbs_query_device_resp), handlers::query_device},
    {IB_USER_VERBS_CMD_QUERY_PORT, false, "QUERY_PORT", sizeof(ib_uverbs_query_port),
     sizeof(ib_uverbs_query_port_resp), handlers::query_port},
    {IB_USER_VERBS_CMD_ALLOC_PD, false, "ALLOC_PD", sizeof(ib_uverbs_alloc_pd),
     sizeof(ib_uverbs_alloc_pd_resp), handlers::alloc_pd},
    {IB_USER_VERBS_CMD_DEALLOC_PD, false, "DEALLOC_PD", sizeof(ib_uverbs_dealloc_pd), 0,
     handlers::dealloc_pd},
    {IB_USER_VERBS_CMD_REG_MR, false, "REG_MR", sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp),
     handlers::reg_mr},
    {IB_USER_VERBS_CMD_REREG_MR, false, "REREG_MR", sizeof(ib_uverbs_rereg_mr),
     sizeof(ib_uverbs_rereg_mr_resp), handlers::rereg_mr},
    {IB_USER_VERBS_CMD_DEREG_MR, false, "DEREG_MR", sizeof(ib_uverbs_dereg_mr), 0, handlers::dereg_mr},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, false, "CREATE_COMP_CHANNEL",
     sizeof(ib_uverbs_create_comp_channel), sizeof(ib_uverbs_create_comp_channel_resp),
     handlers::create_comp_channel},
    {IB_USER_VERBS_CMD_CREATE_CQ, false, "CREATE_CQ", sizeof(ib_uverbs_create_cq),
     sizeof(ib_uverbs_create_cq_resp), handlers::create_cq},
    {IB_USER_VERBS_CMD_RESIZE_CQ, false, "RESIZE_CQ", sizeof(ib_uverbs_resize_cq),
     sizeof(ib_uverbs_resize_cq_resp), handlers::resize_cq},
    {IB_USER_VERBS_CMD_DESTROY_CQ, false, "DESTROY_CQ", sizeof(ib_uverbs_destroy_cq),
     sizeof(ib_uverbs_destroy_cq_resp), handlers::destroy_cq},
    {IB_USER_VERBS_CMD_CREATE_QP, false, "CREATE_QP", sizeof(ib_uverbs_create_qp),
     sizeof(ib_uverbs_create_qp_resp), handlers::create_qp},
    {IB_USER_VERBS_CMD_QUERY_QP, false, "QUERY_QP", sizeof(ib_uverbs_query_qp),
     sizeof(ib_uverbs_query_qp_resp), handlers::query_qp},
    {IB_USER_VERBS_CMD_MODIFY_QP, false, "MODIFY_QP", sizeof(ib_uverbs_modify_qp), 0, handlers::modify_qp},
    {IB_USER_VERBS_CMD_DESTROY_QP, false, "DESTROY_QP", sizeof(ib_uverbs_destroy_qp),
     sizeof(ib_uverbs_destroy_qp_resp), handlers::destroy_qp},
    {IB_USER_VERBS_CMD_CREATE_SRQ, false, "CREATE_SRQ", sizeof(ib_uverbs_create_srq),
     sizeof(ib_uverbs_create_srq_resp), handlers::create_srq},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, false, "MODIFY_SRQ", sizeof(ib_uverbs_modify_srq), 0,
     handlers::modify_srq},
    {IB_USER_VERBS_CMD_QUERY_SRQ, false, "QUERY_SRQ", sizeof(ib_uverbs_query_srq),
     sizeof(ib_uverbs_query_srq_resp), handlers::query_srq},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, false, "DESTROY_SRQ", sizeof(ib_uverbs_destroy_srq),
     sizeof(ib_uverbs_destroy_srq_resp), handlers::destroy_srq},
    {IB_USER_VERBS_CMD_CREATE_AH, false, "CREATE_AH", sizeof(ib_uverbs_create_ah),
     sizeof(ib_uverbs_create_ah_resp), handlers::create_ah},
    {IB_USER_VERBS_CMD_DESTROY_AH, false, "DESTROY_AH", sizeof(ib_uverbs_destroy_ah), 0,
     handlers::destroy_ah},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, false, "ATTACH_MCAST", sizeof(ib_uverbs_attach_mcast), 0,
     handlers::attach_mcast},
    {IB_USER_VERBS_CMD_DETACH_MCAST, false, "DETACH_MCAST", sizeof(ib_uverbs_detach_mcast), 0,
     handlers::detach_mcast},
    {IB_USER_VERBS_EX_CMD_QUERY_DEVICE, true, "EX_QUERY_DEVICE", sizeof(ib_uverbs_ex_query_device),
     offsetof(ib_uverbs_ex_query_device_resp, odp_caps), handlers::ex_query_device},
    {IB_USER_VERBS_EX_CMD_CREATE_CQ, true, "EX_CREATE_CQ", sizeof(ib_uverbs_ex_create_cq),
     sizeof(ib_uverbs_ex_create_cq_resp), handlers::ex_create_cq},
    {IB_USER_VERBS_EX_CMD_MODIFY_CQ, true, "EX_MODIFY_CQ", sizeof(ib_uverbs_ex_modify_cq), 0,
     handlers::ex_modify_cq},
    {IB_USER_VERBS_EX_CMD_CREATE_QP, true, "EX_CREATE_QP",
     offsetof(ib_uverbs_ex_create_qp, rwq_ind_tbl_handle), sizeof(ib_uverbs_ex_create_qp_resp),
     handlers::ex_create_qp},
    {IB_USER_VERBS_EX_CMD_MODIFY_QP, true, "EX_MODIFY_QP", sizeof(ib_uverbs_modify_qp),
     sizeof(ib_uverbs_ex_modify_qp_resp), handlers::ex_modify_qp},
    {IB_USER_VERBS_EX_CMD_CREATE_FLOW, true, "EX_CREATE_FLOW", sizeof(ib_uverbs_create_flow),
     sizeof(ib_uverbs_create_flow_resp), handlers::ex_create_flow},
    {IB_USER_VERBS_EX_CMD_DESTROY_FLOW, true, "EX_DESTROY_FLOW", sizeof(ib_uverbs_destroy_flow), 0,
     handlers::ex_destroy_flow},
    {IB_USER_VERBS_EX_CMD_CREATE_WQ, true, "EX_CREATE_WQ", sizeof(ib_uverbs_ex_create_wq),
     sizeof(ib_uverbs_ex_create_wq_resp), handlers::ex_create_wq},
    {IB_USER_VERBS_EX_CMD_MODIFY_WQ, true, "EX_MODIFY_WQ", sizeof(ib_uverbs_ex_modify_wq), 0,
     handlers::ex_modify_wq},
    {IB_USER_VERBS_EX_CMD_DESTROY_WQ, true, "EX_DESTROY_WQ", sizeof(ib_uverbs_ex_destroy_wq),
     sizeof(ib_uverbs_ex_destroy_wq_resp), handlers::ex_destroy_wq},
    {IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, true, "EX_CREATE_RWQ_IND_TBL",
     sizeof(ib_uverbs_ex_create_rwq_ind_table), sizeof(ib_uverbs_ex_create_rwq_ind_table_resp),
     handlers::ex_create_rwq_ind_tbl},
    {IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, true, "EX_DESTROY_RWQ_IND_TBL",
     sizeof(ib_uverbs_ex_destroy_rwq_ind_table), 0, handlers::ex_destroy_rwq_ind_tbl},
};

/// Commands of the ABI that the model does not offer, by name and reason.
struct Refusal {
    std::uint32_t number;
    const char* name;
    const char* reason;
};

constexpr Refusal refusals[] = {
    {IB_USER_VERBS_CMD_ALLOC_MW, "ALLOC_MW", "memory windows are for RDMA"},
    {IB_USER_VERBS_CMD_DEALLOC_MW, "DEALLOC_MW", "memory windows are for RDMA"},
    {IB_USER_VERBS_CMD_BIND_MW, "BIND_MW", "memory windows are for RDMA"},
    {IB_USER_VERBS_CMD_OPEN_XRCD, "OPEN_XRCD", "XRC is a reliable transport"},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, "CLOSE_XRCD", "XRC is a reliable transport"},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, "CREATE_XSRQ", "XRC and tag matching are reliable transports"},
    {IB_USER_VERBS_CMD_OPEN_QP, "OPEN_QP", "only XRC QPs are shared"},
    {IB_USER_VERBS_CMD_POLL_CQ, "POLL_CQ", "programs poll the ring itself"},
    {IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, "REQ_NOTIFY_CQ", "programs ring the doorbell record"},
    {IB_USER_VERBS_CMD_POST_SEND, "POST_SEND", "programs write the ring itself"},
    {IB_USER_VERBS_CMD_POST_RECV, "POST_RECV", "programs write the ring itself"},
    {IB_USER_VERBS_CMD_POST_SRQ_RECV, "POST_SRQ_RECV", "programs write the ring itself"},
    {IB_USER_VERBS_CMD_REG_SMR, "REG_SMR", "no kernel has it"},
    {IB_USER_VERBS_CMD_QUERY_MR, "QUERY_MR", "no kernel has it"},
    {IB_USER_VERBS_CMD_PEEK_CQ, "PEEK_CQ", "no kernel has it"},
    {IB_USER_VERBS_CMD_MODIFY_AH, "MODIFY_AH", "no kernel has it"},
    {IB_USER_VERBS_CMD_QUERY_AH, "QUERY_AH", "no kernel has it"},
};

/// Says why there is no such command.
int refuse_command(std::uint32_t word) noexcept {
    const std::uint32_t number = word & IB_USER_VERBS_CMD_COMMAND_MASK;
    const bool extended = (word & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
    const auto* at = std::find_if(std::begin(refusals), std::end(refusals), [&](const Refusal& refusal) {
        return refusal.number == number && !extended;
    });
    if (at != std::end(refusals))
        return refuse(Rule::bad_command, EOPNOTSUPP, "%s is not offered: %s", at->name, at->reason);
    return refuse(Rule::bad_command, EOPNOTSUPP, "command %u%s is not offered", number,
                  extended ? " (extended)" : "");
}

const Command* find_command(std::uint32_t word) noexcept {
    const bool extended = (word & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
    const std::uint32_t number = word & ~IB_USER_VERBS_CMD_FLAG_EXTENDED;
    const auto* at = std::find_if(std::begin(commands), std::end(commands), [&](const Command& command) {
        return command.number == number && command.extended == extended;
    });
    return at == std::end(commands) ? nullptr : at;
}

/// Legacy layout: header in 4-byte words, core part (starting with the address of the answer if there is
/// one), driver part. The answer's driver part follows its core part.
int split_legacy(const Command& command, const ib_uverbs_cmd_hdr& header, std::span<const std::byte> request,
                 Call& call) {
    const std::span<const std::byte> body = request.subspan(sizeof header);
    const std::size_t out_bytes = std::size_t{header.out_words} * 4;
    if (std::size_t{header.in_words} * 4 != request.size() || body.size() < command.core_in_bytes)
        return refuse(Rule::bad_command, EINVAL,
                      "%s: %zu bytes written, header says %u words, core part %zu bytes", command.name,
                      request.size(), header.in_words, command.core_in_bytes);
    if (out_bytes < command.core_out_bytes)
        return refuse(Rule::bad_command, ENOSPC, "%s: room for an answer of %zu bytes, needs %zu",
                      command.name, out_bytes, command.core_out_bytes);
    call.core_in = body.first(command.core_in_bytes);
    call.driver_in = body.subspan(command.core_in_bytes);
    if (command.core_out_bytes == 0) return 0;
    std::memcpy(&call.core_out, body.data(), sizeof call.core_out);
    call.core_out_bytes = static_cast<std::uint32_t>(command.core_out_bytes);
    call.driver_out = call.core_out + command.core_out_bytes;
    call.driver_out_bytes = static_cast<std::uint32_t>(out_bytes - command.core_out_bytes);
    return 0;
}

/// Extended layout: both headers, core and driver parts each with a length in 8-byte words; so the answer.
int split_extended(const Command& command, const ib_uverbs_cmd_hdr& header,
                   std::span<const std::byte> request, Call& call) {
    ib_uverbs_ex_cmd_hdr extended;
    if (request.size() < sizeof header + sizeof extended)
        return refuse(Rule::bad_command, EINVAL, "%s: %zu bytes hold no extended header", command.name,
                      request.size());
    std::memcpy(&extended, request.data() + sizeof header, sizeof extended);
    const std::span<const std::byte> body = request.subspan(sizeof header + sizeof extended);
    const std::size_t core_bytes = std::size_t{header.in_words} * 8;
    const std::size_t core_out_bytes = std::size_t{header.out_words} * 8;
    if (core_bytes + std::size_t{extended.provider_in_words} * 8 != body.size() ||
        core_bytes < command.core_in_bytes || extended.cmd_hdr_reserved != 0)
        return refuse(Rule::bad_command, EINVAL,
                      "%s: %zu bytes in, header says %zu + %u, core part at least %zu", command.name,
                      body.size(), core_bytes, extended.provider_in_words * 8U, command.core_in_bytes);
    if (core_out_bytes < command.core_out_bytes || (core_out_bytes != 0 && extended.response == 0))
        return refuse(Rule::bad_command, ENOSPC, "%s: room for an answer of %zu bytes, needs %zu",
                      command.name, core_out_bytes, command.core_out_bytes);
    call.core_in = body.first(core_bytes);
    call.driver_in = body.subspan(core_bytes);
    call.core_out = extended.response;
    call.core_out_bytes = static_cast<std::uint32_t>(core_out_bytes);
    call.driver_out = extended.response + core_out_bytes;
    call.driver_out_bytes = extended.provider_out_words * 8U;
    return 0;
}

} // namespace

int Call::check_rest(std::span<const std::byte> part, std::size_t known_bytes) const noexcept {
    if (part.size() <= known_bytes) return 0;
    const auto rest = part.subspan(known_bytes);
    if (std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; })) return 0;
    return refuse(Rule::bad_command, EOPNOTSUPP, "%s: unknown fields beyond byte %zu are set", name,
                  known_bytes);
}

int execute_command(Hca& hca, Context& context, DescriptorTable& descriptors,
                    std::span<const std::byte> request) {
    ib_uverbs_cmd_hdr header;
    if (request.size() < sizeof header)
        return refuse(Rule::bad_command, EINVAL, "%zu bytes are no command", request.size());
    std::memcpy(&header, request.data(), sizeof header);
    const Command* command = find_command(header.command);
    if (command == nullptr) return refuse_command(header.command);
    Call call{.name = command->name, .hca = hca, .context = context, .descriptors = descriptors};
    const int error = command->extended ? split_extended(*command, header, request, call)
                                        : split_legacy(*command, header, request, call);
    if (error != 0) return error;
    std::scoped_lock lock{hca.commands};
    if (!context.opened && command->handler != handlers::get_context)
        return refuse(Rule::bad_command, EINVAL, "%s before GET_CONTEXT", command->name);
    if (const int fault = refused_by_fault(*context.device, command->name)) return fault;
    return command->handler(call);
}

} // namespace swhca
