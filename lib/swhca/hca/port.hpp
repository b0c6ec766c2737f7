// SPDX-License-Identifier: BSD-3-Clause
/// A port of the HCA: its address, its wire, the send queues it serves and the rules that steer what it
/// receives.
#pragma once

#include "swhca/hca/faults.hpp"
#include "swhca/hca/objects.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace swhca {

/// Counters of a port, written by the engine, read by anyone (relaxed): sysfs, reports, tests.
struct PortCounters {
    std::uint64_t tx_frames{}, tx_bytes{}, tx_wqes{}, tx_doorbells{}, tx_errors{};
    std::uint64_t rx_frames{}, rx_bytes{}, rx_wqes{}; ///< rx_wqes: receive WQEs finished
    std::uint64_t rx_fillers{};
    std::uint64_t out_of_buffer{};    ///< frame for a queue without a WQE
    std::uint64_t rx_steering_miss{}; ///< frame no rule takes
    std::uint64_t rx_oversize{};      ///< frame longer than the port or the WQE takes
    std::uint64_t rx_queue_error{};   ///< frame for a queue that is not ready
    std::uint64_t rx_bad_pkey{};      ///< datagram of another partition
    std::uint64_t rx_bad_qkey{};      ///< datagram with another Q_Key than its queue's
    std::uint64_t rx_no_qp{};         ///< datagram for a QPN or a group that nobody here has
    std::uint64_t rx_malformed{};     ///< datagram whose headers make no sense
    std::uint64_t rx_foreign{};       ///< datagram for another LID, GID or MAC
    std::uint64_t rx_unplugged{};     ///< frame that came while the plug was out
};

/// Numbers of the ABI (IB_LINK_LAYER_*).
enum class LinkLayer : std::uint8_t { infiniband = 1, ethernet = 2 };

struct GidEntry {
    Gid gid{};
    bool roce_v2{}; ///< Ethernet only; else RoCE v1
};

/// A send queue as the engine's round sees it: of one that is silent nothing else is touched.
struct Sender {
    Qp* qp{};
    const std::byte* bfreg{};            ///< of `qp`
    std::array<std::uint64_t, 2> rung{}; ///< [engine] what its halves said when last acted on
    bool pending{true}; ///< [engine] to be attended to though nobody rings: work is left, or it is not ready
};

struct Port {
    std::string device_name{}; ///< `mlx5_0`
    std::uint8_t number{1};
    LinkLayer link_layer{LinkLayer::ethernet};
    std::array<std::uint8_t, 6> mac{};
    std::uint16_t lid{}, sm_lid{};            ///< InfiniBand
    std::vector<GidEntry> gids{};             ///< GID table
    std::vector<std::uint16_t> pkeys{0xffff}; ///< P_Key table
    std::string netdev{};                     ///< companion interface, empty if none
    std::uint32_t max_frame_bytes{65535};
    bool pause{}; ///< a frame without a receive WQE waits on the wire (802.3x) instead of being dropped
    std::uint32_t mtu_bytes{4096}; ///< InfiniBand: of a datagram's payload
    std::unique_ptr<Wire> wire{};
    std::atomic<bool>
        forced_down{}; ///< the user pulled the plug (swhca_set_link): nothing is sent or received
    bool shown_up{};   ///< what the contexts were told last (hca/link.hpp)
    std::unique_ptr<PortFaults> faults{}; ///< null: none asked for
    std::vector<Sender> senders{};        ///< QPs in RTS (or draining) with a send queue
    std::vector<Qp*> datagram_qps{};      ///< UD QPs that take packets (engine/queues.hpp keeps it)
    std::vector<Flow*> flows{};           ///< in the order they are tried
    std::vector<Flow*> sniffers{};        ///< get a copy of every frame received
    std::uint64_t flow_changes{}; ///< counts additions and removals; wires that wait for a receiver watch it
    std::vector<Cq*> notifying{}; ///< CQs with a completion channel (engine/queues.hpp keeps it)
    std::vector<Cq*> compressing{}; ///< CQs that hold back completions (queues.hpp too)
    std::vector<Rq*> draining{};    ///< receive queues in error, whose WQEs are flushed (queues.hpp too)
    PortCounters counters{};        ///< [engine]
};

inline bool port_is_up(const Port& port) { return !port.forced_down.load() && port.wire->link_up(); }

/// What the port says it can do (enum ib_port_cap_flags): CM and IP-based GIDs on Ethernet; what a ConnectX
/// shows on InfiniBand (traps, automatic migration, system image GUID, CM, reinit, client reregistration).
inline std::uint32_t port_capabilities(const Port& port) noexcept {
    return port.link_layer == LinkLayer::ethernet ? 1U << 16 | 1U << 26 : 0x2651e848U;
}

} // namespace swhca
