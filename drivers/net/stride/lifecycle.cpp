// SPDX-License-Identifier: BSD-3-Clause
// Configure, start, stop, close. Everything on the device is made by start and unmade by stop: a start that
// fails leaves what a stop leaves.
#include "ops.hpp"

#include "base/log.hpp"
#include "requests.hpp"

#include <algorithm>

namespace stride::pmd {
namespace {

Status check_configuration(const Port& port) {
    const rte_eth_conf& conf = port.data->dev_conf;
    const std::uint32_t most = std::min<std::uint32_t>(max_queues, port.device->caps().max_wqs);
    if (port.data->nb_rx_queues > most)
        return Error{EINVAL, strprintf("%u receive queues; at most %u", port.data->nb_rx_queues, most)};
    if (conf.lpbk_mode != 0) return Error{ENOTSUP, "loopback mode is not supported"};
    if (conf.link_speeds != RTE_ETH_LINK_SPEED_AUTONEG)
        return Error{ENOTSUP, "a fixed link speed is not supported"};
    return {};
}

/// A burst for all queues of the port; where they differ, one that asks each.
void choose_bursts(rte_eth_dev* dev, const Port& port) noexcept {
    mprq::RxBurst rx = nullptr;
    for (const auto& slot : port.rxqs) {
        const mprq::RxBurst burst = slot->running->queue->burst();
        if (rx != nullptr && rx != burst) {
            rx = rx_burst_of_each;
            break;
        }
        rx = burst;
    }
    if (rx != nullptr) dev->rx_pkt_burst = is_encapsulated(port.args.encap) ? encap_rx_burst : rx;
    // Send offloads are the port's, so that the queues share one burst.
    if (!port.txqs.empty())
        dev->tx_pkt_burst = mbufqp::encap_burst(port.args.encap, port.txqs[0]->running->queue->features());
}

/// While started, ethdev hands the running queue to the bursts; else the slot stands for a queue set up.
void show_queues(rte_eth_dev* dev, const Port& port, bool running) noexcept {
    for (const auto& slot : port.rxqs) {
        if (!slot) continue;
        void* const queue = is_encapsulated(port.args.encap)
                                ? static_cast<void*>(&slot->encapsulated)
                                : static_cast<void*>(running ? slot->running->queue.get() : nullptr);
        dev->data->rx_queues[slot->id] = running ? queue : slot.get();
        dev->data->rx_queue_state[slot->id] =
            running && !slot->deferred ? RTE_ETH_QUEUE_STATE_STARTED : RTE_ETH_QUEUE_STATE_STOPPED;
    }
    for (const auto& slot : port.txqs) {
        if (!slot) continue;
        dev->data->tx_queues[slot->id] =
            running ? static_cast<void*>(slot->running->queue.get()) : slot.get();
        dev->data->tx_queue_state[slot->id] =
            running && !slot->deferred ? RTE_ETH_QUEUE_STATE_STARTED : RTE_ETH_QUEUE_STATE_STOPPED;
    }
}

/// To the secondary processes, whose bursts run on what is shown.
void share_queues(const Port& port) noexcept {
    if (port.shared->window == nullptr) return;
    for (const auto& slot : port.rxqs)
        if (!slot->deferred) port.shared->rxqs[slot->id].show(slot->running->queue.get());
    for (const auto& slot : port.txqs)
        if (!slot->deferred) port.shared->txqs[slot->id].show(slot->running->queue.get());
}

void withdraw_queues(Port& port) noexcept {
    for (const auto& slot : port.rxqs)
        if (slot) port.shared->rxqs[slot->id].withdraw();
    for (const auto& slot : port.txqs)
        if (slot) port.shared->txqs[slot->id].withdraw();
}

Status check_queues(const Port& port) {
    for (std::size_t i = 0; i < port.rxqs.size(); ++i)
        if (!port.rxqs[i]) return Error{EINVAL, strprintf("receive queue %zu is not set up", i)};
    for (std::size_t i = 0; i < port.txqs.size(); ++i)
        if (!port.txqs[i]) return Error{EINVAL, strprintf("send queue %zu is not set up", i)};
    return {};
}

void log_geometry(const Port& port) noexcept {
    if (port.rxqs.empty()) return;
    const mprq::RxQueue& queue = *port.rxqs[0]->running->queue;
    const mprq::Geometry* shape = queue.geometry();
    const unsigned id = port.data->port_id;
    const std::size_t count = port.rxqs.size();
    if (shape == nullptr) {
        log_line(LogLevel::notice, "port %u: %zu receive queues of %u single-packet WQEs (no striding RQ)",
                 id, count, queue.descriptors());
        return;
    }
    log_line(
        LogLevel::notice,
        "port %u: %zu receive queues, %s: %u WQEs of %u strides of %u bytes, %u spare buffers, frames up to "
        "%u bytes",
        id, count, queue.policy(), shape->wqes(), shape->strides_per_wqe(), shape->stride_bytes(),
        shape->spare_wqes, shape->max_frame_bytes);
}

Status start_queues(Port& port) {
    if (auto status = check_queues(port); !status) return status;
    if (auto status = open_encap(port); !status) return status;
    {
        const std::lock_guard lock{port.mutex};
        for (const auto& slot : port.txqs)
            if (auto status = start_txq(*slot); !status) return status;
        for (const auto& slot : port.rxqs)
            if (auto status = start_rxq(*slot); !status) return status;
    }
    return apply_steering(port); // last: from the first rule on, frames arrive
}

void stop_queues(Port& port) noexcept {
    port.flow.rules.clear();
    port.steering.reset();
    if (port.ipoib) port.ipoib->stop();
    port.interrupts.hide_queues();
    const std::lock_guard lock{port.mutex};
    for (const auto& slot : port.rxqs)
        if (slot) stop_rxq(*slot);
    for (const auto& slot : port.txqs)
        if (slot) stop_txq(*slot);
}

} // namespace

int to_errno(const Port& port, const char* tried, const Status& status) noexcept {
    if (status) return 0;
    log_line(LogLevel::error, "port %u: %s: %s", port.data->port_id, tried, status.error().what.c_str());
    return -status.error().code;
}

int dev_configure(rte_eth_dev* dev) noexcept {
    Port& port = port_of(dev);
    if (auto status = check_configuration(port); !status) return to_errno(port, "configure", status);
    port.rxqs.resize(dev->data->nb_rx_queues);
    port.txqs.resize(dev->data->nb_tx_queues);
    return to_errno(port, "configure RSS", configure_rss(port));
}

int dev_start(rte_eth_dev* dev) noexcept {
    Port& port = port_of(dev);
    auto status = start_queues(port);
    if (status) status = port.interrupts.show_queues(dev);
    if (!status) {
        stop_queues(port);
        return to_errno(port, "start", status);
    }
    choose_bursts(dev, port);
    show_queues(dev, port, true);
    share_queues(port);
    log_geometry(port);
    link_update(dev, 0);
    return 0;
}

int dev_stop(rte_eth_dev* dev) noexcept {
    Port& port = port_of(dev);
    dev->data->dev_started = 0;
    dev->rx_pkt_burst = rte_eth_pkt_burst_dummy;
    dev->tx_pkt_burst = rte_eth_pkt_burst_dummy;
    dev->intr_handle = nullptr;
    show_queues(dev, port, false);
    withdraw_queues(port);
    stop_queues(port);
    return 0;
}

int dev_close(rte_eth_dev* dev) noexcept {
    auto* const own = static_cast<PortPrivate*>(dev->data->dev_private);
    if (own == nullptr || own->port == nullptr) return 0;
    Port& port = *own->port;
    dev_stop(dev);
    for (std::uint16_t i = 0; i < port.rxqs.size(); ++i)
        rx_queue_release(dev, i);
    for (std::uint16_t i = 0; i < port.txqs.size(); ++i)
        tx_queue_release(dev, i);
    admit_questions(dev->data->port_id, nullptr);
    dev->data->mac_addrs = nullptr; // part of dev_private, which ethdev frees
    own->port = nullptr;
    own->shared = nullptr;
    delete &port;
    // Its send queues may have had the last packets of a port that was closed before.
    mprq::free_buffers_of_the_gone();
    return 0;
}

int is_removed(rte_eth_dev* dev) noexcept {
    auto link = port_of(dev).device->link();
    return !link && (link.error().code == EIO || link.error().code == ENODEV) ? 1 : 0;
}

} // namespace stride::pmd
