// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/tx_queue.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "mbufqp/mbuf_free.hpp"
#include "mbufqp/tso.hpp"
#include "mlx5/doorbell.hpp"
#include "mlx5/wqe.hpp"

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_pause.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace stride::mbufqp {

namespace {

/// A CQE every so many packets that are held: few enough for the HCA, and no more than these wait for the
/// next.
constexpr std::uint32_t packets_per_cqe = 32;
/// Entries of the CQ that are never asked for: an error CQE comes without a request.
constexpr std::uint32_t spare_cqes = 2;
/// Ethernet header and tag: what min inline mode L2 asks for.
constexpr std::uint32_t max_demanded_inline_bytes = 18;
/// Bursts offered to a queue that could not be recovered, until it is tried again.
constexpr std::uint32_t bursts_per_recovery = 256;

std::uint32_t signal_mbufs(std::uint32_t mbufs) noexcept { return std::min(packets_per_cqe, mbufs / 4); }
std::uint32_t signal_wqebbs(std::uint32_t wqebbs) noexcept { return wqebbs / 4; }

/// Offloads that prepare() takes without a look at the queue's features: they describe headers.
constexpr std::uint64_t describing_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6;

std::uint64_t supported_flags(TxFeatures features) noexcept {
    std::uint64_t flags = describing_flags;
    if (features.has(TxFeature::checksum)) flags |= RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK;
    if (features.has(TxFeature::tso)) flags |= RTE_MBUF_F_TX_TCP_SEG;
    if (features.has(TxFeature::vlan_insert)) flags |= RTE_MBUF_F_TX_VLAN;
    return flags;
}

} // namespace

std::uint32_t TxQueue::cq_entries(std::uint32_t mbufs, std::uint32_t wqebbs) noexcept {
    const std::uint32_t packets = RingSize::at_least(std::max(mbufs, min_mbufs)).entries();
    const std::uint32_t blocks = RingSize::at_least(std::max(wqebbs, min_wqebbs)).entries();
    return packets / signal_mbufs(packets) + blocks / signal_wqebbs(blocks) + spare_cqes;
}

Status TxQueue::check(const TxQueueConfig& config) {
    const std::uint32_t wqebbs = config.sq.size.entries();
    if (wqebbs < min_wqebbs || wqebbs > max_entries)
        return Error{EINVAL, strprintf("send queue 0x%x: %u WQEBBs, takes %u to %u", config.sq.qpn.value,
                                       wqebbs, min_wqebbs, max_entries)};
    if (config.mbufs == 0 || config.mbufs > max_entries)
        return Error{EINVAL, strprintf("send queue 0x%x: %u mbufs in flight, takes 1 to %u",
                                       config.sq.qpn.value, config.mbufs, max_entries)};
    if (config.cq.size.entries() <= spare_cqes || (config.cq.cqe_bytes != 64 && config.cq.cqe_bytes != 128))
        return Error{EINVAL, strprintf("send queue 0x%x: CQ of %u CQEs of %u bytes", config.sq.qpn.value,
                                       config.cq.size.entries(), config.cq.cqe_bytes)};
    if (config.min_inline_bytes > max_demanded_inline_bytes)
        return Error{ENOTSUP,
                     strprintf("send queue 0x%x: device demands %u bytes inline, at most %u are done",
                               config.sq.qpn.value, config.min_inline_bytes, max_demanded_inline_bytes)};
    if (config.keys.find == nullptr || config.recovery.recover == nullptr)
        return Error{EINVAL, strprintf("send queue 0x%x: no key source or no recovery", config.sq.qpn.value)};
    return {};
}

Result<TxQueuePtr> TxQueue::create(const TxQueueConfig& config) {
    if (Status checked = check(config); !checked) return checked.take_error();
    void* memory = rte_zmalloc_socket("stride_txq", sizeof(TxQueue), alignof(TxQueue), config.socket);
    if (memory == nullptr)
        return Error{ENOMEM, strprintf("send queue 0x%x: no memory for the queue", config.sq.qpn.value)};
    TxQueuePtr queue{new (memory) TxQueue};
    if (Status allocated = queue->allocate(config); !allocated) return allocated.take_error();
    queue->set_up(config);
    return queue;
}

void TxQueueDelete::operator()(TxQueue* queue) const noexcept {
    // What is still in flight is freed all the same; the owner has stopped the QP.
    if (queue->hot_.mbufs != nullptr) queue->free_to(nullptr, queue->hot_.mbuf_head);
    rte_free(queue->hot_.mbufs);
    rte_free(queue->hot_.records);
    queue->~TxQueue();
    rte_free(queue);
}

Status TxQueue::allocate(const TxQueueConfig& config) {
    const std::uint32_t mbufs = RingSize::at_least(std::max(config.mbufs, min_mbufs)).entries();
    const std::uint32_t wqebbs = config.sq.size.entries();
    hot_.mbufs = static_cast<rte_mbuf**>(
        rte_zmalloc_socket("stride_txq_mbufs", mbufs * sizeof(rte_mbuf*), 64, config.socket));
    hot_.records = static_cast<WqeRecord*>(
        rte_zmalloc_socket("stride_txq_wqes", wqebbs * sizeof(WqeRecord), 64, config.socket));
    if (hot_.mbufs == nullptr || hot_.records == nullptr)
        return Error{ENOMEM, strprintf("send queue 0x%x: no memory for %u mbufs and %u WQEBBs",
                                       config.sq.qpn.value, mbufs, wqebbs)};
    hot_.mbuf_mask = static_cast<std::uint16_t>(mbufs - 1);
    hot_.wqebb_mask = static_cast<std::uint16_t>(wqebbs - 1);
    return {};
}

void TxQueue::set_up(const TxQueueConfig& config) noexcept {
    hot_.wqebbs = config.sq.wqebbs;
    hot_.dbrec = config.sq.dbrec;
    hot_.doorbell = config.sq.doorbell;
    hot_.flush_doorbell = config.sq.bf_bytes != 0;
    hot_.qpn = config.sq.qpn;
    hot_.signal_mbufs = static_cast<std::uint16_t>(signal_mbufs(hot_.mbuf_mask + 1U));
    hot_.signal_wqebbs = static_cast<std::uint16_t>(signal_wqebbs(hot_.wqebb_mask + 1U));
    hot_.cq = mlx5::CqCursor{config.cq};
    hot_.max_signalled =
        static_cast<std::uint16_t>(std::min(config.cq.size.entries() - spare_cqes, max_entries));
    hot_.max_frame_bytes = config.max_frame_bytes;
    hot_.max_tso_bytes = config.max_tso_bytes;
    hot_.min_inline_bytes = static_cast<std::uint8_t>(config.min_inline_bytes);
    hot_.inline_max_bytes = static_cast<std::uint16_t>(std::min(config.inline_max_bytes, 0xffffU));
    hot_.encap_context = config.encap_context;
    hot_.generation = config.keys.generation;
    if (hot_.generation != nullptr) hot_.key_generation = hot_.generation->load(std::memory_order_acquire);
    TxFeatures features = config.features;
    if (config.min_inline_bytes != 0) features |= TxFeature::inline_header;
    cold_.features = canonical(features);
    cold_.encap = config.encap;
    cold_.keys = config.keys;
    cold_.recovery = config.recovery;
}

/// Frees the mbufs in flight up to index `end`.
void TxQueue::free_to(rte_mempool* home, std::uint16_t end) noexcept {
    while (hot_.mbuf_tail != end) {
        const std::uint32_t slot = hot_.mbuf_tail & unsigned{hot_.mbuf_mask};
        const std::uint32_t left = static_cast<std::uint16_t>(end - hot_.mbuf_tail);
        const std::uint32_t count = std::min(left, hot_.mbuf_mask + 1U - slot);
        if (home != nullptr)
            free_run_fast(home, hot_.mbufs + slot, count);
        else
            free_run(hot_.mbufs + slot, count);
        hot_.mbuf_tail = static_cast<std::uint16_t>(hot_.mbuf_tail + count);
    }
}

/// All up to the WQE that starts at index `counter` is done; false if no WQE in flight starts there.
bool TxQueue::complete(std::uint16_t counter) noexcept {
    const auto in_ring = static_cast<std::uint16_t>(hot_.pi - hot_.ci);
    if (static_cast<std::uint16_t>(counter - hot_.ci) >= in_ring || record_at(counter).start != counter)
        [[unlikely]]
        return false;
    rte_mempool* home = nullptr;
    std::uint16_t run_end = hot_.mbuf_tail;
    const std::uint16_t done = record_at(counter).pi;
    // What was inlined is free already.
    if (record_at(counter).mbuf_head == hot_.mbuf_tail) hot_.ci = done;
    while (hot_.ci != done) {
        const WqeRecord& record = record_at(hot_.ci);
        hot_.ci = record.pi;
        if (record.mbuf_head == run_end) continue;
        if (record.home != home) {
            free_to(home, run_end);
            home = record.home;
        }
        run_end = record.mbuf_head;
    }
    free_to(home, run_end);
    return true;
}

void TxQueue::reclaim(std::uint32_t max_cqes) noexcept {
    std::uint32_t consumed = 0;
    mlx5::SendCqeKind kind = mlx5::SendCqeKind::hardware;
    while (consumed < max_cqes) {
        kind = mlx5::send_cqe_kind(hot_.cq, consumed);
        if (kind != mlx5::SendCqeKind::done) break;
        ++consumed;
    }
    // A CQE that nobody asked for is as senseless as one of an odd kind.
    bool sane = kind == mlx5::SendCqeKind::done || kind == mlx5::SendCqeKind::hardware;
    if (consumed != 0) {
        const std::uint16_t counter = mlx5::send_wqe_counter(hot_.cq, hot_.cq.ci() + consumed - 1);
        sane = sane && consumed <= hot_.signalled;
        hot_.cq.consume(consumed);
        hot_.signalled = static_cast<std::uint16_t>(hot_.signalled - consumed);
        hot_.cq.publish();
        cold_.completions.add(consumed);
        sane = complete(counter) && sane;
    }
    if (!sane) [[unlikely]]
        recover();
}

std::uint32_t TxQueue::done_cleanup(std::uint32_t free_count) noexcept {
    const std::uint32_t before = in_flight();
    while (!hot_.broken && mlx5::send_cqe_kind(hot_.cq) != mlx5::SendCqeKind::hardware) {
        reclaim(1);
        if (free_count != 0 && before - in_flight() >= free_count) break;
    }
    if (hot_.unsignalled_wqebbs != 0) post_nop();
    return before - in_flight();
}

void TxQueue::reclaim_all() noexcept {
    while (!hot_.broken && mlx5::send_cqe_kind(hot_.cq) != mlx5::SendCqeKind::hardware)
        reclaim(reclaim_max_cqes);
}

bool TxQueue::drain(std::uint32_t polls) noexcept {
    const auto idle = [this] { return packets_posted() == 0; };
    for (std::uint32_t i = 0; i < polls && !idle() && !hot_.broken; ++i) {
        if (hot_.unsignalled_wqebbs != 0) post_nop();
        rte_pause();
        reclaim_all();
    }
    return idle();
}

/// Packets of WQEs that are not known to be done.
std::uint32_t TxQueue::packets_posted() const noexcept {
    std::uint32_t packets = 0;
    for (std::uint16_t at = hot_.ci; at != hot_.pi;) {
        const WqeRecord& record = record_at(at);
        packets += record.packets;
        at = record.pi;
    }
    return packets;
}

void TxQueue::post_nop() noexcept {
    const bool room = static_cast<std::uint16_t>(hot_.pi - hot_.ci) <= hot_.wqebb_mask;
    if (hot_.broken || !room || hot_.signalled >= hot_.max_signalled) return;
    const std::uint32_t slot = hot_.pi & unsigned{hot_.wqebb_mask};
    std::byte* wqe = hot_.wqebbs + std::size_t{slot} * mlx5::wqebb_bytes;
    mlx5::write_control_segment(
        wqe, mlx5::control_segment(mlx5::SendOpcode::nop, hot_.pi, hot_.qpn, 1, mlx5::CqeMode::always));
    hot_.pi = static_cast<std::uint16_t>(hot_.pi + 1);
    hot_.records[slot] = {
        .pi = hot_.pi, .mbuf_head = hot_.mbuf_head, .start = static_cast<std::uint16_t>(hot_.pi - 1)};
    ++hot_.signalled;
    hot_.unsignalled_wqebbs = 0;
    hot_.unsignalled_mbufs = 0;
    mlx5::ring_send_doorbell(hot_.dbrec, hot_.doorbell, hot_.pi, wqe);
    if (hot_.flush_doorbell) flush_doorbell();
    hot_.wqes.add(1);
    hot_.doorbells.add(1);
}

void TxQueue::reset() noexcept {
    cold_.dropped.add(packets_posted());
    free_to(nullptr, hot_.mbuf_head);
    rewind();
}

void TxQueue::park() noexcept {
    reset();
    hot_.broken = true;
    cold_.broken_bursts = 0;
}

void TxQueue::rewind() noexcept {
    hot_.pi = hot_.ci = 0;
    std::fill_n(hot_.records, hot_.wqebb_mask + 1U, WqeRecord{}); // none is taken for one of the next lap
    hot_.unsignalled_wqebbs = hot_.unsignalled_mbufs = 0;
    hot_.signalled = 0;
    hot_.broken = false;
    store_to_device(hot_.dbrec, be32{0});
    skip_cqes();
}

/// CQEs of what was posted before a reset say nothing any more.
void TxQueue::skip_cqes() noexcept {
    while (mlx5::send_cqe_kind(hot_.cq) != mlx5::SendCqeKind::hardware)
        hot_.cq.consume();
    hot_.cq.publish();
}

void TxQueue::recover() noexcept {
    if (hot_.broken && ++cold_.broken_bursts % bursts_per_recovery != 0) return;
    if (!hot_.broken) {
        cold_.error_cqes.add(1);
        if (mlx5::send_cqe_kind(hot_.cq) == mlx5::SendCqeKind::error) {
            // All before the WQE that failed is sent: packets from its first on are lost.
            const std::uint16_t failed = mlx5::send_wqe_counter(hot_.cq, hot_.cq.ci());
            while (hot_.ci != failed && hot_.ci != hot_.pi)
                complete(hot_.ci);
        }
        hot_.broken = true;
        cold_.broken_bursts = 0;
    }
    // Until the QP has left the error state the HCA may still read what it was given.
    if (!cold_.recovery.recover(cold_.recovery.context)) return;
    cold_.errors.add(packets_posted());
    free_to(nullptr, hot_.mbuf_head);
    rewind();
    cold_.recoveries.add(1);
}

std::uint32_t TxQueue::write_avail() const noexcept {
    if (hot_.broken) return 0;
    const std::uint32_t packets = hot_.mbuf_mask + 1U - in_flight();
    const std::uint32_t wqebbs = hot_.wqebb_mask + 1U - static_cast<std::uint16_t>(hot_.pi - hot_.ci);
    return std::min(packets, wqebbs / cold_.encap.usual_wqebbs);
}

int TxQueue::descriptor_status(std::uint16_t offset) noexcept {
    const std::uint32_t entries = hot_.mbuf_mask + 1U;
    if (offset >= entries) return -EINVAL;
    reclaim_all();
    return offset < entries - in_flight() ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

/// Why put would not take the packet, as far as its shape and flags tell; `count`: nothing.
TxRefusal TxQueue::check(const rte_mbuf& mbuf) const noexcept {
    // An SCTP checksum is a CRC-32c, which the HCA does not do.
    const bool sctp = (mbuf.ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_SCTP_CKSUM;
    if ((mbuf.ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK & ~supported_flags(cold_.features)) != 0 || sctp)
        return TxRefusal::offload;
    std::uint32_t max_segments = cold_.features.has(TxFeature::multi_segment)
                                     ? mlx5::max_wqe_ds - cold_.encap.own_ds(cold_.features)
                                     : 1;
    if ((mbuf.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
        const TxRefusal wrong = check_tso(mbuf, {hot_.max_frame_bytes, hot_.max_tso_bytes});
        if (wrong != TxRefusal::count) return wrong;
        const std::uint32_t tag_bytes = (mbuf.ol_flags & RTE_MBUF_F_TX_VLAN) != 0 ? vlan_tag_bytes : 0;
        max_segments = mlx5::max_wqe_ds - tso_head_ds(tso_header_bytes(mbuf) + tag_bytes);
    } else if (mbuf.pkt_len < cold_.encap.min_frame_bytes) {
        return TxRefusal::too_short;
    } else if (mbuf.pkt_len > hot_.max_frame_bytes) {
        return TxRefusal::too_long;
    }
    return mbuf.nb_segs > max_segments ? TxRefusal::too_many_segments : TxRefusal::count;
}

std::uint16_t TxQueue::prepare(rte_mbuf** mbufs, std::uint16_t count, TxRefusal& reason) noexcept {
    for (std::uint16_t i = 0; i < count; ++i) {
        const TxRefusal wrong = check(*mbufs[i]);
        if (wrong == TxRefusal::count) continue;
        reason = wrong;
        refuse(wrong);
        return i;
    }
    return count;
}

bool TxQueue::find_key(std::uintptr_t address, std::uint32_t bytes) noexcept {
    const auto covers = [=](const ibv::KeyEntry& entry) {
        const std::size_t offset = address - entry.range.base;
        return offset <= entry.range.bytes && bytes <= entry.range.bytes - offset && entry.range.bytes != 0;
    };
    const auto spare = std::find_if(cold_.spare_keys.begin(), cold_.spare_keys.end(), covers);
    if (spare != cold_.spare_keys.end()) {
        std::swap(*spare, hot_.key);
        return true;
    }
    cold_.key_misses.add(1);
    ibv::KeyEntry found;
    if (!cold_.keys.find(cold_.keys.context, address, found) || !covers(found)) return false;
    cold_.spare_keys[cold_.key_victim++ % cold_.spare_keys.size()] = std::exchange(hot_.key, found);
    return true;
}

void TxQueue::forget_keys() noexcept {
    hot_.key_generation = hot_.generation->load(std::memory_order_acquire);
    hot_.key = {};
    cold_.spare_keys.fill({});
}

TxStats TxQueue::totals() const noexcept {
    TxStats now{.packets = hot_.packets.read(),
                .bytes = hot_.bytes.read(),
                .wqes = hot_.wqes.read(),
                .doorbells = hot_.doorbells.read(),
                .completions = cold_.completions.read(),
                .full = cold_.full.read(),
                .inlined = cold_.inlined.read(),
                .errors = cold_.errors.read(),
                .error_cqes = cold_.error_cqes.read(),
                .recoveries = cold_.recoveries.read(),
                .dropped = cold_.dropped.read(),
                .key_misses = cold_.key_misses.read()};
    for (std::size_t i = 0; i < tx_refusals; ++i)
        now.refused[i] = cold_.refused[i].read();
    return now;
}

void TxQueue::refuse(TxRefusal reason) noexcept { cold_.refused[static_cast<std::size_t>(reason)].add(1); }

} // namespace stride::mbufqp
