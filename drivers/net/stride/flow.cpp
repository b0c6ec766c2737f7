// SPDX-License-Identifier: BSD-3-Clause
// rte_flow over verbs rules. A rule lives until it is destroyed or the port stops (ethdev's
// FLOW_RULE_KEEP is not announced); what it does not take falls to the port's own filters.
#include "flow.hpp"

#include "mprq/metadata.hpp"
#include "ops.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace stride::pmd {
namespace {

/// What a rule does with its frames.
struct FlowActions {
    bool drop{};
    std::vector<std::uint16_t> queues{}; ///< empty: no fate was named, unless `drop`
    std::uint64_t hash_types{};          ///< RTE_ETH_RSS_*
    ibv::RssKey key{};
    std::uint32_t tag{}; ///< 0: none

    bool has_fate() const noexcept { return drop || !queues.empty(); }
};

struct FlowRequest {
    FlowPattern pattern{};
    FlowActions actions{};
    std::uint16_t priority{}; ///< of verbs, the first of the rule's
};

/// The message lives until the thread's next one.
int refuse(const rte_flow_action& action, const char* why, rte_flow_error* error) noexcept {
    static thread_local char text[96];
    const char* name = nullptr;
    const void* const type = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(action.type));
    if (rte_flow_conv(RTE_FLOW_CONV_OP_ACTION_NAME_PTR, &name, sizeof name, type, nullptr) <= 0)
        name = "action";
    std::snprintf(text, sizeof text, "%s: %s", name, why);
    return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action, text);
}

int refuse(rte_flow_error_type type, const char* why, rte_flow_error* error) noexcept {
    return rte_flow_error_set(error, ENOTSUP, type, nullptr, why);
}

int read_attr(const rte_flow_attr& attr, FlowRequest& request, rte_flow_error* error) noexcept {
    if (attr.ingress == 0 || attr.egress != 0 || attr.transfer != 0)
        return refuse(RTE_FLOW_ERROR_TYPE_ATTR_INGRESS, "rules are for ingress", error);
    if (attr.group != 0) return refuse(RTE_FLOW_ERROR_TYPE_ATTR_GROUP, "there is group 0 only", error);
    if (attr.priority >= flow_priorities)
        return refuse(RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, "priorities are 0 to 3", error);
    request.priority = static_cast<std::uint16_t>(attr.priority * kind_priorities);
    return 0;
}

int read_queue(const Port& port, const rte_flow_action& action, FlowActions& out,
               rte_flow_error* error) noexcept {
    const std::uint16_t queue = static_cast<const rte_flow_action_queue*>(action.conf)->index;
    if (queue >= port.rxqs.size()) return refuse(action, "there is no such receive queue", error);
    out.queues = {queue};
    return 0;
}

int read_rss(const Port& port, const rte_flow_action& action, FlowActions& out,
             rte_flow_error* error) noexcept {
    const auto& conf = *static_cast<const rte_flow_action_rss*>(action.conf);
    const std::uint64_t known = hash_types_of(port.device->caps());
    if (conf.func != RTE_ETH_HASH_FUNCTION_DEFAULT && conf.func != RTE_ETH_HASH_FUNCTION_TOEPLITZ)
        return refuse(action, "the hash function is Toeplitz", error);
    if (conf.level > 1) return refuse(action, "inner headers are not hashed", error);
    if ((conf.types & ~known) != 0) return refuse(action, "hash types that the device has not", error);
    if (conf.key_len != 0 && (conf.key_len != ibv::rss_key_bytes || conf.key == nullptr))
        return refuse(action, "the key has 40 bytes", error);
    if (conf.queue_num == 0 || conf.queue_num > port.device->caps().max_rqt_entries)
        return refuse(action, "no queues, or more than an RQT holds", error);
    for (std::uint32_t i = 0; i < conf.queue_num; ++i)
        if (conf.queue[i] >= port.rxqs.size()) return refuse(action, "there is no such receive queue", error);
    out.queues.assign(conf.queue, conf.queue + conf.queue_num);
    out.hash_types = conf.types != 0 ? conf.types : known & (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6);
    out.key = port.rss.key;
    if (conf.key_len != 0) std::memcpy(out.key.data(), conf.key, out.key.size());
    return 0;
}

