// SPDX-License-Identifier: BSD-3-Clause
// Single queues, stopped and started while the port runs. A stopped receive queue keeps its place in the RQT
// and what goes there is lost to the device; the packets of it that the application holds stay valid.
#include "ops.hpp"

#include <memory>

namespace stride::pmd {
namespace {

/// Changes one queue of `slots`; the bursts of that queue do not run.
template <class Slot>
int change(Port& port, std::vector<std::unique_ptr<Slot>>& slots, std::uint16_t queue, const char* tried,
           Status (*step)(Slot&)) noexcept {
    Slot& slot = *slots[queue];
    const std::lock_guard lock{port.mutex};
    auto status = slot.running ? step(slot) : Status{Error{EINVAL, "the port is not started"}};
    if (status) return 0;
    return to_errno(
        port, tried,
        Error{status.error().code, strprintf("queue %u: %s", queue, status.error().what.c_str())});
}

/// Other processes' bursts go on or end with the queue, whatever became of the change.
template <class Shared, class Slots>
void share(const Port& port, Shared& shared, const Slots& slots, bool runs) noexcept {
    const auto& running = slots[shared.id]->running;
    if (runs && running && port.shared->window != nullptr) shared.show(running->queue.get());
}

} // namespace

int rx_queue_start(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    const int code = change(port, port.rxqs, queue, "receive queue start", resume_rxq);
    if (code == 0) dev->data->rx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STARTED;
    share(port, port.shared->rxqs[queue], port.rxqs, code == 0);
    return code;
}

int rx_queue_stop(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    port.shared->rxqs[queue].withdraw();
    const int code = change(port, port.rxqs, queue, "receive queue stop", pause_rxq);
    if (code == 0) dev->data->rx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STOPPED;
    share(port, port.shared->rxqs[queue], port.rxqs, code != 0);
    return code;
}

int tx_queue_start(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    const int code = change(port, port.txqs, queue, "send queue start", resume_txq);
    if (code == 0) dev->data->tx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STARTED;
    share(port, port.shared->txqs[queue], port.txqs, code == 0);
    return code;
}

int tx_queue_stop(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    Port& port = port_of(dev);
    port.shared->txqs[queue].withdraw();
    const int code = change(port, port.txqs, queue, "send queue stop", pause_txq);
    if (code == 0) dev->data->tx_queue_state[queue] = RTE_ETH_QUEUE_STATE_STOPPED;
    share(port, port.shared->txqs[queue], port.txqs, code != 0);
    return code;
}

} // namespace stride::pmd
