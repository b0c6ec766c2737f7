// SPDX-License-Identifier: BSD-3-Clause
/// A receive queue: WQEs posted, completions turned into mbufs, counters. The only header of lib/mprq that a
/// driver needs (with geometry.hpp, included).
///
/// Life: plan_geometry -> create the CQ and the WQ (verbs) -> create_striding -> start (WQ in RESET; then the
/// owner makes it READY) -> bursts -> the owner takes the WQ to RESET -> stop -> start again, or destroy.
#pragma once

#include "base/flags.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "mlx5/rings.hpp"
#include "mprq/geometry.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct rte_mbuf;
struct rte_mempool;

namespace stride::mprq {

/// What a burst fills beyond data, length and port; each combination is a burst function of its own.
enum class RxOffload : std::uint32_t {
    packet_type = 1U << 0,
    checksum = 1U << 1, ///< IP and L4: good, or unknown
    rss_hash = 1U << 2,
    vlan_strip = 1U << 3, ///< the WQ strips; the tag is in the CQE
    keep_crc = 1U << 4,   ///< the WQ scatters the FCS: 4 bytes behind the data, not in pkt_len
    timestamp = 1U << 5,  ///< of the device's clock, in the mbuf's dynamic field
    mark = 1U << 7,       ///< flow tags, with packet_type and checksum (which come with it): MarkTag
    datagram = 1U << 6,   ///< of a UD QP, single-packet queues: the sender is in tx_offload (DatagramSource)
};
using RxOffloads = Flags<RxOffload>;

/// Memory that the device may write. `keeper` holds whatever has to live as long as that (MR, PD, device).
struct RegisteredMemory {
    Lkey lkey{};
    std::shared_ptr<const void> keeper{};
};

/// What a queue asks of the driver that owns it.
struct RxQueueOwner {
    void* context{}; ///< first argument of each
    /// Registers memory for local write. Striding queues, from create_striding, once.
    Result<RegisteredMemory> (*register_memory)(void* context, void* base, std::size_t bytes){};
    /// Key that covers `address`, as a data segment holds it. Single-packet queues: start and bursts.
    be32 (*lkey_of)(void* context, std::uintptr_t address) noexcept {};
    /// Recovery, from a burst. reset_wq: any state -> RESET, after which the device writes no CQE and no
    /// buffer of this queue, its indices and doorbell record are 0. ready_wq: RESET -> READY. False: failed
    /// (logged by the owner); it is tried again after some hundred polls, then ever more rarely.
    bool (*reset_wq)(void* context) noexcept {};
    bool (*ready_wq)(void* context) noexcept {};
    /// Once after watch_spare(), from a burst: the application holds so many packets that few buffers are
    /// spare.
    void (*spare_low)(void* context) noexcept {};
};

struct RxQueueConfig {
    std::uint16_t port_id{}, queue_id{};
    int socket_id{-1};               ///< NUMA node of buffers and queue; -1: any
    rte_mempool* pool{};             ///< the application's; no mbuf of it is kept after destruction
    std::uint32_t max_frame_bytes{}; ///< longer ones are dropped and counted
    /// Copy packets up to this length; nullopt: what pays (of the two below).
    std::optional<std::uint32_t> copy_threshold_bytes{};
    std::uint32_t headroom_bytes{default_headroom_bytes}; ///< guaranteed in attached packets
    bool always_copy{};                                   ///< for applications blind to external mbufs
    bool scatter{};                                       ///< a copied packet may take several mbufs
    bool compressed{}; ///< the CQ may hold mini-CQEs (HASH with rss_hash, else CSUM_STRIDX); they have no
                       ///< timestamp
    RxOffloads offloads{};
    int timestamp_offset{};         ///< timestamp: of rte_mbuf_dyn_rx_timestamp_register
    std::uint64_t timestamp_flag{}; ///< likewise
    RxQueueOwner owner{};

    static constexpr std::uint32_t copy_threshold_bound_bytes = 0; ///< 64 bytes copied: 21 cycles, bound: 17
    static constexpr std::uint32_t copy_threshold_attached_bytes = 256; ///< freeing such mbufs costs more
    static constexpr std::uint32_t default_headroom_bytes = 128;
};

/// Counters of a queue since create or reset_stats. attached + direct + the copied_* == packets; packets +
/// the dropped_* == packets the device delivered.
struct RxStats {
    std::uint64_t packets{}, bytes{};
    std::uint64_t attached{};           ///< handed over where the device wrote them
    std::uint64_t direct{};             ///< single-packet queues: all, each in the mbufs of its WQE
    std::uint64_t copied_short{};       ///< no longer than the threshold
    std::uint64_t copied_no_spare{};    ///< no spare WQE buffer to post instead: the application holds them
    std::uint64_t copied_no_headroom{}; ///< the packet in front ends too close
    std::uint64_t copied_asked{};       ///< always_copy, or a pool whose mbufs can't take external buffers
    std::uint64_t scattered{};          ///< of the copied ones: took several mbufs
    std::uint64_t fillers{}, filler_strides{};
    std::uint64_t wqes_posted{}, doorbells{}; ///< doorbells: writes of the RQ or the CQ doorbell record
    std::uint64_t dropped_no_mbuf{};          ///< scattered copy, mbuf pool too low (ethdev rx_nombuf)
    std::uint64_t dropped_oversize{};         ///< longer than max_frame_bytes
    std::uint64_t dropped_no_room{};          ///< had to be copied, longer than an mbuf, no scatter
    std::uint64_t dropped_error{};            ///< error CQE for one packet
    std::uint64_t dropped_bad_cqe{};          ///< a CQE that contradicts the WQE; the queue is recovered
    std::uint64_t discarded_at_stop{};        ///< completed, not yet received when the queue was stopped
    std::uint64_t recoveries{};               ///< times the WQ went through RESET
    std::uint64_t failed_recoveries{};
    std::uint64_t
        mbuf_shortages{};       ///< bursts cut short by an empty mbuf pool; the packets wait, none is lost
    std::uint64_t compressed{}; ///< completions that came as mini-CQEs
    std::uint64_t key_misses{}; ///< no memory key for an mbuf to post: single-packet queues; the packet waits
    std::uint64_t buffers_total{}, buffers_posted{}, buffers_spare{}, buffers_held{}; ///< WQE buffers now
    std::uint64_t buffer_bytes{}; ///< memory of all WQE buffers

