// SPDX-License-Identifier: BSD-3-Clause
#include "ipoib.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <bit>

namespace stride::pmd {
namespace {

/// A SOURCE_QPN QP has no P_Key of its own: it is that of the owner.
constexpr std::uint16_t pkey_index = 0;
/// Groups bear the full member's P_Key (RFC 4391, section 4).
constexpr std::uint16_t full_member = 0x8000;

struct Spread {
    ibv::L3 l3;
    ibv::L4 l4;
    std::uint16_t priority; ///< the more a rule names, the earlier it is tried
};
constexpr Spread spreads[] = {
    {ibv::L3::ipv4, ibv::L4::tcp, 0}, {ibv::L3::ipv4, ibv::L4::udp, 0}, {ibv::L3::ipv6, ibv::L4::tcp, 0},
    {ibv::L3::ipv6, ibv::L4::udp, 0}, {ibv::L3::ipv4, ibv::L4::any, 1}, {ibv::L3::ipv6, ibv::L4::any, 1},
};
constexpr std::uint16_t rest_priority = 2;

} // namespace

Result<std::unique_ptr<IpoibInterface>> IpoibInterface::open(const std::shared_ptr<ibv::Device>& device) {
    auto address = ibv::port_address(*device, pkey_index, 0);
    if (!address) return address.take_error();
    if (address->lid == 0)
        return Error{EAGAIN, strprintf("%s port %u has no LID; is there a subnet manager?",
                                       device->name().c_str(), device->port())};
    auto cq = ibv::Cq::create(device, {.cqes = 2});
    if (!cq) return cq.take_error();
    mbufqp::IpoibConfig config;
    auto owner = ibv::UdQp::create(device, cq.value(),
                                   {.receive_wqes = 1, .pkey_index = pkey_index, .qkey = config.qkey});
    if (!owner) return owner.take_error();
    std::unique_ptr<IpoibInterface> made{
        new IpoibInterface{device, std::move(cq).value(), std::move(owner).value()}};
    config.own = {made->owner_.qpn(), address->lid};
    config.gid = address->gid;
    config.pkey = address->pkey | full_member;
    made->config_ = config;
    const std::uint32_t largest = address->active_mtu_bytes - mbufqp::ipoib_header_bytes;
    made->max_mtu_ = static_cast<std::uint16_t>(largest);
    if (auto status = made->owner_.make_init(); !status) return status.take_error();
    if (auto status = made->owner_.start(); !status) return status.take_error();
    return made;
}

Status IpoibInterface::set_mtu(std::uint16_t mtu) {
    config_.mtu_bytes = mtu;
    if (auto status = mbufqp::IpoibPort::check(config_); !status) return status;
    port_.emplace(config_);
    return {};
}

Status IpoibInterface::add_rules(std::span<ibv_qp* const> queues) {
    const auto add = [this](ibv_qp* queue, const ibv::DatagramMatch& match,
                            std::uint16_t priority) -> Status {
        auto rule = ibv::Flow::create(device_, queue, match, priority);
        if (!rule) return rule.take_error();
        rules_.push_back(std::move(rule).value());
        return {};
    };
    const auto count = static_cast<std::uint32_t>(queues.size());
    const std::uint32_t values = std::bit_ceil(count);
    // The sum spreads as long as either end of the flows varies.
    for (std::uint32_t share = 0; share < values * values; ++share) {
        const std::uint32_t source = share % values, destination = share / values;
        const std::uint32_t index = (source + destination) % count;
        if (index == 0) continue; // the rest is the first queue's
        for (const Spread& spread : spreads) {
            const ibv::DatagramMatch match{.l3 = spread.l3,
                                           .l4 = spread.l4,
                                           .source_bits = static_cast<std::uint8_t>(source),
                                           .destination_bits = static_cast<std::uint8_t>(destination),
                                           .mask = static_cast<std::uint8_t>(values - 1)};
            if (auto status = add(queues[index], match, spread.priority); !status) return status;
        }
    }
    return add(queues[0], {}, rest_priority);
}

Status IpoibInterface::start(std::span<ibv_qp* const> queues) {
    if (queues.empty()) return {};
    if (auto status = add_rules(queues); !status) return status;
    return owner_.attach(mbufqp::broadcast_gid(config_), config_.broadcast_lid);
}

void IpoibInterface::stop() noexcept {
    if (rules_.empty()) return;
    if (auto status = owner_.detach(mbufqp::broadcast_gid(config_), config_.broadcast_lid); !status)
        log_line(LogLevel::error, "%s: %s", device_->name().c_str(), status.error().what.c_str());
    rules_.clear();
}

} // namespace stride::pmd
