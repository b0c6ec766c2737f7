// SPDX-License-Identifier: BSD-3-Clause
/// What a receive queue is inside: a hot part that bursts live in, and the rest.
#pragma once

#include "base/counter.hpp"
#include "mlx5/cq_cursor.hpp"
#include "mlx5/cqe_quad.hpp"
#include "mlx5/receive_wqe.hpp"
#include "mlx5/strides.hpp"
#include "mprq/bind_pool.hpp"
#include "mprq/metadata.hpp"
#include "mprq/rx_queue.hpp"
#include "mprq/stride_pool.hpp"

#include <rte_mempool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stride::mprq {

/// Mbufs taken from the pool at once; a queue keeps at most so many.
inline constexpr std::uint32_t reserve_size = 32;
/// Mbufs behind the first that a copied packet may take.
inline constexpr std::uint32_t max_scatter_segments = 255;
/// Short packets are copied in blocks of so many bytes: nothing shorter than a block is ever next to one.
inline constexpr std::uint32_t copy_block_bytes = 64;

/// Touched for every packet. Four cache lines: completions and place in the WQE; buffer and mbufs; counters;
/// what makes a completion ordinary (constant).
struct alignas(64) RxHot {
    mlx5::CqCursor cq{};
    mlx5::StrideMap map{};
    std::uint32_t consumed{}; ///< strides of the current WQE behind us
    std::uint32_t attached{}; ///< packets of the current WQE handed over in place
    std::byte* strides{};     ///< of the current WQE
    union {
        StrideShare* shares{}; ///< attached packets
        std::uint8_t* home;    ///< bound ones
    };

    std::byte* used_end{};    ///< attached packets own what lies before; the next one's headroom starts here
    rte_iova_t iova{};        ///< of `strides`
    WqeBuffer* replacement{}; ///< to be posted for the current buffer; without one nothing is attached
    rte_mbuf** reserve{};
    std::uint32_t reserved{}; ///< mbufs in `reserve`
    std::uint32_t max_frame_bytes{};
    std::uint32_t copy_threshold_bytes{};
    std::uint32_t headroom_bytes{};
    Rearm rearm{};
    std::uint64_t copy_flags{}; ///< ol_flags of the pool's mbufs: EXTERNAL if they are pinned

    WqeBuffer* buffer{}; ///< of the current WQE
    Counter packets{}, bytes{}, attached_packets{}, copied_short{};
    std::uint32_t wqes_due{};                ///< posted, doorbell not yet rung
    std::uint32_t bound_head_bytes{};        ///< bound: mbuf -> stride, in strides of colour 0
    std::uint32_t bound_colour_mask_bytes{}; ///< bound: stride n's colour moves it by n * 64 & mask
    std::uint32_t log_strides_per_share{};
    bool stride_a_packet{}; ///< attached: any frame takes one stride, and leaves the next its headroom
    bool broken{}; ///< recovery failed: nothing comes until it is tried again, or the queue restarted

    alignas(64) mlx5::QuadLimits limits{};
};
static_assert(offsetof(RxHot, used_end) == 64);
static_assert(offsetof(RxHot, buffer) == 128);
static_assert(offsetof(RxHot, limits) == 192);
static_assert(sizeof(RxHot) == 256);

/// Counted where it is rare. Order and meaning as in RxStats.
struct RxCounters {
    Counter copied_no_spare, copied_no_headroom, copied_asked, scattered;
    Counter fillers, filler_strides, wqes_posted, doorbells;
    Counter dropped_no_mbuf, dropped_oversize, dropped_no_room, dropped_error, dropped_bad_cqe;
    Counter discarded_at_stop, recoveries, failed_recoveries, mbuf_shortages, compressed, key_misses;
};

/// Striding: the ring and the buffers in it. Touched once per WQE.
struct StridingRing {
    mlx5::RqRing rq{};
    std::uint32_t pi{};   ///< WQEs posted, free-running
    std::uint32_t ci{};   ///< WQE being consumed
    WqeBuffer** posted{}; ///< by slot; array of rq.size
    StridePool* pool{};
    Geometry geometry{};
};

/// Single-packet: every WQE has `sges` mbufs, slot * sges + n in `mbufs`.
struct PacketRing {
    mlx5::RqRing rq{};
    std::uint32_t pi{}, ci{};
    std::uint32_t sges{};
    rte_mbuf** mbufs{};
};

enum class QueueKind : std::uint8_t { striding, single_packet };

