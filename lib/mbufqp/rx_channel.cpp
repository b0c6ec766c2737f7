// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/rx_channel.hpp"

#include "base/log.hpp"
#include "mbufqp/mbufqp.h"
#include "mprq/geometry.hpp"

#include <rte_mbuf.h>

#include <algorithm>

namespace stride::mbufqp {
namespace {

/// Smallest striding WQE that ConnectX takes; verbs does not tell.
constexpr std::uint32_t min_log_wqe_bytes = 14;

Result<mprq::GeometryPlan> plan(const RxChannelConfig& config) {
    const ibv::Caps& caps = config.device->caps();
    const mprq::StridingLimits limits{.min_log_stride_bytes = caps.striding.min_log_stride_bytes,
                                      .max_log_stride_bytes = caps.striding.max_log_stride_bytes,
                                      .min_log_strides = caps.striding.min_log_strides,
                                      .max_log_strides = caps.striding.max_log_strides,
                                      .min_log_wqe_bytes = min_log_wqe_bytes,
                                      .max_wqes = caps.max_wrs,
                                      .max_cqes = caps.max_cqes};
    mprq::GeometryRequest request;
    request.max_frame_bytes = config.max_wire_bytes;
    request.descriptors = config.packets;
    request.headroom_bytes = RTE_PKTMBUF_HEADROOM;
    return mprq::plan_geometry(request, limits);
}

/// A striding RQ takes RAW_PACKET traffic only.
bool may_stride(const RxChannelConfig& config) noexcept {
    return config.encap != EncapKind::ipoib && config.device->caps().striding.raw_packet;
}

Result<mprq::RegisteredMemory> register_memory(const RxChannelConfig& config, void* base, std::size_t bytes) {
    auto key = ibv::MemoryKey::register_range(config.device, {reinterpret_cast<std::uintptr_t>(base), bytes});
    if (!key) return key.take_error();
    const Lkey lkey = key->lkey();
    return mprq::RegisteredMemory{lkey, std::make_shared<ibv::MemoryKey>(std::move(key).value())};
}

} // namespace

RxChannel::RxChannel(const RxChannelConfig& config, ibv::Cq cq) noexcept
    : config_{config}
    , cq_{std::move(cq)}
    , keys_{*config.keys}
    , decap_{encap_decap(config.encap)}
    , events_{cq_.ring(), cq_.get(), MBUFQP_EVENT_READ, config.index} {}

RxChannel::~RxChannel() = default;

mprq::RxQueueConfig RxChannel::queue_config() noexcept {
    mprq::RxQueueConfig config;
    config.queue_id = config_.index;
    config.socket_id = config_.device->numa_node();
    config.pool = config_.pool;
    config.max_frame_bytes = config_.max_wire_bytes;
    config.scatter = true;
    config.offloads = {mprq::RxOffload::packet_type, mprq::RxOffload::checksum, mprq::RxOffload::rss_hash};
    // The HCA knows nothing of what is in a 16B packet.
    if (config_.encap == EncapKind::opa_vnic) config.offloads = {};
    if (config_.encap == EncapKind::ipoib) config.offloads |= mprq::RxOffload::datagram;
    config.owner.context = this;
    config.owner.register_memory = [](void* self, void* base, std::size_t bytes) {
        return register_memory(static_cast<RxChannel*>(self)->config_, base, bytes);
    };
    config.owner.lkey_of = [](void* self, std::uintptr_t address) noexcept {
        ibv::KeyCache& keys = static_cast<RxChannel*>(self)->keys_;
        keys.begin_burst();
        return keys.lkey(address);
    };
    const auto logged = [](const Status& status) noexcept {
        if (!status)
            log_line(LogLevel::error, "mbufqp: recovery of a receive queue: %s", status.error().what.c_str());
        return status.ok();
    };
    static_assert(std::is_empty_v<decltype(logged)>);
    config.owner.reset_wq = [](void* self) noexcept {
        return decltype(logged){}(static_cast<RxChannel*>(self)->reset_ring());
    };
    config.owner.ready_wq = [](void* self) noexcept {
        return decltype(logged){}(static_cast<RxChannel*>(self)->make_ready());
    };
    return config;
}

Result<std::unique_ptr<RxChannel>> RxChannel::create(const RxChannelConfig& config) {
    std::optional<mprq::Geometry> geometry;
    std::uint32_t cqes = RingSize::at_least(std::max(config.packets, 2U)).entries();
    if (may_stride(config)) {
        auto planned = plan(config);
        if (!planned) return planned.take_error();
        geometry = planned->geometry;
        cqes = geometry->cq_entries();
    }
    auto cq = ibv::Cq::create(config.device, {.cqes = cqes, .channel = config.channel});
    if (!cq) return cq.take_error();
    std::unique_ptr<RxChannel> made{new RxChannel{config, std::move(cq).value()}};
    made->striding_ = geometry;
    if (auto status = made->create_queue(); !status) return status.take_error();
    return made;
}

Status RxChannel::create_queue() {
    const mprq::RxQueueConfig wanted = queue_config();
    ibv::RqConfig shape{.wqes = config_.packets};
    if (striding_) {
        shape.wqes = striding_->wqes();
        shape.striding = {striding_->log_stride_bytes, striding_->log_strides, striding_->two_byte_shift};
    } else {
        auto sges = mprq::RxQueue::single_packet_sges(wanted);
        if (!sges) return sges.take_error();
        shape.sges = sges.value();
    }
    if (config_.encap == EncapKind::ipoib) {
        auto ud = ibv::UdQp::create(config_.device, cq_,
                                    {.receive_wqes = shape.wqes,
                                     .receive_sges = shape.sges,
                                     .pkey_index = config_.pkey_index,
                                     .qkey = config_.qkey});
        if (!ud) return ud.take_error();
        ud_.emplace(std::move(ud).value());
    } else {
        auto rq = ibv::Rq::create(config_.device, cq_, shape);
        if (!rq) return rq.take_error();
        rq_.emplace(std::move(rq).value());
    }
    const mlx5::RqRing& ring = ud_ ? ud_->ring() : rq_->ring();
    auto queue = striding_ ? mprq::RxQueue::create_striding(wanted, *striding_, cq_.ring(), ring)
                           : mprq::RxQueue::create_single_packet(wanted, cq_.ring(), ring);
    if (!queue) return queue.take_error();
    queue_ = std::move(queue).value();
    burst_ = queue_->burst();
    return {};
}

Status RxChannel::reset_ring() {
    if (!ud_) return rq_->reset();
    if (auto status = ud_->reset(); !status) return status;
    return ud_->make_init();
}

Status RxChannel::make_ready() { return ud_ ? ud_->start() : rq_->make_ready(); }

Status RxChannel::start(void* encap_context) {
    encap_context_ = encap_context;
    if (ud_)
        if (auto status = ud_->make_init(); !status) return status;
    if (auto status = queue_->start(); !status) return status;
    return make_ready();
}

void RxChannel::stop() noexcept {
    const Status status = ud_ ? ud_->reset() : rq_->reset();
    if (!status)
        log_line(LogLevel::error, "mbufqp rxq %u: stop: %s", config_.index, status.error().what.c_str());
    queue_->stop();
}

} // namespace stride::mbufqp