    std::uint64_t copied() const noexcept {
        return copied_short + copied_no_spare + copied_no_headroom + copied_asked;
    }
    std::uint64_t dropped() const noexcept {
        return dropped_no_mbuf + dropped_oversize + dropped_no_room + dropped_error + dropped_bad_cqe +
               discarded_at_stop;
    }
};

/// ethdev's eth_rx_burst_t.
using RxBurst = std::uint16_t (*)(void* queue, rte_mbuf** packets, std::uint16_t count);

enum class DescriptorStatus : std::uint8_t { available, done, out_of_range };

/// Whether packets could be bound to mbufs of the application's pool (mempool ops "stride").
struct BindFit {
    std::uint32_t stride_bytes{}; ///< that a geometry has to have for it; 0: no
    std::string why{};            ///< if not though the pool has the ops
};

class RxQueue;
struct RxQueueDelete {
    void operator()(RxQueue* queue) const noexcept;
};
using RxQueuePtr = std::unique_ptr<RxQueue, RxQueueDelete>;

/// Control functions: control thread, no burst running. Bursts: one thread at a time. stats(): any thread.
class RxQueue {
  public:
    /// The rings are those of a CQ of geometry.cq_entries() at least and a striding WQ of that geometry.
    /// EINVAL: rings and geometry disagree, or packets could never be delivered (always_copy, a frame longer
    /// than an mbuf and no scatter); ENOMEM: no memory for the buffers.
    static Result<RxQueuePtr> create_striding(const RxQueueConfig& config, const Geometry& geometry,
                                              const mlx5::CqRing& cq, const mlx5::RqRing& rq);
    /// For devices without striding: every WQE takes mbufs of the pool, one packet each. The WQ has
    /// single_packet_sges(config) data segments per WQE; its CQ as many entries as the WQ at least.
    static Result<RxQueuePtr> create_single_packet(const RxQueueConfig& config, const mlx5::CqRing& cq,
                                                   const mlx5::RqRing& rq);
    /// Data segments a WQE of a single-packet queue needs, a power of two; EINVAL: the frame is longer than
    /// an mbuf and scatter is off, or it needs more than 32 mbufs.
    static Result<std::uint32_t> single_packet_sges(const RxQueueConfig& config);

    /// Asked before the geometry is planned. create_striding binds if it can and the geometry allows it; else
    /// it attaches, and logs why.
    static BindFit bind_fit(const RxQueueConfig& config);

    RxQueue(const RxQueue&) = delete;
    RxQueue& operator=(const RxQueue&) = delete;

    /// Posts a full ring. The WQ is in RESET. ENOMEM: single-packet queue, pool too small for the ring (or no
    /// key for its memory); ENOBUFS never happens to a striding queue: it keeps a buffer for each WQE.
    Status start();
    /// Takes back posted buffers and every mbuf of the pool; completions not yet polled are discarded. The WQ
    /// is in RESET (or destroyed): the device no longer writes. Idempotent.
    void stop() noexcept;

    /// To be called with the queue as its first argument. Fixed at creation, but each process has its own.
    RxBurst burst() const noexcept;
    RxStats stats() const noexcept;
    void reset_stats() noexcept;
    /// Calls the owner's spare_low once when fewer than `percent` of the spare WQE buffers are left; 0: does
    /// not. Striding queues; any thread.
    void watch_spare(std::uint32_t percent) noexcept;
    /// Completed packets not yet received (eth_rx_queue_count_t). Burst thread.
    std::uint32_t ready_packets() const noexcept;
    /// Free-running index of the next completion: what a CQ is armed with. Burst thread.
    std::uint32_t completion_index() const noexcept;
    /// Of the packet `offset` places from the next one to be received. Burst thread.
    DescriptorStatus descriptor_status(std::uint16_t offset) const noexcept;
    /// nb_desc: packets a full ring takes.
    std::uint16_t descriptors() const noexcept;
    const RxQueueConfig& config() const noexcept;
    /// Of a striding queue; nullptr for a single-packet one.
    const Geometry* geometry() const noexcept;
    /// "bind", "attach", "copy" or "single-packet", for rxq_info and logs.
    const char* policy() const noexcept;

  private:
    friend struct RxQueueDelete;
    friend struct RxQueueState;
    RxQueue() = default;
    ~RxQueue() = default;
};

/// A process that did not make the queues uses them, or frees packets of theirs: enters what this library has
/// in base/shared_calls.hpp.
void enter_shared_calls() noexcept;
/// Frees the WQE buffers of queues that are gone, if their last packet was freed since; at the latest an
/// alarm does. Control thread of the process that made them.
void free_buffers_of_the_gone() noexcept;

} // namespace stride::mprq
