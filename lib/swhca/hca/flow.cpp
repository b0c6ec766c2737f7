// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/flow.hpp"

#include "swhca/hca/lookup.hpp"
#include "swhca/hca/refuse.hpp"

#include <algorithm>
#include <tuple>

namespace swhca {
namespace {

/// Default rules come after all normal ones, the multicast one first.
int rank(FlowKind kind) noexcept {
    switch (kind) {
    case FlowKind::multicast_default:
        return 1;
    case FlowKind::all_default:
        return 2;
    default:
        return 0;
    }
}

bool tried_before(const Flow* a, const Flow* b) noexcept {
    return std::tuple(rank(a->kind), a->priority, a->order) <
           std::tuple(rank(b->kind), b->priority, b->order);
}

std::vector<Flow*>& list_of(const Flow& flow) noexcept {
    return flow.kind == FlowKind::sniffer ? flow.port->sniffers : flow.port->flows;
}

int check_flow(const Context& context, const FlowRequest& request) {
    const Qp* qp = find_object(context.qps, request.qp_handle);
    if (qp == nullptr) return refuse(Rule::bad_handle, EINVAL, "CREATE_FLOW: qp %u", request.qp_handle);
    // A plain UD QP is found by its number; rules are for SOURCE_QPN QPs, which have none on the wire.
    const bool named = qp->type == QpType::ud && qp->source_qpn == 0;
    if (named || (qp->rqt == nullptr && qp->rq == nullptr))
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: qp 0x%x receives no packets", qp->qpn.value);
    if (request.port != qp->port->number)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_FLOW: port %u of 1", request.port);
    if (request.priority >= flow_priorities)
        return refuse(Rule::bad_argument, ENOSPC, "CREATE_FLOW: priority %u, device max %u", request.priority,
                      flow_priorities - 1);
    return 0;
}

} // namespace

int create_flow(Context& context, const FlowRequest& request, Flow*& flow) {
    if (const int error = check_flow(context, request)) return error;
    Qp* qp = find_object(context.qps, request.qp_handle);
    auto made = std::make_unique<Flow>();
    made->kind = request.kind;
    made->priority = request.priority;
    made->order = context.device->next_flow_order++;
    made->match = request.match;
    made->qp = qp;
    made->port = qp->port;
    flow = file_object(context, context.flows, std::move(made));
    ++qp->flows;
    Engine::Quiesced quiet{*context.device->engine};
    std::vector<Flow*>& list = list_of(*flow);
    list.insert(std::upper_bound(list.begin(), list.end(), flow, tried_before), flow);
    ++qp->port->flow_changes;
    return 0;
}

int destroy_flow(Context& context, std::uint32_t handle) {
    Flow* flow = find_object(context.flows, handle);
    if (flow == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_FLOW: flow %u", handle);
    {
        Engine::Quiesced quiet{*context.device->engine};
        std::vector<Flow*>& list = list_of(*flow);
        list.erase(std::find(list.begin(), list.end(), flow));
        ++flow->port->flow_changes;
    }
    --flow->qp->flows;
    context.flows.erase(handle);
    return 0;
}

} // namespace swhca
