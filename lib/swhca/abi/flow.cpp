// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/flow.hpp"

#include "swhca/abi/flow_spec.hpp"
#include "swhca/abi/handlers.hpp"

#include <cerrno>
#include <rdma/ib_user_verbs.h>

namespace swhca::handlers {
namespace {

// enum ib_flow_attr_type
constexpr FlowKind kinds[] = {FlowKind::normal, FlowKind::all_default, FlowKind::multicast_default,
                              FlowKind::sniffer};

int check_attr(const Call& call, const ib_uverbs_create_flow& req, std::size_t specs_bytes) {
    const ib_uverbs_flow_attr& attr = req.flow_attr;
    if (req.comp_mask != 0 || attr.reserved[0] != 0 || attr.reserved[1] != 0 || attr.size != specs_bytes)
        return refuse(Rule::bad_command, EINVAL, "%s: comp_mask 0x%x, specifications of %u bytes in %zu",
                      call.name, req.comp_mask, attr.size, specs_bytes);
    if (attr.type >= std::size(kinds) || attr.flags != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "%s: type %u, flags 0x%x", call.name, attr.type,
                      attr.flags);
    if (kinds[attr.type] != FlowKind::normal && attr.num_of_specs != 0)
        return refuse(Rule::bad_argument, EINVAL, "%s: type %u with %u specifications", call.name, attr.type,
                      attr.num_of_specs);
    return 0;
}

} // namespace

int ex_create_flow(const Call& call) {
    // The structure ends in a flexible array, which sizeof does not count.
    constexpr std::size_t fixed_bytes = sizeof(ib_uverbs_create_flow);
    const auto req = call.core<ib_uverbs_create_flow>();
    const std::span<const std::byte> specs = call.core_in.subspan(fixed_bytes);
    if (const int error = check_attr(call, req, specs.size())) return error;
    FlowRequest request{.qp_handle = req.qp_handle,
                        .kind = kinds[req.flow_attr.type],
                        .priority = req.flow_attr.priority,
                        .port = req.flow_attr.port};
    if (const int error = parse_flow_specs(specs, req.flow_attr.num_of_specs, request.match)) return error;
    Flow* flow = nullptr;
    if (const int error = swhca::create_flow(call.context, request, flow)) return error;
    const int error = call.answer_core(ib_uverbs_create_flow_resp{0, flow->handle});
    if (error != 0) swhca::destroy_flow(call.context, flow->handle);
    return error;
}

int ex_destroy_flow(const Call& call) {
    const auto req = call.core<ib_uverbs_destroy_flow>();
    if (req.comp_mask != 0)
        return refuse(Rule::bad_command, EINVAL, "%s: comp_mask 0x%x", call.name, req.comp_mask);
    return swhca::destroy_flow(call.context, req.flow_handle);
}

} // namespace swhca::handlers
