// SPDX-License-Identifier: BSD-3-Clause
// Send queues: lib/mbufqp with the Ethernet encap on a RAW_PACKET QP.
#include "ops.hpp"

#include "base/log.hpp"

#include <rte_cycles.h>
#include <rte_errno.h>

#include <bit>

namespace stride::pmd {
namespace {

/// How long a stop waits for what was posted, looking often at first; then the rest is dropped and counted.
constexpr std::uint32_t drain_polls = 1000;
constexpr unsigned drain_rounds = 100;
constexpr unsigned drain_round_us = 1000;

void drain(mbufqp::TxQueue& queue) noexcept {
    for (unsigned round = 0; round < drain_rounds && !queue.drain(drain_polls); ++round)
        rte_delay_us_sleep(drain_round_us);
}

/// What queues of lib/mbufqp call their owner with; only the primary process has a slot.
TxSlot& slot_of(void* context) noexcept { return *static_cast<SharedTxq*>(context)->slot; }

bool find_key(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept {
    const TxSlot& slot = slot_of(context);
    return slot.port->keys.find_or_log(address, entry, "net_stride txq", slot.id);
}

bool recover_qp(void* context) noexcept {
    TxSlot& slot = slot_of(context);
    if (slot.stopped) return false;
    const auto status = slot.running->qp.recover();
    if (!status)
        log_line(LogLevel::error, "port %u txq %u: recovery: %s", slot.port->data->port_id, slot.id,
                 status.error().what.c_str());
    return status.ok();
}

mbufqp::TxFeatures features_of(const Port& port) noexcept {
    // The port's offloads only: all queues share one burst.
    const std::uint64_t offloads = port.data->dev_conf.txmode.offloads;
    mbufqp::TxFeatures features;
    if ((offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0) features |= mbufqp::TxFeature::multi_segment;
    constexpr std::uint64_t checksums =
        RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
    if ((offloads & checksums) != 0) features |= mbufqp::TxFeature::checksum;
    if ((offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0) features |= mbufqp::TxFeature::tso;
    if ((offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) != 0) features |= mbufqp::TxFeature::vlan_insert;
    if ((offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0) features |= mbufqp::TxFeature::fast_free;
    if (port.device->caps().enhanced_mpw) features |= mbufqp::TxFeature::multi_packet;
    if (port.args.inline_threshold_bytes.value_or(0) > 0) features |= mbufqp::TxFeature::inline_frames;
    return canonical(features & mbufqp::encap_features(port.args.encap));
}

/// The doorbell register where secondary processes have it too; if it can't be there, the library's.
std::byte* shared_doorbell(SharedTxq& shared, const Port& port, const ibv::TxQp& qp) {
    std::byte* const own = qp.ring().doorbell;
    shared.uar = {};
    if (port.shared->window == nullptr) return own;
    auto uar = UarPages::place(port.device.get(), port.device->context()->cmd_fd, qp.uar_offset());
    if (!uar) {
        log_line(LogLevel::warning, "port %u txq %u: secondary processes cannot send: %s", shared.port_id,
                 shared.id, uar.error().what.c_str());
        return own;
    }
    shared.uar = uar.value();
    return Window::uar_page(shared.uar.slot) + std::bit_cast<std::uintptr_t>(own) % Window::page_bytes;
}

mbufqp::TxQueueConfig config_of(TxSlot& slot, const RunningTxq& running) {
    Port& port = *slot.port;
    SharedTxq& shared = port.shared->txqs[slot.id];
    shared.slot = &slot;
    mbufqp::TxQueueConfig config;
    config.sq = running.qp.ring();
    config.sq.doorbell = shared_doorbell(shared, port, running.qp);
    config.cq = running.cq.ring();
    config.mbufs = slot.descriptors;
    config.features = features_of(port);
    if (!is_encapsulated(port.args.encap)) config.min_inline_bytes = port.device->caps().min_inline_bytes;
    config.encap = mbufqp::encap_shape_of(port.args.encap);
    if (port.shared->window != nullptr)
        config.encap.has_header = SharedCalls::of(SharedCall::has_header, config.encap.has_header);
    config.encap_context = encap_context(port);
    config.inline_max_bytes = port.args.inline_threshold_bytes.value_or(0);
    config.max_frame_bytes = max_sent_bytes(port);
    config.max_tso_bytes = port.device->caps().max_tso_bytes;
    config.keys = {SharedCalls::of(SharedCall::find_key, find_key), &shared, port.keys.generation_word()};
    config.recovery = {SharedCalls::of(SharedCall::recover_qp, recover_qp), &shared};
    config.socket = slot.socket;
    return config;
}

Status create_and_ready(TxSlot& slot) {
    const std::shared_ptr<ibv::Device>& device = slot.port->device;
    // The ring holds what its descriptors promise, packets of one segment.
    const std::uint32_t wanted =
        slot.descriptors * mbufqp::encap_shape_of(slot.port->args.encap).usual_wqebbs;
    const std::uint32_t wqebbs =
        std::min(RingSize::at_least(std::max(wanted, mbufqp::TxQueue::min_wqebbs)).entries(),
                 mbufqp::TxQueue::max_entries);
    auto cq = ibv::Cq::create(device, {.cqes = mbufqp::TxQueue::cq_entries(slot.descriptors, wqebbs)});
    if (!cq) return cq.take_error();
    ibv::TxQpConfig shape{.wqebbs = wqebbs};
    if (slot.port->ipoib) shape.source_qpn = slot.port->ipoib->qpn();
    auto qp = ibv::TxQp::create(device, cq.value(), shape);
    if (!qp) return qp.take_error();
    RunningTxq& running =
        slot.running.emplace(RunningTxq{std::move(cq).value(), std::move(qp).value(), nullptr});
    auto queue = mbufqp::TxQueue::create(config_of(slot, running));
    if (!queue) return queue.take_error();
    running.queue = std::move(queue).value();
    if (!slot.deferred) return resume_txq(slot);
    slot.stopped = true;
    running.queue->park();
    return {};
}

Error named(const TxSlot& slot, const Status& status) {
    return Error{status.error().code, strprintf("txq %u: %s", slot.id, status.error().what.c_str())};
}

} // namespace

Status resume_txq(TxSlot& slot) {
    if (auto status = slot.running->qp.start(); !status) return status;
    slot.stopped = false;
    slot.running->queue->reset(); // takes packets again
    return {};
}

Status pause_txq(TxSlot& slot) {
    drain(*slot.running->queue);
    if (auto status = slot.running->qp.reset(); !status) return status;
    slot.stopped = true;
    slot.running->queue->park();
    return {};
}

Status start_txq(TxSlot& slot) {
    if (auto status = create_and_ready(slot); !status) {
        stop_txq(slot);
        return named(slot, status);
    }
    return {};
}

void stop_txq(TxSlot& slot) noexcept {
    if (!slot.running) return;
    if (slot.running->queue) drain(*slot.running->queue);
    if (auto status = slot.running->qp.reset(); !status)
        log_line(LogLevel::error, "port %u txq %u: stop: %s", slot.port->data->port_id, slot.id,
                 status.error().what.c_str());
    if (slot.running->queue) {
        slot.running->queue->reset();
        keep_stats(slot);
    }
    slot.running.reset();
}

int tx_queue_setup(rte_eth_dev* dev, std::uint16_t queue, std::uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) noexcept {
    Port& port = port_of(dev);
    auto slot = std::make_unique<TxSlot>();
    slot->port = &port;
    slot->id = queue;
    slot->socket = static_cast<int>(socket);
    slot->descriptors = descriptors;
    slot->offloads = conf->offloads | dev->data->dev_conf.txmode.offloads;
    slot->deferred = conf->tx_deferred_start != 0;
    port.txqs[queue] = std::move(slot);
    dev->data->tx_queues[queue] = port.txqs[queue].get();
    return 0;
}

void tx_queue_release(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    if (dev->data->tx_queues != nullptr) dev->data->tx_queues[queue] = nullptr;
    if (queue < port.txqs.size()) port.txqs[queue].reset();
}

void txq_info_get(rte_eth_dev* dev, std::uint16_t queue, rte_eth_txq_info* info) noexcept {
    const TxSlot& slot = *port_of(dev).txqs[queue];
    info->conf.offloads = slot.offloads;
    info->conf.tx_deferred_start = slot.deferred ? 1 : 0;
    info->nb_desc = slot.descriptors;
}

int tx_descriptor_status(void* queue, std::uint16_t offset) noexcept {
    return static_cast<mbufqp::TxQueue*>(queue)->descriptor_status(offset);
}

int tx_done_cleanup(void* queue, std::uint32_t free_count) noexcept {
    return static_cast<int>(static_cast<mbufqp::TxQueue*>(queue)->done_cleanup(free_count));
}

std::uint16_t tx_prepare(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept {
    mbufqp::TxRefusal reason{};
    const std::uint16_t taken = static_cast<mbufqp::TxQueue*>(queue)->prepare(packets, count, reason);
    if (taken < count) rte_errno = reason == mbufqp::TxRefusal::offload ? ENOTSUP : EINVAL;
    return taken;
}

} // namespace stride::pmd
