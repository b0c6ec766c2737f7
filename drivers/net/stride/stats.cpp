// SPDX-License-Identifier: BSD-3-Clause
// Counters: ethdev's totals, and every counter of the queues as xstats. Any thread.
#include "ops.hpp"

#include "base/format.hpp"

#include <string>
#include <type_traits>

namespace stride::pmd {
namespace {

using mbufqp::TxStats;
using mprq::RxStats;

template <class Stats>
struct Counter {
    const char* name;
    std::uint64_t Stats::*member;
    bool gauge{}; ///< a state, not a sum over starts
};

// packets and bytes by queue come from ethdev itself (RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS).
constexpr Counter<RxStats> rx_counters[] = {
    {"attached", &RxStats::attached},
    {"direct", &RxStats::direct},
    {"copied_short", &RxStats::copied_short},
    {"copied_no_spare", &RxStats::copied_no_spare},
    {"copied_no_headroom", &RxStats::copied_no_headroom},
    {"copied_asked", &RxStats::copied_asked},
    {"scattered", &RxStats::scattered},
    {"fillers", &RxStats::fillers},
    {"filler_strides", &RxStats::filler_strides},
    {"wqes_posted", &RxStats::wqes_posted},
    {"doorbells", &RxStats::doorbells},
    {"dropped_no_mbuf", &RxStats::dropped_no_mbuf},
    {"dropped_oversize", &RxStats::dropped_oversize},
    {"dropped_no_room", &RxStats::dropped_no_room},
    {"dropped_error", &RxStats::dropped_error},
    {"dropped_bad_cqe", &RxStats::dropped_bad_cqe},
    {"discarded_at_stop", &RxStats::discarded_at_stop},
    {"recoveries", &RxStats::recoveries},
    {"failed_recoveries", &RxStats::failed_recoveries},
    {"mbuf_shortages", &RxStats::mbuf_shortages},
    {"compressed_cqes", &RxStats::compressed},
    {"key_misses", &RxStats::key_misses},
    {"buffers_total", &RxStats::buffers_total, true},
    {"buffers_posted", &RxStats::buffers_posted, true},
    {"buffers_spare", &RxStats::buffers_spare, true},
    {"buffers_held", &RxStats::buffers_held, true},
    {"buffer_bytes", &RxStats::buffer_bytes, true},
};

constexpr Counter<TxStats> tx_counters[] = {
    {"wqes", &TxStats::wqes},
    {"doorbells", &TxStats::doorbells},
    {"completions", &TxStats::completions},
    {"full", &TxStats::full},
    {"inlined", &TxStats::inlined},
    {"lost", &TxStats::errors},
    {"error_cqes", &TxStats::error_cqes},
    {"recoveries", &TxStats::recoveries},
    {"dropped_at_reset", &TxStats::dropped},
    {"key_misses", &TxStats::key_misses},
};

void add(RxStats& sum, const RxStats& more, bool gauges) noexcept {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    for (const auto& counter : rx_counters)
        if (gauges || !counter.gauge) sum.*counter.member += more.*counter.member;
}

void add(TxStats& sum, const TxStats& more, bool) noexcept {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    for (const auto& counter : tx_counters)
        sum.*counter.member += more.*counter.member;
    for (std::size_t i = 0; i < mbufqp::tx_refusals; ++i)
        sum.refused[i] += more.refused[i];
}

/// Counters of a queue over all starts; the port's mutex is held.
template <class Slot>
auto stats_of(const Slot& slot) noexcept {
    auto sum = slot.past;
    if (slot.running && slot.running->queue) add(sum, slot.running->queue->stats(), true);
    if constexpr (std::is_same_v<Slot, RxSlot>) {
        if (!is_encapsulated(slot.port->args.encap)) return sum;
        // The queue counts what is on the wire.
        const RxFrameCounts frames = frame_counts(slot.encapsulated);
        sum.packets = frames.packets;
        sum.bytes = frames.bytes;
    }
    return sum;
}

template <class Slots>
auto total_of(const Slots& slots) noexcept {
    decltype(stats_of(*slots[0])) sum{};
    for (const auto& slot : slots)
        if (slot) add(sum, stats_of(*slot), true);
    return sum;
}

std::uint64_t out_of_buffer(const Port& port) noexcept {
    const auto now = port.device->hw_counter("out_of_buffer");
    return now ? now.value() - port.out_of_buffer_base : 0;
}

/// Walks all xstats in their fixed order: totals, then queue by queue. `visit(prefix, name, value)`.
template <class Visit>
void visit_rx(const char* prefix, const RxStats& stats, Visit& visit) {
    for (const auto& counter : rx_counters)
        visit(prefix, counter.name, stats.*counter.member);
}

template <class Visit>
void visit_tx(const char* prefix, const TxStats& stats, Visit& visit) {
    for (const auto& counter : tx_counters)
        visit(prefix, counter.name, stats.*counter.member);
    for (std::size_t i = 0; i < mbufqp::tx_refusals; ++i) {
        const std::string name = strprintf("refused_%s", mbufqp::tx_refusal_names[i]);
        visit(prefix, name.c_str(), stats.refused[i]);
    }
}

/// Of ports with an encap, by the kernel's names.
constexpr std::size_t encap_counters = mbufqp::rx_drops + 2;

template <class Visit>
void visit_encap(const Port& port, const TxStats& tx, Visit& visit) {
    for (std::size_t i = 0; i < mbufqp::rx_drops; ++i) {
        std::uint64_t sum = 0;
        for (const auto& slot : port.rxqs)
            if (slot) sum += frame_counts(slot->encapsulated).drops[i];
        visit("", mbufqp::rx_drop_names[i], sum);
    }
    const auto refused = [&tx](mbufqp::TxRefusal reason) {
        return tx.refused[static_cast<std::size_t>(reason)];
    };
    visit("", "tx_dlid_zero", refused(mbufqp::TxRefusal::no_address));
    visit("", "tx_drop_state", refused(mbufqp::TxRefusal::not_forwarding));
}

template <class Visit>
void visit_all(Port& port, Visit visit) {
    const std::lock_guard lock{port.mutex};
    visit("rx_", "out_of_buffer", out_of_buffer(port));
    visit_rx("rx_", total_of(port.rxqs), visit);
    visit_tx("tx_", total_of(port.txqs), visit);
    if (is_encapsulated(port.args.encap)) visit_encap(port, total_of(port.txqs), visit);
    for (std::size_t i = 0; i < port.rxqs.size(); ++i) {
        const std::string prefix = strprintf("rx_q%zu_", i);
        visit_rx(prefix.c_str(), port.rxqs[i] ? stats_of(*port.rxqs[i]) : RxStats{}, visit);
    }
    for (std::size_t i = 0; i < port.txqs.size(); ++i) {
        const std::string prefix = strprintf("tx_q%zu_", i);
        visit_tx(prefix.c_str(), port.txqs[i] ? stats_of(*port.txqs[i]) : TxStats{}, visit);
    }
}

unsigned xstats_count(const Port& port) noexcept {
    constexpr std::size_t rx = std::size(rx_counters);
    constexpr std::size_t tx = std::size(tx_counters) + mbufqp::tx_refusals;
    const std::size_t encap = is_encapsulated(port.args.encap) ? encap_counters : 0;
    return static_cast<unsigned>(1 + encap + (1 + port.rxqs.size()) * rx + (1 + port.txqs.size()) * tx);
}

void fill_queue_stats(const Port& port, QueueStats& queues) noexcept {
    for (std::size_t i = 0; i < port.rxqs.size() && i < RTE_ETHDEV_QUEUE_STAT_CNTRS; ++i) {
        if (!port.rxqs[i]) continue;
        const RxStats stats = stats_of(*port.rxqs[i]);
        queues.q_ipackets[i] = stats.packets;
        queues.q_ibytes[i] = stats.bytes;
        queues.q_errors[i] = stats.dropped() + frame_counts(port.rxqs[i]->encapsulated).errors();
    }
    for (std::size_t i = 0; i < port.txqs.size() && i < RTE_ETHDEV_QUEUE_STAT_CNTRS; ++i) {
        if (!port.txqs[i]) continue;
        const TxStats stats = stats_of(*port.txqs[i]);
        queues.q_opackets[i] = stats.packets;
        queues.q_obytes[i] = stats.bytes;
    }
}

} // namespace

int stats_get(rte_eth_dev* dev, rte_eth_stats* stats, QueueStats* queues) noexcept {
    Port& port = port_of(dev);
    const std::lock_guard lock{port.mutex};
    const RxStats rx = total_of(port.rxqs);
    const TxStats tx = total_of(port.txqs);
    stats->ipackets = rx.packets;
    stats->ibytes = rx.bytes;
    stats->imissed = out_of_buffer(port);
    stats->ierrors = rx.dropped() - rx.dropped_no_mbuf;
    for (const auto& slot : port.rxqs)
        if (slot) stats->ierrors += frame_counts(slot->encapsulated).errors();
    stats->opackets = tx.packets - tx.errors - tx.dropped;
    stats->obytes = tx.bytes;
    stats->oerrors = tx.errors + tx.dropped;
    // ethdev adds its own count of failed allocations into rx_nombuf.
    dev->data->rx_mbuf_alloc_failed = rx.dropped_no_mbuf;
    if (queues != nullptr) fill_queue_stats(port, *queues);
    return 0;
}

int stats_reset(rte_eth_dev* dev) noexcept {
    Port& port = port_of(dev);
    const std::lock_guard lock{port.mutex};
    for (const auto& slot : port.rxqs) {
        if (!slot) continue;
        slot->past = {};
        slot->encapsulated.base = counts_of(slot->encapsulated.frames);
        if (slot->running && slot->running->queue) slot->running->queue->reset_stats();
    }
    for (const auto& slot : port.txqs) {
        if (!slot) continue;
        slot->past = {};
        if (slot->running && slot->running->queue) slot->running->queue->reset_stats();
    }
    port.out_of_buffer_base += out_of_buffer(port);
    return 0;
}

int xstats_get(rte_eth_dev* dev, rte_eth_xstat* stats, unsigned count) noexcept {
    Port& port = port_of(dev);
    const unsigned needed = xstats_count(port);
    if (stats == nullptr || count < needed) return static_cast<int>(needed);
    unsigned next = 0;
    visit_all(port, [&](const char*, const char*, std::uint64_t value) {
        stats[next] = {.id = next, .value = value};
        ++next;
    });
    return static_cast<int>(needed);
}

int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count) noexcept {
    Port& port = port_of(dev);
    const unsigned needed = xstats_count(port);
    if (names == nullptr || count < needed) return static_cast<int>(needed);
    unsigned next = 0;
    visit_all(port, [&](const char* prefix, const char* name, std::uint64_t) {
        const std::string full = strprintf("%s%s", prefix, name);
        auto& field = names[next].name;
        field[full.copy(field, sizeof field - 1)] = '\0';
        ++next;
    });
    return static_cast<int>(needed);
}

void keep_stats(RxSlot& slot) noexcept { add(slot.past, slot.running->queue->stats(), false); }
void keep_stats(TxSlot& slot) noexcept { add(slot.past, slot.running->queue->stats(), false); }

} // namespace stride::pmd