struct RxQueueState : RxQueue {
    RxHot hot{};
    RxCounters counters{};
    StridingRing striding{};
    PacketRing single{};
    RxQueueConfig config{};
    RxStats baseline{};         ///< at the last reset_stats
    std::uint32_t room_bytes{}; ///< data room of an mbuf of the pool, without headroom
    QueueKind kind{};
    std::atomic<bool> started{};
    std::atomic<std::uint32_t> spare_low{}; ///< fewer spare buffers than these are told of, once; 0: not
    std::uint32_t retry_polls{}, polls_to_retry{}; ///< of a recovery that failed, in polls of the CQ
    bool always_copy{};                            ///< asked for, or forced by the pool
    BindPool* bound{};            ///< what the WQE buffers were made of; nullptr: memory of the queue's own
    rte_mbuf* below_reserve[4]{}; ///< what is prefetched when the reserve runs low
    rte_mbuf* reserve[reserve_size]{};
};
static_assert(offsetof(RxQueueState, reserve) ==
              offsetof(RxQueueState, below_reserve) + sizeof RxQueueState::below_reserve);

inline RxQueueState& state_of(RxQueue& queue) noexcept { return static_cast<RxQueueState&>(queue); }
inline const RxQueueState& state_of(const RxQueue& queue) noexcept {
    return static_cast<const RxQueueState&>(queue);
}

/// With marks come packet types and checksums: four offloads are left to choose.
inline constexpr RxOffloads::Bits with_mark =
    (RxOffloads{RxOffload::mark} | RxOffload::packet_type | RxOffload::checksum).bits();
inline constexpr unsigned marked_shift = 2;
inline constexpr std::size_t marked_combinations = 1U << 4;
static_assert(RxOffloads{RxOffload::rss_hash}.bits() == 1U << marked_shift);

// Creation.

/// Bytes an mbuf of the pool holds behind its headroom; 0: no pool, or none.
std::uint32_t room_of(const RxQueueConfig& config) noexcept;
/// A queue with what both kinds share filled in; nullptr: no memory.
RxQueueState* allocate_state(const RxQueueConfig& config, QueueKind kind);
Error no_queue_memory(const RxQueueConfig& config);

// Cold calls of a burst (rx_cold.cpp).

/// Fills the reserve as far as the pool goes. False: there is none at all (counted); the packet waits in the
/// CQ.
[[gnu::noinline]] bool refill_reserve(RxQueueState& queue) noexcept;
/// Deals with a completion that is no ordinary packet: filler, error, too long, contradiction. True: it is
/// consumed, go on; false: end the burst.
[[gnu::cold, gnu::noinline]] bool skip_completion(RxQueueState& queue, const mlx5_cqe64& cqe) noexcept;
/// Gets a spare buffer to post for the current one, if packets may stay in their place at all. As late as
/// this, so that the buffer finished last may be home: it is the one in the caches.
[[gnu::noinline]] void find_replacement(RxQueueState& queue) noexcept;

/// Copies a packet that would have stayed in its place, into one or several mbufs, `m` being the first;
/// counts why. False: dropped, and counted.
[[gnu::noinline]] bool copy_instead(RxQueueState& queue, rte_mbuf* m, const std::byte* data,
                                    std::uint32_t bytes) noexcept;
/// The current WQE is finished: posts a buffer in its place and moves on to the next.
[[gnu::noinline]] void finish_wqe(RxQueueState& queue) noexcept;
/// Tells the device of WQEs posted by finish_wqe and of CQEs consumed before.
void ring_due_doorbells(RxQueueState& queue) noexcept;

// Parts of start, stop and recovery.

/// A poll of a broken queue. True: recovery should be tried again now.
bool retry_is_due(RxQueueState& queue) noexcept;
/// After recovery was tried: counts failure and sets when to try again, at twice the distance each time.
void note_recovery(RxQueueState& queue) noexcept;
/// Striding: a poll of a broken queue, which tries to recover now and then. False: nothing was received.
[[gnu::cold, gnu::noinline]] bool retry_recovery(RxQueueState& queue) noexcept;

void enter_wqe(RxQueueState& queue) noexcept;
/// If it is a title, turns its block into ordinary completions, this one included: look again.
bool expand_completions(RxQueueState& queue, const mlx5_cqe64& title) noexcept;
/// Consumes every completion there is; returns how many were packets.
std::uint32_t drain_completions(RxQueueState& queue) noexcept;

RxBurst select_attach_burst(RxOffloads offloads) noexcept;
RxBurst select_bound_burst(RxOffloads offloads) noexcept;
RxBurst select_single_packet_burst(RxOffloads offloads) noexcept;
Status start_single_packet(RxQueueState& queue);
void stop_single_packet(RxQueueState& queue) noexcept;

} // namespace stride::mprq
