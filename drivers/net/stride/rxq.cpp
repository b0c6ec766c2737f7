// SPDX-License-Identifier: BSD-3-Clause
// Receive queues: lib/mprq on verbs objects. Set-up checks and remembers; start makes.
#include "ops.hpp"

#include "base/log.hpp"
#include "ibv/memory_key.hpp"

#include <infiniband/mlx5dv.h>

#include <rte_errno.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>

namespace stride::pmd {
namespace {

/// Smallest striding WQE that ConnectX takes; verbs does not tell.
constexpr std::uint32_t min_log_wqe_bytes = 14;
/// libmlx5 makes no ring smaller than 64 bytes, four WQEs of one segment.
constexpr std::uint32_t min_wqes = 4;

/// What queues of lib/mprq call their owner with; only the primary process has a slot.
RxSlot& slot_of(void* context) noexcept { return *static_cast<SharedRxq*>(context)->slot; }

Result<mprq::RegisteredMemory> register_memory(void* context, void* base, std::size_t bytes) {
    const RxSlot& slot = slot_of(context);
    auto key =
        ibv::MemoryKey::register_range(slot.port->device, {reinterpret_cast<std::uintptr_t>(base), bytes});
    if (!key) return key.take_error();
    const Lkey lkey = key->lkey();
    return mprq::RegisteredMemory{lkey, std::make_shared<ibv::MemoryKey>(std::move(key).value())};
}

be32 lkey_of(void* context, std::uintptr_t address) noexcept {
    ibv::KeyCache& keys = *slot_of(context).keys;
    keys.begin_burst();
    return keys.lkey(address);
}

bool log_failure(const RxSlot& slot, const Status& status) noexcept {
    if (!status)
        log_line(LogLevel::error, "port %u rxq %u: recovery: %s", slot.port->data->port_id, slot.id,
                 status.error().what.c_str());
    return status.ok();
}

bool reset_wq(void* context) noexcept {
    RxSlot& slot = slot_of(context);
    return log_failure(slot, slot.running->rq.reset());
}

void spare_low(void* context) noexcept {
    RxSlot& slot = slot_of(context);
    slot.spare_low = true;
    slot.port->interrupts.tell_spare_low();
}

bool ready_wq(void* context) noexcept {
    RxSlot& slot = slot_of(context);
    return log_failure(slot, slot.running->rq.make_ready());
}

mprq::RxOffloads offload_flags(std::uint64_t offloads) noexcept {
    mprq::RxOffloads flags{};
    if ((offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM) != 0) flags |= mprq::RxOffload::checksum;
    if ((offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0) flags |= mprq::RxOffload::rss_hash;
    if ((offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0) flags |= mprq::RxOffload::vlan_strip;
    if ((offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0) flags |= mprq::RxOffload::keep_crc;
    if ((offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0) flags |= mprq::RxOffload::timestamp;
    return flags;
}

/// A striding RQ takes RAW_PACKET traffic only.
bool may_stride(const Port& port) noexcept { return !port.ipoib && port.device->caps().striding.raw_packet; }

/// The mini-CQEs that say what the queue reports; 0: not wanted, or the device has none (a timestamp never is
/// in one).
std::uint32_t compression_format(const RxSlot& slot) noexcept {
    const bool wanted = slot.port->args.cqe_compression && may_stride(*slot.port) &&
                        (slot.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) == 0;
    const bool hash = (slot.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0;
    const std::uint32_t format = hash ? MLX5DV_CQE_RES_FORMAT_HASH : MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX;
    return wanted ? format & slot.port->device->caps().cqe_compression_formats : 0;
}

std::uint32_t frame_bytes(const RxSlot& slot) noexcept {
    const bool keep_crc = (slot.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0;
    return wire_bytes(slot.port->args.encap, slot.port->wanted_frame_bytes()) + (keep_crc ? crc_bytes : 0);
}

mprq::RxQueueConfig config_of(RxSlot& slot) noexcept {
    const Args& args = slot.port->args;
    mprq::RxQueueConfig config;
    config.port_id = slot.port->data->port_id;
    config.queue_id = slot.id;
    config.socket_id = slot.socket;
    config.pool = slot.pool;
    config.max_frame_bytes = frame_bytes(slot);
    if (args.copy_threshold_bytes) config.copy_threshold_bytes = *args.copy_threshold_bytes;
    config.headroom_bytes = RTE_PKTMBUF_HEADROOM;
    config.always_copy = args.copy_threshold_bytes == Args::copy_all;
    config.scatter = (slot.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
    config.compressed = compression_format(slot) != 0;
    config.offloads = offload_flags(slot.offloads);
    if (slot.port->packet_types) config.offloads |= mprq::RxOffload::packet_type;
    config.timestamp_offset = slot.timestamp_offset;
    config.timestamp_flag = slot.timestamp_flag;
    if (slot.port->ipoib) config.offloads |= mprq::RxOffload::datagram;
    if (slot.port->flow.marks && !slot.port->ipoib) config.offloads |= mprq::RxOffload::mark;
    SharedRxq& shared = slot.port->shared->rxqs[slot.id];
    shared.slot = &slot;
    config.owner = {&shared,
                    register_memory,
                    SharedCalls::of(SharedCall::lkey_of, lkey_of),
                    SharedCalls::of(SharedCall::reset_wq, reset_wq),
                    SharedCalls::of(SharedCall::ready_wq, ready_wq),
                    SharedCalls::of(SharedCall::spare_low, spare_low)};
    return config;
}

Result<mprq::GeometryPlan> plan_for(RxSlot& slot) {
    const ibv::Caps& caps = slot.port->device->caps();
    const Args& args = slot.port->args;
    const mprq::StridingLimits limits{.min_log_stride_bytes = caps.striding.min_log_stride_bytes,
                                      .max_log_stride_bytes = caps.striding.max_log_stride_bytes,
                                      .min_log_strides = caps.striding.min_log_strides,
                                      .max_log_strides = caps.striding.max_log_strides,
                                      .min_log_wqe_bytes = min_log_wqe_bytes,
                                      .max_wqes = caps.max_wrs,
                                      .max_cqes = caps.max_cqes};
    mprq::GeometryRequest request;
    request.max_frame_bytes = frame_bytes(slot);
    request.descriptors = slot.descriptors;
    request.headroom_bytes = RTE_PKTMBUF_HEADROOM;
    if (args.log_stride_bytes)
        request.stride_bytes = 1U << *args.log_stride_bytes;
    else
        request.stride_bytes = mprq::RxQueue::bind_fit(config_of(slot)).stride_bytes;
    if (args.log_strides) request.strides_per_wqe = 1U << *args.log_strides;
    return mprq::plan_geometry(request, limits);
}

struct Shape {
    ibv::RqConfig rq{};
    std::uint32_t cqes{};
    std::optional<mprq::Geometry> striding{};
    std::string warning{}; ///< what was asked for and what it became
};

Result<Shape> shape_of(RxSlot& slot) {
    Shape shape;
    shape.rq.vlan_strip = (slot.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
    shape.rq.scatter_fcs = (slot.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0;
    if (!may_stride(*slot.port)) {
        auto sges = mprq::RxQueue::single_packet_sges(config_of(slot));
        if (!sges) return sges.take_error();
        shape.rq.wqes = std::max<std::uint32_t>(slot.descriptors, min_wqes);
        shape.rq.sges = sges.value();
        shape.cqes = shape.rq.wqes;
        return shape;
    }
    auto plan = plan_for(slot);
    if (!plan) return plan.take_error();
    const mprq::Geometry& geometry = plan->geometry;
    shape.rq.wqes = geometry.wqes();
    shape.rq.striding =
        ibv::StridingShape{geometry.log_stride_bytes, geometry.log_strides, geometry.two_byte_shift};
    shape.cqes = geometry.cq_entries();
    shape.striding = geometry;
    shape.warning = std::move(plan->warning);
    return shape;
}

Result<ReceiveRing> create_ring(const Port& port, const ibv::Cq& cq, const ibv::RqConfig& shape) {
    if (port.ipoib) {
        auto rq = ibv::UnderlayRq::create(
            port.device, cq, {.source_qpn = port.ipoib->qpn(), .wqes = shape.wqes, .sges = shape.sges});
        if (!rq) return rq.take_error();
        return ReceiveRing{std::move(rq).value()};
    }
    auto rq = ibv::Rq::create(port.device, cq, shape);
    if (!rq) return rq.take_error();
    return ReceiveRing{std::move(rq).value()};
}

Status create_and_ready(RxSlot& slot) {
    auto shape = shape_of(slot);
    if (!shape) return shape.take_error();
    if (!shape->warning.empty() && slot.id == 0) // the queues of a port are alike: one line is enough
        log_line(LogLevel::warning, "port %u: %s", slot.port->data->port_id, shape->warning.c_str());
    const std::shared_ptr<ibv::Device>& device = slot.port->device;
    std::optional<ibv::CompletionChannel> channel;
    if (slot.port->data->dev_conf.intr_conf.rxq != 0) {
        auto made = ibv::CompletionChannel::create(device);
        if (!made) return made.take_error();
        channel.emplace(std::move(made).value());
    }
    auto cq = ibv::Cq::create(device, {.cqes = shape->cqes,
                                       .compression_format = compression_format(slot),
                                       .channel = channel ? channel->get() : nullptr});
    if (!cq) return cq.take_error();
    auto rq = create_ring(*slot.port, cq.value(), shape->rq);
    if (!rq) return rq.take_error();
    slot.keys.emplace(slot.port->keys);
    RunningRxq& running =
        slot.running.emplace(RunningRxq{std::move(channel), std::move(cq).value(), std::move(rq).value()});
    const mlx5::CqRing& cq_ring = running.cq.ring();
    const mlx5::RqRing& rq_ring = running.rq.ring();
    const mprq::RxQueueConfig config = config_of(slot);
    auto queue = shape->striding ? mprq::RxQueue::create_striding(config, *shape->striding, cq_ring, rq_ring)
                                 : mprq::RxQueue::create_single_packet(config, cq_ring, rq_ring);
    if (!queue) return queue.take_error();
    running.queue = std::move(queue).value();
    running.queue->watch_spare(slot.avail_thresh);
    slot.encapsulated.queue = running.queue.get();
    slot.encapsulated.burst = rx_burst_of_each;
    slot.encapsulated.decap = mbufqp::encap_decap(slot.port->args.encap);
    slot.encapsulated.context = encap_context(*slot.port);
    return slot.deferred ? Status{} : resume_rxq(slot);
}

Error named(const RxSlot& slot, const Status& status) {
    return Error{status.error().code, strprintf("rxq %u: %s", slot.id, status.error().what.c_str())};
}

/// Where the application finds timestamps; the same for all ports and queues.
Status find_timestamps(RxSlot& slot) {
    if ((slot.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) == 0) return {};
    if (rte_mbuf_dyn_rx_timestamp_register(&slot.timestamp_offset, &slot.timestamp_flag) == 0) return {};
    return Error{rte_errno, "no room for a timestamp in mbufs"};
}

Status check_setup(const RxSlot& slot) {
    if (slot.descriptors == 0) return Error{EINVAL, "no descriptors"};
    if (slot.pool == nullptr) return Error{EINVAL, "no mbuf pool"};
    return {};
}

} // namespace

Status resume_rxq(RxSlot& slot) {
    RunningRxq& running = *slot.running;
    if (auto status = running.queue->start(); !status) return status;
    auto status = running.rq.make_ready();
    if (!status) running.queue->stop();
    return status;
}

Status pause_rxq(RxSlot& slot) {
    // As long as the device may write, what it was given stays where it is.
    if (auto status = slot.running->rq.reset(); !status) return status;
    slot.running->queue->stop();
    return {};
}

Status start_rxq(RxSlot& slot) {
    if (auto status = create_and_ready(slot); !status) {
        stop_rxq(slot);
        return named(slot, status);
    }
    return {};
}

void stop_rxq(RxSlot& slot) noexcept {
    if (!slot.running) return;
    if (auto status = slot.running->rq.reset(); !status)
        log_line(LogLevel::error, "port %u rxq %u: stop: %s", slot.port->data->port_id, slot.id,
                 status.error().what.c_str());
    if (slot.running->queue) {
        slot.running->queue->stop();
        keep_stats(slot);
    }
    slot.running.reset();
    slot.keys.reset();
}

int rx_queue_setup(rte_eth_dev* dev, std::uint16_t queue, std::uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) noexcept {
    Port& port = port_of(dev);
    auto slot = std::make_unique<RxSlot>();
    slot->port = &port;
    slot->id = queue;
    slot->socket = static_cast<int>(socket);
    slot->descriptors = descriptors;
    slot->pool = pool;
    slot->offloads = conf->offloads | dev->data->dev_conf.rxmode.offloads;
    slot->deferred = conf->rx_deferred_start != 0;
    auto status = check_setup(*slot);
    if (status) status = find_timestamps(*slot);
    if (status) {
        if (auto shape = shape_of(*slot); !shape) status = shape.take_error();
    }
    if (!status) return to_errno(port, "receive queue setup", named(*slot, status));
    port.rxqs[queue] = std::move(slot);
    dev->data->rx_queues[queue] = port.rxqs[queue].get();
    dev->data->scattered_rx = (port.rxqs[queue]->offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0 ? 1 : 0;
    return 0;
}

void rx_queue_release(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    // ethdev drops its array when a configuration with no queues, or a failed one, goes through.
    if (dev->data->rx_queues != nullptr) dev->data->rx_queues[queue] = nullptr;
    if (queue < port.rxqs.size()) port.rxqs[queue].reset();
}

void rxq_info_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_rxq_info* info) noexcept {
    const RxSlot& slot = *port_of(dev).rxqs[queue];
    info->mp = slot.pool;
    info->conf.offloads = slot.offloads;
    info->conf.rx_deferred_start = slot.deferred ? 1 : 0;
    info->avail_thresh = slot.avail_thresh;
    info->conf.rx_drop_en = 1; // a frame without a posted WQE is dropped by the device
    info->scattered_rx = (slot.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0 ? 1 : 0;
    info->nb_desc = slot.running ? slot.running->queue->descriptors() : slot.descriptors;
}

QueueCount rx_queue_count(void* queue) noexcept {
    return static_cast<QueueCount>(static_cast<const mprq::RxQueue*>(queue)->ready_packets());
}

int rx_descriptor_status(void* queue, std::uint16_t offset) noexcept {
    switch (static_cast<const mprq::RxQueue*>(queue)->descriptor_status(offset)) {
    case mprq::DescriptorStatus::done:
        return RTE_ETH_RX_DESC_DONE;
    case mprq::DescriptorStatus::available:
        return RTE_ETH_RX_DESC_AVAIL;
    case mprq::DescriptorStatus::out_of_range:
        break;
    }
    return -EINVAL;
}

std::uint16_t rx_burst_of_each(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept {
    return static_cast<mprq::RxQueue*>(queue)->burst()(queue, packets, count);
}

} // namespace stride::pmd
