// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/datagram.hpp"

#include "swhca/hca/gid.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/refuse.hpp"

#include <algorithm>

namespace swhca {
namespace {

constexpr std::uint16_t first_multicast_lid = 0xc000;

int check_group(const Port& port, const Qp* qp, std::uint32_t qp_handle, const MulticastGroup& group) {
    if (qp == nullptr) return refuse(Rule::bad_handle, EINVAL, "ATTACH_MCAST: qp %u", qp_handle);
    if (qp->type != QpType::ud)
        return refuse(Rule::bad_argument, EINVAL, "ATTACH_MCAST: qp 0x%x is no UD QP", qp->qpn.value);
    if (group.gid[0] != 0xff)
        return refuse(Rule::bad_argument, EINVAL, "ATTACH_MCAST: the GID is not a group's");
    if (port.link_layer == LinkLayer::infiniband && (group.lid < first_multicast_lid || group.lid == 0xffff))
        return refuse(Rule::bad_argument, EINVAL, "ATTACH_MCAST: LID 0x%x is not a group's", group.lid);
    return 0;
}

} // namespace

int create_ah(Context& context, const AhRequest& request, Ah*& ah, std::array<std::uint8_t, 6>& mac) {
    Device& device = *context.device;
    const Port& port = device.port;
    Pd* pd = find_object(context.pds, request.pd_handle);
    if (pd == nullptr) return refuse(Rule::bad_handle, EINVAL, "CREATE_AH: pd %u", request.pd_handle);
    if (request.port != port.number)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_AH: port %u of 1", request.port);
    if (port.link_layer == LinkLayer::ethernet && !request.global)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_AH: Ethernet needs a GRH");
    if (request.global &&
        (request.sgid_index >= port.gids.size() || port.gids[request.sgid_index].gid == Gid{}))
        return refuse(Rule::bad_argument, EINVAL, "CREATE_AH: sgid_index %u of %zu is not there or empty",
                      request.sgid_index, port.gids.size());
    if (port.link_layer == LinkLayer::ethernet && !gid::to_mac(request.dgid, mac))
        return refuse(Rule::bad_argument, EHOSTUNREACH,
                      "CREATE_AH: a GID that is neither link-local nor a group's leads to no MAC");
    if (device.ahs >= device.caps.max_ah) return ENOMEM;
    auto made = std::make_unique<Ah>();
    made->pd = pd->pdn;
    ah = file_object(context, context.ahs, std::move(made));
    ++pd->users;
    ++device.ahs;
    return 0;
}

int destroy_ah(Context& context, std::uint32_t handle) {
    const Ah* ah = find_object(context.ahs, handle);
    if (ah == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_AH: ah %u", handle);
    --domain_of(context, ah->pd).users;
    context.ahs.erase(handle);
    --context.device->ahs;
    return 0;
}

int attach_group(Context& context, std::uint32_t qp_handle, const MulticastGroup& group) {
    Qp* qp = find_object(context.qps, qp_handle);
    const Device& device = *context.device;
    if (const int error = check_group(device.port, qp, qp_handle, group)) return error;
    if (std::find(qp->groups.begin(), qp->groups.end(), group) != qp->groups.end()) return 0;
    if (qp->groups.size() >= device.caps.max_groups) return ENOMEM;
    Engine::Quiesced quiet{*device.engine};
    qp->groups.push_back(group);
    return 0;
}

int detach_group(Context& context, std::uint32_t qp_handle, const MulticastGroup& group) {
    Qp* qp = find_object(context.qps, qp_handle);
    const Device& device = *context.device;
    if (const int error = check_group(device.port, qp, qp_handle, group)) return error;
    const auto at = std::find(qp->groups.begin(), qp->groups.end(), group);
    if (at == qp->groups.end())
        return refuse(Rule::bad_argument, EINVAL, "DETACH_MCAST: qp 0x%x is not attached", qp->qpn.value);
    Engine::Quiesced quiet{*device.engine};
    qp->groups.erase(at);
    return 0;
}

} // namespace swhca
