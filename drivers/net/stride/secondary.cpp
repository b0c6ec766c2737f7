// SPDX-License-Identifier: BSD-3-Clause
#include "secondary.hpp"

#include "base/format.hpp"
#include "log.hpp"
#include "ops.hpp"
#include "requests.hpp"

#include <rte_cycles.h>
#include <rte_memory.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string>
#include <unistd.h>

namespace stride::pmd {
namespace {

/// Keys that a queue with regular WQEs needed last. Its burst's thread.
struct KeysOfQueue {
    std::uint32_t generation{};
    std::uint32_t victim{};
    std::array<ibv::KeyEntry, 8> keys{};
};

/// What this process has of a port; fp_ops points at the arrays.
struct SecondaryPort {
    rte_eth_dev* dev{};
    PortSharedPtr shared{};
    std::string name{};
    std::array<void*, RTE_MAX_QUEUES_PER_PORT> rxqs{}, txqs{};
    std::array<KeysOfQueue, max_queues> keys{}; ///< of receive queues
};
std::array<std::unique_ptr<SecondaryPort>, RTE_MAX_ETHPORTS> ports;

// What queues ask of their owner: of the primary.

bool ask_for_key(std::uint16_t port_id, std::uint16_t queue, std::uintptr_t address,
                 ibv::KeyEntry& entry) noexcept {
    // Anything else is mapped in one of the two processes alone.
    const void* const memory = reinterpret_cast<const void*>(address); // NOLINT(performance-no-int-to-ptr)
    if (rte_mem_virt2memseg_list(memory) == nullptr) return false;
    const Answer answer =
        ask_primary({.ask = Ask::find_key, .port_id = port_id, .queue = queue, .address = address});
    if (answer.code == 0) entry = answer.key;
    return answer.code == 0;
}

bool find_key(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept {
    const SharedTxq& txq = *static_cast<SharedTxq*>(context);
    return ask_for_key(txq.port_id, txq.id, address, entry);
}

be32 lkey_of(void* context, std::uintptr_t address) noexcept {
    const SharedRxq& rxq = *static_cast<SharedRxq*>(context);
    SecondaryPort& port = *ports[rxq.port_id];
    KeysOfQueue& known = port.keys[rxq.id];
    const std::uint32_t now = port.shared->key_generation.load(std::memory_order_acquire);
    if (now != known.generation) known = {.generation = now};
    const auto hit = std::find_if(known.keys.begin(), known.keys.end(), [address](const ibv::KeyEntry& key) {
        return key.range.contains(address);
    });
    if (hit != known.keys.end()) return hit->lkey;
    ibv::KeyEntry& entry = known.keys[known.victim++ % known.keys.size()];
    return ask_for_key(rxq.port_id, rxq.id, address, entry) ? entry.lkey : be32{ibv::no_lkey};
}

template <class Shared>
bool ask_for(Ask what, void* context) noexcept {
    const Shared& shared = *static_cast<Shared*>(context);
    return ask_primary({.ask = what, .port_id = shared.port_id, .queue = shared.id}).code == 0;
}
bool reset_wq(void* context) noexcept { return ask_for<SharedRxq>(Ask::reset_wq, context); }
bool ready_wq(void* context) noexcept { return ask_for<SharedRxq>(Ask::ready_wq, context); }
bool recover_qp(void* context) noexcept { return ask_for<SharedTxq>(Ask::recover_qp, context); }

void spare_low(void* context) noexcept {
    const SharedRxq& rxq = *static_cast<SharedRxq*>(context);
    tell_primary({.ask = Ask::spare_low, .port_id = rxq.port_id, .queue = rxq.id});
}

void enter_calls() noexcept {
    SharedCalls::of(SharedCall::lkey_of, lkey_of);
    SharedCalls::of(SharedCall::reset_wq, reset_wq);
    SharedCalls::of(SharedCall::ready_wq, ready_wq);
    SharedCalls::of(SharedCall::spare_low, spare_low);
    SharedCalls::of(SharedCall::find_key, find_key);
    SharedCalls::of(SharedCall::recover_qp, recover_qp);
    SharedCalls::of(SharedCall::has_header, mbufqp::encap_shape<mbufqp::Ethernet>().has_header);
    mprq::enter_shared_calls();
}

// Bursts.

pid_t this_process = 0;

/// A burst on a queue: as long as it lives the primary leaves the queue where it is.
template <class Shared>
class Visit {
  public:
    explicit Visit(Shared& shared) noexcept
        : shared_{shared} {
        // Before looking; withdraw() does it the other way round.
        shared.inside.store(this_process, std::memory_order_seq_cst);
        queue_ = shared.queue.load(std::memory_order_seq_cst);
    }
    ~Visit() { shared_.inside.store(0, std::memory_order_release); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    auto* queue() const noexcept { return queue_; } ///< nullptr: it does not run

  private:
    Shared& shared_;
    decltype(shared_.queue.load()) queue_{};
};

/// By slot of the window: what is mapped there.
std::array<std::atomic<std::uint32_t>, Window::uar_pages> mapped_generations{};

bool doorbell_is_here(const UarPlace& uar) noexcept {
    return uar.generation != 0 &&
           mapped_generations[uar.slot].load(std::memory_order_relaxed) == uar.generation;
}

/// The queue's doorbell page is not mapped here yet. False: it can't be; the packets are not taken.
[[gnu::cold, gnu::noinline]] bool map_doorbell(const SharedTxq& txq) noexcept {
    if (txq.uar.generation == 0) return false; // the primary has said why
    const Answer answer = ask_primary({.ask = Ask::command_fd, .port_id = txq.port_id, .queue = txq.id});
    Status status;
    if (answer.code != 0 || answer.fd < 0)
        status = Error{answer.code, strprintf("the primary process gives no command descriptor: %s",
                                              std::strerror(answer.code))};
    else
        status = Window::map_uar(txq.uar.slot, answer.fd, txq.uar.offset);
    if (answer.fd >= 0) close(answer.fd);
    if (status)
        mapped_generations[txq.uar.slot] = txq.uar.generation;
    else if (answer.code != EAGAIN)
        log_line(LogLevel::error, "port %u txq %u: %s", txq.port_id, txq.id, status.error().what.c_str());
    return status.ok();
}

std::uint16_t rx_burst(void* shared, rte_mbuf** packets, std::uint16_t count) noexcept {
    const Visit visit{*static_cast<SharedRxq*>(shared)};
    mprq::RxQueue* const queue = visit.queue();
    return queue != nullptr ? queue->burst()(queue, packets, count) : std::uint16_t{0};
}

std::uint16_t tx_burst(void* shared, rte_mbuf** packets, std::uint16_t count) noexcept {
    SharedTxq& txq = *static_cast<SharedTxq*>(shared);
    const Visit visit{txq};
    mbufqp::TxQueue* const queue = visit.queue();
    if (queue == nullptr) return 0;
    if (!doorbell_is_here(txq.uar) && !map_doorbell(txq)) [[unlikely]]
        return 0;
    return mbufqp::ethernet_burst(queue->features())(queue, packets, count);
}

std::uint16_t secondary_tx_prepare(void* shared, rte_mbuf** packets, std::uint16_t count) noexcept {
    const Visit visit{*static_cast<SharedTxq*>(shared)};
    return visit.queue() != nullptr ? tx_prepare(visit.queue(), packets, count) : count;
}

QueueCount secondary_rx_queue_count(void* shared) noexcept {
    const Visit visit{*static_cast<SharedRxq*>(shared)};
    return visit.queue() != nullptr ? rx_queue_count(visit.queue()) : QueueCount{0};
}

int secondary_rx_descriptor_status(void* shared, std::uint16_t offset) noexcept {
    const Visit visit{*static_cast<SharedRxq*>(shared)};
    return visit.queue() != nullptr ? rx_descriptor_status(visit.queue(), offset) : -EINVAL;
}

int secondary_tx_descriptor_status(void* shared, std::uint16_t offset) noexcept {
    const Visit visit{*static_cast<SharedTxq*>(shared)};
    return visit.queue() != nullptr ? tx_descriptor_status(visit.queue(), offset) : -EINVAL;
}

// Operations.

SecondaryPort& secondary_of(const rte_eth_dev* dev) noexcept {
    return *static_cast<SecondaryPort*>(dev->process_private);
}

int infos_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept {
    rte_device* const device = info->device; // ethdev's
    *info = secondary_of(dev).shared->info;
    info->device = device;
    return 0;
}

/// The primary keeps it up to date.
int keep_link(rte_eth_dev*, int) noexcept { return 0; }

int stats_by_primary(rte_eth_dev* dev, rte_eth_stats* stats, QueueStats* queues) noexcept {
    const PortShared& shared = *secondary_of(dev).shared;
    const Answer answer = ask_primary({.ask = Ask::stats, .port_id = dev->data->port_id});
    if (answer.code != 0) return -answer.code;
    *stats = shared.stats;
    if (queues == nullptr) return 0;
    std::copy_n(shared.queue_stats.q_ipackets, RTE_ETHDEV_QUEUE_STAT_CNTRS, queues->q_ipackets);
    std::copy_n(shared.queue_stats.q_ibytes, RTE_ETHDEV_QUEUE_STAT_CNTRS, queues->q_ibytes);
    std::copy_n(shared.queue_stats.q_opackets, RTE_ETHDEV_QUEUE_STAT_CNTRS, queues->q_opackets);
    std::copy_n(shared.queue_stats.q_obytes, RTE_ETHDEV_QUEUE_STAT_CNTRS, queues->q_obytes);
    std::copy_n(shared.queue_stats.q_errors, RTE_ETHDEV_QUEUE_STAT_CNTRS, queues->q_errors);
    return 0;
}

/// The port goes from this process. What may still be in a burst has a moment to leave it.
void leave(std::unique_ptr<SecondaryPort>& port) noexcept {
    static std::array<void*, RTE_MAX_QUEUES_PER_PORT> no_queues{};
    struct rte_eth_fp_ops& bursts = rte_eth_fp_ops[port->dev - rte_eth_devices];
    bursts.rx_pkt_burst = rte_eth_pkt_burst_dummy;
    bursts.tx_pkt_burst = rte_eth_pkt_burst_dummy;
    bursts.rxq.data = bursts.txq.data = no_queues.data();
    const auto inside = [](const auto& queue) { return queue.inside.load() == this_process; };
    const PortShared& shared = *port->shared;
    constexpr int most_ms = 1000;
    for (int ms = 0; ms < most_ms && (std::any_of(std::begin(shared.rxqs), std::end(shared.rxqs), inside) ||
                                      std::any_of(std::begin(shared.txqs), std::end(shared.txqs), inside));
         ++ms)
        rte_delay_us_sleep(1000);
    port->dev->process_private = nullptr;
    port.reset();
}

/// What ethdev does in this process when a port is released.
void forget(rte_eth_dev* dev) noexcept {
    dev->state = RTE_ETH_DEV_UNUSED;
    dev->device = nullptr;
    dev->dev_ops = nullptr;
    dev->rx_pkt_burst = nullptr;
    dev->tx_pkt_burst = nullptr;
}

int close_here(rte_eth_dev* dev) noexcept {
    if (dev->process_private != nullptr) leave(ports[static_cast<std::size_t>(dev - rte_eth_devices)]);
    return 0;
}

const eth_dev_ops& secondary_ops() noexcept {
    static const eth_dev_ops ops = [] {
        eth_dev_ops made{};
        made.dev_infos_get = infos_get;
        made.dev_close = close_here;
        made.link_update = keep_link;
        set_versioned_ops<stats_by_primary>(made);
        return made;
    }();
    return ops;
}

void set_bursts(rte_eth_dev* dev) noexcept {
    dev->rx_pkt_burst = rx_burst;
    dev->tx_pkt_burst = tx_burst;
    dev->tx_pkt_prepare = secondary_tx_prepare;
    dev->rx_queue_count = secondary_rx_queue_count;
    dev->rx_descriptor_status = secondary_rx_descriptor_status;
    dev->tx_descriptor_status = secondary_tx_descriptor_status;
}

Status check(const PortShared& shared) {
    if (shared.bytes != sizeof shared)
        return Error{ENOTSUP, "the primary process has another version of the plugin"};
    if (shared.window == nullptr)
        return Error{ENOTSUP, strprintf("the port is for the primary process alone: %s", shared.why_not)};
    if (shared.bind_ops_index != bind_ops_index())
        return Error{
            ENOTSUP,
            strprintf("mempool ops \"stride\" are number %d here and number %d in the primary process: "
                      "load the same plugins in the same order",
                      bind_ops_index(), shared.bind_ops_index)};
    return Window::open(shared.window);
}

Status attach(rte_eth_dev* dev, const char* name) {
    PortShared* const shared = static_cast<PortPrivate*>(dev->data->dev_private)->shared;
    if (shared == nullptr) return Error{ENODEV, "the primary process closes it"};
    if (auto status = check(*shared); !status) return status;
    enter_calls();
    this_process = getpid();
    shared->processes.fetch_add(1, std::memory_order_acq_rel);
    auto port = std::make_unique<SecondaryPort>();
    port->dev = dev;
    port->shared.reset(shared);
    port->name = name;
    for (std::uint16_t queue = 0; queue < max_queues; ++queue) {
        port->rxqs[queue] = &shared->rxqs[queue];
        port->txqs[queue] = &shared->txqs[queue];
    }
    dev->process_private = port.get();
    ports[dev->data->port_id] = std::move(port);
    return {};
}

} // namespace

Status attach_secondary(rte_vdev_device* vdev) {
    const char* const name = rte_vdev_device_name(vdev);
    rte_eth_dev* const dev = rte_eth_dev_attach_secondary(name);
    if (dev == nullptr) return Error{ENODEV, "the primary process has no such port"};
    dev->device = &vdev->device;
    if (auto status = attach(dev, name); !status) {
        rte_eth_dev_release_port(dev);
        return status;
    }
    dev->dev_ops = &secondary_ops();
    set_bursts(dev);
    rte_eth_dev_probing_finish(dev);
    // Queues as the primary shows them, whatever ethdev's arrays hold.
    struct rte_eth_fp_ops& bursts = rte_eth_fp_ops[dev->data->port_id];
    bursts.rxq.data = secondary_of(dev).rxqs.data();
    bursts.txq.data = secondary_of(dev).txqs.data();
    return {};
}

int detach_secondary(rte_vdev_device* vdev) noexcept {
    const char* const name = rte_vdev_device_name(vdev);
    for (auto& port : ports) {
        if (!port || port->name != name) continue;
        rte_eth_dev* const dev = port->dev;
        // The primary has closed the port: its number is wiped, and ethdev would take it for port 0.
        const bool is_closed = port->name != dev->data->name;
        leave(port);
        if (is_closed)
            forget(dev);
        else
            rte_eth_dev_release_port(dev);
        return 0;
    }
    return 0; // closed already
}

} // namespace stride::pmd