int read_tag(const Port& port, const rte_flow_action& action, FlowActions& out,
             rte_flow_error* error) noexcept {
    if (!port.flow.marks) return refuse(action, "rte_eth_rx_metadata_negotiate was not asked for it", error);
    if (out.tag != 0) return refuse(action, "a rule has one mark or flag", error);
    if (action.type == RTE_FLOW_ACTION_TYPE_FLAG) return out.tag = mprq::MarkTag::flag, 0;
    const std::uint32_t mark = static_cast<const rte_flow_action_mark*>(action.conf)->id;
    if (mark > mprq::MarkTag::max_mark) return refuse(action, "marks are 0 to 0xfffffd", error);
    out.tag = mprq::MarkTag::of(mark);
    return 0;
}

int read_action(const Port& port, const rte_flow_action& action, FlowActions& out,
                rte_flow_error* error) noexcept {
    const bool is_tag = action.type == RTE_FLOW_ACTION_TYPE_MARK || action.type == RTE_FLOW_ACTION_TYPE_FLAG;
    if (is_tag) return read_tag(port, action, out, error);
    const bool is_fate = action.type == RTE_FLOW_ACTION_TYPE_DROP ||
                         action.type == RTE_FLOW_ACTION_TYPE_QUEUE || action.type == RTE_FLOW_ACTION_TYPE_RSS;
    if (is_fate && out.has_fate()) return refuse(action, "a rule has one fate", error);
    if (action.type == RTE_FLOW_ACTION_TYPE_DROP) return out.drop = true, 0;
    if (action.type == RTE_FLOW_ACTION_TYPE_QUEUE) return read_queue(port, action, out, error);
    if (action.type == RTE_FLOW_ACTION_TYPE_RSS) return read_rss(port, action, out, error);
    return refuse(action, "this action is not supported", error);
}

int read_actions(const Port& port, const rte_flow_action* actions, FlowActions& out,
                 rte_flow_error* error) noexcept {
    for (const rte_flow_action* action = actions; action->type != RTE_FLOW_ACTION_TYPE_END; ++action) {
        if (action->type == RTE_FLOW_ACTION_TYPE_VOID) continue;
        if (const int failed = read_action(port, *action, out, error)) return failed;
    }
    if (!out.has_fate())
        return refuse(RTE_FLOW_ERROR_TYPE_ACTION, "no fate: QUEUE, RSS or DROP is needed", error);
    if (out.drop && out.tag != 0)
        return refuse(RTE_FLOW_ERROR_TYPE_ACTION, "a dropped frame has no mark", error);
    return 0;
}

/// The rule as rte_flow gives it, checked. 0, or a negative errno.
struct FlowArguments {
    const rte_flow_attr* attr;
    const rte_flow_item* pattern;
    const rte_flow_action* actions;
};
int read_request(const Port& port, const FlowArguments& given, FlowRequest& request,
                 rte_flow_error* error) noexcept {
    if (port.ipoib || is_encapsulated(port.args.encap))
        return refuse(RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "no rules for frames that travel in an encap", error);
    if (!port.steering)
        return refuse(RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "the port is stopped, or has no receive queue", error);
    if (const int failed = read_attr(*given.attr, request, error)) return failed;
    if (const int failed = parse_pattern(given.pattern, request.pattern, error)) return failed;
    return read_actions(port, given.actions, request.actions, error);
}

/// Queues in turn over a power of two of entries.
std::vector<ibv_wq*> table_of(const Port& port, const std::vector<std::uint16_t>& queues) {
    const std::size_t entries =
        std::min<std::size_t>(std::bit_ceil(queues.size()), port.device->caps().max_rqt_entries);
    std::vector<ibv_wq*> table;
    for (std::size_t i = 0; i < entries; ++i)
        table.push_back(port.rxqs[queues[i % queues.size()]]->running->rq.wq());
    return table;
}

/// The layers of a kind and those of the pattern can be one frame's, and the rule is needed: of what the
/// pattern leaves open.
bool fits(const TrafficKind& kind, const FlowPattern& pattern) noexcept {
    const bool l3 = kind.l3 == ibv::L3::any || pattern.l3 == ibv::L3::any || kind.l3 == pattern.l3;
    const bool l4 = kind.l4 == ibv::L4::any || pattern.l4 == ibv::L4::any || kind.l4 == pattern.l4;
    return l3 && l4;
}

ibv::FlowRule rule_of(const FlowRequest& request, const TrafficKind& kind) noexcept {
    const FlowPattern& pattern = request.pattern;
    ibv::FlowRule rule = pattern.rule(pattern.l3 != ibv::L3::any ? pattern.l3 : kind.l3,
                                      pattern.l4 != ibv::L4::any ? pattern.l4 : kind.l4);
    if (request.actions.tag != 0) {
        ibv_flow_spec_action_tag tag{};
        tag.tag_id = request.actions.tag;
        rule.append(tag, IBV_FLOW_SPEC_ACTION_TAG);
    }
    if (request.actions.drop) rule.append(ibv_flow_spec_action_drop{}, IBV_FLOW_SPEC_ACTION_DROP);
    return rule;
}

