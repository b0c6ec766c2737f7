// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/qp.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

namespace stride::mbufqp {
namespace {

/// A queue nearly full has less room than this part of it; it counts as full until half is free.
constexpr std::uint32_t high_water_divisor = 16;

TxFeatures features_of(const mbufqp_config& config, const ibv::Caps& caps) noexcept {
    TxFeatures features;
    if ((config.offloads & MBUFQP_MULTI_SEGMENT) != 0) features |= TxFeature::multi_segment;
    if ((config.offloads & MBUFQP_CHECKSUM) != 0) features |= TxFeature::checksum;
    if ((config.offloads & MBUFQP_VLAN_INSERT) != 0) features |= TxFeature::vlan_insert;
    if ((config.offloads & MBUFQP_FAST_FREE) != 0) features |= TxFeature::fast_free;
    if (config.encap == MBUFQP_ETHERNET && caps.enhanced_mpw) features |= TxFeature::multi_packet;
    return features;
}

std::vector<ibv::FlowMatch> matches_of(const mbufqp_config& config, const Mac& mac) {
    // 16B packets have no MAC in front, and all of the port are for us to look at.
    if (config.promiscuous != 0 || config.encap == MBUFQP_OPA_VNIC) return {ibv::FlowMatch::everything()};
    return {ibv::FlowMatch::unicast(mac), ibv::FlowMatch::all_multicast()};
}

} // namespace

void Qp::stop() noexcept {
    if (std::exchange(stopped_, true)) return;
    thread_.reset();
    steering_.reset();
    for (std::size_t i = 0; set_ && i < tx_.size(); ++i)
        tx_[i]->stop(set_->queue(i));
    for (auto& channel : rx_)
        channel->stop();
}

Qp::~Qp() {
    stop();
    set_.reset();
    if (common_ && !owner_) common_->share.leave();
}

Status Qp::close() {
    if (owner_)
        if (auto status = common_->share.close(); !status) return status;
    stop();
    return {};
}

Status Qp::open_channel(const mbufqp_config& config, struct ::mbufqp* handle) {
    if (config.event == nullptr) return {};
    event_ = config.event;
    event_arg_ = config.event_arg;
    handle_ = handle;
    auto channel = ibv::CompletionChannel::create(common_->device);
    if (!channel) return channel.take_error();
    channel_.emplace(std::move(channel).value());
    return {};
}

Status Qp::start_events() {
    if (!channel_) return {};
    std::vector<EventSource*> sources;
    for (auto& channel : tx_)
        sources.push_back(&channel->events());
    for (auto& channel : rx_)
        sources.push_back(&channel->events());
    const EventSink sink{[](void* self, unsigned event, std::uint16_t queue) noexcept {
                             const Qp& qp = *static_cast<Qp*>(self);
                             qp.event_(qp.event_arg_, qp.handle_, event, queue);
                         },
                         this};
    auto thread = EventThread::start(common_->device, *channel_, std::move(sources), sink, owner_);
    if (!thread) return thread.take_error();
    thread_ = std::move(thread).value();
    return {};
}

Status Qp::open_receive(const mbufqp_config& config) {
    const mbufqp_ipoib ipoib = config.ipoib != nullptr ? *config.ipoib : mbufqp_ipoib{};
    for (std::uint16_t i = 0; i < config.rx_queues; ++i) {
        auto channel = RxChannel::create({.device = common_->device,
                                          .keys = &common_->keys,
                                          .encap = common_->encap,
                                          .pool = config.rx_pool,
                                          .packets = config.rx_packets != 0 ? config.rx_packets : 512U,
                                          .max_wire_bytes = common_->max_wire_bytes(),
                                          .channel = channel_ ? channel_->get() : nullptr,
                                          .index = i,
                                          .qkey = ipoib.qkey != 0 ? ipoib.qkey : IpoibConfig{}.qkey,
                                          .pkey_index = ipoib.pkey_index});
        if (!channel) return channel.take_error();
        rx_.push_back(std::move(channel).value());
    }
    return {};
}

Status Qp::open_send(const mbufqp_config& config) {
    const std::uint32_t packets = config.tx_packets != 0 ? config.tx_packets : 512U;
    const TxFeatures wanted = features_of(config, common_->device->caps());
    if (const TxFeatures excess = wanted.without(encap_features(common_->encap)); excess.any())
        return Error{ENOTSUP,
                     strprintf("send features 0x%x are not for this encap", unsigned{excess.bits()})};
    std::vector<TxQueueConfig> queues;
    for (std::uint16_t i = 0; i < config.tx_queues; ++i) {
        auto channel = TxChannel::create({.device = common_->device,
                                          .keys = &common_->keys,
                                          .encap = common_->encap,
                                          .encap_context = common_->encap_context(),
                                          .features = wanted,
                                          .packets = packets,
                                          .max_frame_bytes = common_->max_frame_bytes(),
                                          .source_qpn = common_->qpn,
                                          .channel = channel_ ? channel_->get() : nullptr,
                                          .index = i});
        if (!channel) return channel.take_error();
        tx_.push_back(std::move(channel).value());
        queues.push_back(tx_.back()->queue_config());
    }
    TxFeatures features = canonical(wanted);
    if (queues[0].min_inline_bytes != 0) features = canonical(features | TxFeature::inline_header);
    auto set = QueueSet::open({.queues = queues,
                               .burst = encap_burst(common_->encap, features),
                               .stop_below = packets / high_water_divisor,
                               .wake_at = packets / 2});
    if (!set) return set.take_error();
    set_.emplace(std::move(set).value());
    return {};
}

Status Qp::start(const mbufqp_config& config) {
    for (auto& channel : tx_)
        if (auto status = channel->start(); !status) return status;
    for (auto& channel : rx_)
        if (auto status = channel->start(common_->encap_context()); !status) return status;
    if (auto status = start_steering(config); !status) return status;
    return start_events();
}

Status Qp::start_steering(const mbufqp_config& config) {
    if (rx_.empty()) return {};
    if (ibv::UdQp* ud = rx_[0]->ud()) {
        const IpoibConfig& ipoib = common_->ipoib->config();
        return ud->attach(broadcast_gid(ipoib), ipoib.broadcast_lid);
    }
    std::vector<ibv_wq*> wqs;
    for (const auto& channel : rx_)
        wqs.push_back(channel->wq());
    auto steering = RxSteering::create(common_->device, wqs, matches_of(config, common_->mac));
    if (!steering) return steering.take_error();
    steering_.emplace(std::move(steering).value());
    return {};
}

std::uint16_t Qp::select_queue(const rte_mbuf* mbuf) const noexcept {
    if (mbuf->data_len < ethernet_header_bytes) return 0;
    const auto* frame = rte_pktmbuf_mtod(mbuf, const std::byte*);
    FrameFields fields = parse_frame(frame, std::min<std::uint32_t>(mbuf->data_len, frame_fields_bytes));
    if (!common_->opa_vnic) return static_cast<std::uint16_t>(set_->select_queue(fields.flow_hash));
    if ((mbuf->ol_flags & RTE_MBUF_F_TX_VLAN) != 0) {
        fields.tagged = true;
        fields.tci = mbuf->vlan_tci;
    }
    const OpaRoute route = common_->opa_vnic->route(frame, fields);
    return static_cast<std::uint16_t>(set_->select_queue(route.entropy, route.vl));
}

Result<bool> Qp::notify(std::uint16_t queue, unsigned event) {
    if (!thread_) return Error{EINVAL, "notify: the set was opened without a callback"};
    if (event == MBUFQP_EVENT_WRITE && queue < tx_.size())
        return room_or_arm(*set_, queue, tx_[queue]->events());
    if (event == MBUFQP_EVENT_READ && queue < rx_.size()) return rx_[queue]->packet_or_arm();
    return Error{EINVAL, strprintf("notify: event 0x%x of queue %u, of %u send and %u receive queues", event,
                                   queue, tx_queues(), rx_queues())};
}

Status Qp::join(const Gid& gid, std::uint16_t lid) {
    if (!common_->ipoib || rx_.empty()) return Error{ENOTSUP, "join: not an IPoIB set that receives"};
    if (auto status = common_->ipoib->add_group(gid, lid); !status) return status;
    if (auto status = rx_[0]->ud()->attach(gid, lid); !status) {
        common_->ipoib->remove_group(gid);
        return status;
    }
    return {};
}

Status Qp::leave(const Gid& gid, std::uint16_t lid) {
    if (!common_->ipoib || rx_.empty()) return Error{ENOTSUP, "leave: not an IPoIB set that receives"};
    if (!common_->ipoib->remove_group(gid)) return Error{ENOENT, "leave: not a member"};
    return rx_[0]->ud()->detach(gid, lid);
}

} // namespace stride::mbufqp
