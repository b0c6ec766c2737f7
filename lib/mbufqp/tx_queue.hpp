// SPDX-License-Identifier: BSD-3-Clause
/// One send queue: mbufs in, WQEs out, mbufs freed when the HCA is done with them.
///
/// A queue works on ring views (mlx5/rings.hpp) and owns what it was given to send, never the rings. One
/// thread at a time uses it; stats() may be read from any. Taken mbufs are freed exactly once: on completion,
/// on an error of the queue, or on reset().
#pragma once

#include "base/counter.hpp"
#include "base/result.hpp"
#include "ibv/key_table.hpp"
#include "mbufqp/encap/ethernet.hpp"
#include "mbufqp/encap/header.hpp"
#include "mbufqp/tx_flags.hpp"
#include "mbufqp/tx_stats.hpp"
#include "mlx5/rings.hpp"
#include "mlx5/send_cqe.hpp"

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace stride::mbufqp {

/// Where a queue asks for the key of memory that its own cache does not know.
struct KeySource {
    /// Fills `entry` with a range that contains `address`; false: there is no key. May lock and allocate.
    bool (*find)(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept {};
    void* context{};
    /// Grows whenever a range is forgotten; nullptr: never. Read once a burst.
    const std::atomic<std::uint32_t>* generation{};
};

/// Brings the QP from error (or whatever state) through RESET to RTS; false if that failed, to be tried
/// again. Called by put on its thread.
struct QpRecovery {
    bool (*recover)(void* context) noexcept {};
    void* context{};
};

struct TxQueueConfig {
    mlx5::SqRing sq{};                ///< at least min_wqebbs, QP in RESET or idle RTS
    mlx5::CqRing cq{};                ///< of this queue alone, uncompressed, at least cq_entries()
    std::uint32_t mbufs{512};         ///< packets in flight at most; rounded up to a power of two, 64..32768
    TxFeatures features{};            ///< made canonical
    std::uint32_t min_inline_bytes{}; ///< header bytes the device demands inline, 0..18; sets inline_header
    std::uint32_t inline_max_bytes{}; ///< inline_frames: longest frame copied into a WQE
    std::uint32_t max_frame_bytes{1518}; ///< longest frame taken, without FCS and inserted tag
    std::uint32_t max_tso_bytes{};       ///< tso: longest payload of a packet to be segmented
    KeySource keys{};
    QpRecovery recovery{};
    EncapShape encap{encap_shape<Ethernet>()}; ///< encap_shape<E>() of the encap whose burst is used
    const void* encap_context{};               ///< of the encap's own type; outlives the queue
    int socket{-1};                            ///< NUMA node of the queue's memory, -1: any
};

/// A WQE in flight, kept at the WQEBB where it starts.
struct WqeRecord {
    rte_mempool*
        home{};         ///< of all its mbufs, which may go there unseen; nullptr: look at each (sent_run.hpp)
    std::uint16_t pi{}; ///< index of the WQE behind it
    std::uint16_t mbuf_head{}; ///< index of the first mbuf in flight behind its own
    std::uint16_t packets{};   ///< that it sends; those inlined may be free already
    std::uint16_t start{};     ///< its own index
};

/// What the burst touches; three cache lines by use. Counters that the burst writes are at the end.
struct alignas(64) TxHot {
    // Line 0: posting.
    std::byte* wqebbs{};
    rte_mbuf** mbufs{};   ///< ring of packets in flight
    WqeRecord* records{}; ///< one per WQEBB
    be32* dbrec{};
    std::byte* doorbell{};
    std::uint16_t pi{}, ci{};               ///< WQEBBs, free-running
    std::uint16_t mbuf_head{}, mbuf_tail{}; ///< packets, free-running
    std::uint16_t wqebb_mask{}, mbuf_mask{};
    std::uint16_t unsignalled_wqebbs{};            ///< since the last WQE that asked for a CQE
    std::uint16_t unsignalled_mbufs{};             ///< held by those
    std::uint16_t signal_wqebbs{}, signal_mbufs{}; ///< ask for a CQE at so many
    std::uint16_t signalled{}, max_signalled{};    ///< CQEs to come; at most
    // Line 1: completion and keys.
    mlx5::CqCursor cq{};
    Qpn qpn{};
    std::uint32_t key_generation{};
    ibv::KeyEntry key{}; ///< the last one that hit
    // Line 2: counters and what is rarely needed.
    Counter packets, bytes, wqes, doorbells;
    const std::atomic<std::uint32_t>* generation{};
    const void* encap_context{};
    std::uint32_t max_frame_bytes{};
    std::uint32_t max_tso_bytes{};
    std::uint16_t inline_max_bytes{};
    std::uint8_t min_inline_bytes{};
    bool flush_doorbell{}; ///< the UAR is write-combining
    bool broken{};         ///< the QP could not be recovered yet; nothing is posted
};
static_assert(sizeof(TxHot) <= 3 * 64, "the hot part of a send queue is three cache lines");
static_assert(offsetof(TxHot, cq) == 64, "line 0 is for posting");
static_assert(offsetof(TxHot, packets) == 128, "line 2 starts with the counters");

class TxQueue;

/// Takes packets from the front of `mbufs`; returns how many. Stops at the first that there is no room for or
/// that it refuses (counted by reason). `queue` is a TxQueue; the type is ethdev's eth_tx_burst_t.
using TxBurst = std::uint16_t (*)(void* queue, rte_mbuf** mbufs, std::uint16_t count);

struct TxQueueDelete {
    void operator()(TxQueue* queue) const noexcept;
};
using TxQueuePtr = std::unique_ptr<TxQueue, TxQueueDelete>;

class TxQueue {
  public:
    static constexpr std::uint32_t min_wqebbs = 64;
    static constexpr std::uint32_t min_mbufs = 64;
    static constexpr std::uint32_t max_entries = 32768;
    /// CQEs consumed in one burst at most: frees come in portions.
    static constexpr std::uint32_t reclaim_max_cqes = 32;

    /// CQEs that a CQ for such a queue needs.
    static std::uint32_t cq_entries(std::uint32_t mbufs, std::uint32_t wqebbs) noexcept;

    /// Memory from rte_malloc. EINVAL with what is wrong; ENOMEM. The rings must outlive the queue.
    static Result<TxQueuePtr> create(const TxQueueConfig& config);
    TxQueue(const TxQueue&) = delete;
    TxQueue& operator=(const TxQueue&) = delete;

    /// The features the queue was made with, canonical.
    TxFeatures features() const noexcept { return cold_.features; }

    /// Frees what the HCA has completed; asks for the rest to complete (a NOP with a CQE) so that a later
    /// call finds it. Returns packets freed, at most about `free_count` (0: all there are). For
    /// tx_done_cleanup.
    std::uint32_t done_cleanup(std::uint32_t free_count) noexcept;
    /// Frees what the HCA has completed; asks for nothing.
    void reclaim_all() noexcept;
    /// Waits until everything posted is completed, at most `polls` looks at the CQ. False if not.
    bool drain(std::uint32_t polls) noexcept;
    /// Frees everything, sent or not, and starts the indices at 0. The QP must be in RESET (nobody reads the
    /// WQEs any more); the CQ is emptied and goes on.
    void reset() noexcept;
    /// The same, and takes nothing until the next reset(); the recovery says no meanwhile.
    void park() noexcept;

    /// Mbufs held until the HCA is done with them.
    std::uint32_t in_flight() const noexcept {
        return static_cast<std::uint16_t>(hot_.mbuf_head - hot_.mbuf_tail);
    }
    /// Single-segment packets that put takes now (with neither tag nor anything else that an encap widens).
    std::uint32_t write_avail() const noexcept;
    /// ethdev's tx_descriptor_status: `offset` descriptors behind the next to be used; RTE_ETH_TX_DESC_DONE,
    /// _FULL, or -EINVAL beyond the ring.
    int descriptor_status(std::uint16_t offset) noexcept;

    /// Index of the first mbuf that put would refuse, `count` if none; `reason` says why. Looks at each
    /// mbuf's shape and flags; for tx_prepare.
    std::uint16_t prepare(rte_mbuf** mbufs, std::uint16_t count, TxRefusal& reason) noexcept;

    TxStats stats() const noexcept { return totals().since(cold_.baseline); }
    /// Counters go on from 0; any thread, one at a time.
    void reset_stats() noexcept { cold_.baseline = totals(); }

    /// Changes the longest frame taken (MTU); the queue must be stopped.
    void set_max_frame_bytes(std::uint32_t bytes) noexcept { hot_.max_frame_bytes = bytes; }

    // For the burst (tx_burst.hpp).
    TxHot& hot() noexcept { return hot_; }
    /// Finds `address` in the cache behind hot().key or at the source and puts it into hot().key.
    [[gnu::cold, gnu::noinline]] bool find_key(std::uintptr_t address, std::uint32_t bytes) noexcept;
    [[gnu::cold, gnu::noinline]] void forget_keys() noexcept;
    /// An error or senseless CQE, or a QP still broken: recovers, frees and counts all in flight.
    [[gnu::cold, gnu::noinline]] void recover() noexcept;
    [[gnu::cold, gnu::noinline]] void refuse(TxRefusal reason) noexcept;
    void count_full() noexcept { cold_.full.add(1); }
    void count_inlined(std::uint32_t frames) noexcept { cold_.inlined.add(frames); }
    /// Consumes up to `max_cqes` CQEs and frees what they complete. Leaves by recover() if a CQE is not
    /// plain.
    void reclaim(std::uint32_t max_cqes) noexcept;

  private:
    struct Cold {
        TxFeatures features{};
        EncapShape encap{};
        TxStats baseline{};
        KeySource keys{};
        QpRecovery recovery{};
        std::array<ibv::KeyEntry, 8> spare_keys{}; ///< replaced in turn
        std::uint32_t key_victim{};
        std::uint32_t broken_bursts{}; ///< since recovery last failed
        Counter full, inlined, completions, errors, error_cqes, recoveries, dropped, key_misses;
        std::array<Counter, tx_refusals> refused;
    };

    friend struct TxQueueDelete;
    TxQueue() = default;
    ~TxQueue() = default;

    static Status check(const TxQueueConfig& config);
    TxRefusal check(const rte_mbuf& mbuf) const noexcept;
    Status allocate(const TxQueueConfig& config);
    void set_up(const TxQueueConfig& config) noexcept;
    void post_nop() noexcept;
    void skip_cqes() noexcept;
    TxStats totals() const noexcept;
    const WqeRecord& record_at(std::uint16_t index) const noexcept {
        return hot_.records[index & unsigned{hot_.wqebb_mask}];
    }
    bool complete(std::uint16_t counter) noexcept;
    void free_to(rte_mempool* home, std::uint16_t end) noexcept;
    std::uint32_t packets_posted() const noexcept;
    void rewind() noexcept;

    TxHot hot_{};
    Cold cold_{};
};

/// The burst for `features` (made canonical) over the Ethernet encap.
TxBurst ethernet_burst(TxFeatures features) noexcept;

} // namespace stride::mbufqp