/// A rule that drops leads to a TIR too; verbs have none without.
Result<std::unique_ptr<rte_flow>> make(const Port& port, const FlowRequest& request) {
    const FlowActions& actions = request.actions;
    auto rqt = ibv::Rqt::create(
        port.device, table_of(port, actions.drop ? std::vector<std::uint16_t>{0} : actions.queues));
    if (!rqt) return rqt.take_error();
    auto flow = std::make_unique<rte_flow>(rte_flow{std::move(rqt).value()});
    for (const TrafficKind& kind : traffic_kinds()) {
        if (!fits(kind, request.pattern) || !is_wanted(kind, actions.hash_types)) continue;
        auto tir = ibv::Tir::create(port.device, flow->rqt, {.hash_fields = kind.fields, .key = actions.key});
        if (!tir) return tir.take_error();
        flow->tirs.push_back(std::move(tir).value());
        const auto priority = static_cast<std::uint16_t>(request.priority + kind.priority);
        auto rule = ibv::Flow::create(port.device, flow->tirs.back(), rule_of(request, kind), priority);
        if (!rule) return rule.take_error();
        flow->rules.push_back(std::move(rule).value());
    }
    return Result<std::unique_ptr<rte_flow>>{std::move(flow)};
}

int validate(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
             const rte_flow_action* actions, rte_flow_error* error) noexcept {
    FlowRequest request;
    return read_request(port_of(dev), {attr, pattern, actions}, request, error);
}

rte_flow* create(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error) noexcept {
    Port& port = port_of(dev);
    FlowRequest request;
    if (read_request(port, {attr, pattern, actions}, request, error) != 0) return nullptr;
    auto flow = make(port, request);
    if (flow) return port.flow.rules.emplace_back(std::move(flow).value()).get();
    to_errno(port, "create flow rule", flow.error());
    rte_flow_error_set(error, flow.error().code, RTE_FLOW_ERROR_TYPE_HANDLE, nullptr,
                       "the device refuses the rule");
    return nullptr;
}

/// Only what lives is looked at: a handle of before a stop is none.
int destroy(rte_eth_dev* dev, rte_flow* flow, rte_flow_error* error) noexcept {
    const std::size_t gone =
        std::erase_if(port_of(dev).flow.rules, [flow](const auto& known) { return known.get() == flow; });
    if (gone != 0) return 0;
    return rte_flow_error_set(error, ENOENT, RTE_FLOW_ERROR_TYPE_HANDLE, nullptr,
                              "no such rule; rules end when the port stops");
}

int flush(rte_eth_dev* dev, rte_flow_error*) noexcept {
    port_of(dev).flow.rules.clear();
    return 0;
}

int query(rte_eth_dev*, rte_flow*, const rte_flow_action* action, void*, rte_flow_error* error) noexcept {
    return refuse(*action, "nothing is counted by rule", error);
}

int isolate(rte_eth_dev* dev, int on, rte_flow_error* error) noexcept {
    Port& port = port_of(dev);
    const bool before = std::exchange(port.flow.isolated, on != 0);
    if (!port.steering) return 0;
    const Status status = port.steering->set_filters(wanted_filters(port));
    if (status) return 0;
    port.flow.isolated = before;
    return rte_flow_error_set(error, status.error().code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                              "the port's own filters did not change");
}

/// By assignment: members move between releases.
rte_flow_ops make_flow_ops() noexcept {
    rte_flow_ops ops{};
    ops.validate = validate;
    ops.create = create;
    ops.destroy = destroy;
    ops.flush = flush;
    ops.query = query;
    ops.isolate = isolate;
    return ops;
}

} // namespace

int flow_ops_get(rte_eth_dev*, const rte_flow_ops** ops) noexcept {
    static const rte_flow_ops all = make_flow_ops();
    *ops = &all;
    return 0;
}

int rx_metadata_negotiate(rte_eth_dev* dev, std::uint64_t* features) noexcept {
    *features &= RTE_ETH_RX_METADATA_USER_FLAG | RTE_ETH_RX_METADATA_USER_MARK;
    port_of(dev).flow.marks = *features != 0;
    return 0;
}

} // namespace stride::pmd
