// SPDX-License-Identifier: BSD-3-Clause
/// A port: its device, its queues as set up and, while started, as they run.
#pragma once

#include "args.hpp"
#include "compat.hpp"
#include "encap.hpp"
#include "flow.hpp"
#include "ibv/cq.hpp"
#include "ibv/key_table.hpp"
#include "ibv/rq.hpp"
#include "ibv/tx_qp.hpp"
#include "interrupts.hpp"
#include "mbufqp/eal_memory.hpp"
#include "mbufqp/tx_queue.hpp"
#include "mprq/rx_queue.hpp"
#include "receive_ring.hpp"
#include "shared.hpp"
#include "steering.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace stride::pmd {

inline constexpr std::uint16_t max_macs = 64;
/// Ethernet header and two VLAN tags: what a frame has beyond the MTU. No FCS.
inline constexpr std::uint32_t frame_overhead_bytes = 14 + 2 * 4;
inline constexpr std::uint32_t crc_bytes = 4;
/// A CQE's byte count has 16 bits.
inline constexpr std::uint32_t max_frame_bytes = 65535;
inline constexpr std::uint16_t max_mtu = max_frame_bytes - frame_overhead_bytes - crc_bytes;
inline constexpr std::uint16_t min_mtu = 68; // RFC 791

struct Port;

/// The verbs objects and the queue of a started receive queue, in creation order.
struct RunningRxq {
    std::optional<ibv::CompletionChannel> channel; ///< if interrupts were asked for
    ibv::Cq cq;
    ReceiveRing rq;
    mprq::RxQueuePtr queue{};
    std::uint32_t events{}; ///< that the CQ has given
};

struct RxSlot {
    Port* port{};
    std::uint16_t id{};
    int socket{-1};
    std::uint16_t descriptors{}; ///< asked for
    rte_mempool* pool{};
    std::uint64_t offloads{};
    bool deferred{};                     ///< not started with the port
    int timestamp_offset{};              ///< in mbufs, with the timestamp offload
    std::uint64_t timestamp_flag{};      ///< likewise
    std::uint8_t avail_thresh{};         ///< spare buffers to be told of, per cent; 0: not
    std::atomic<bool> spare_low{};       ///< told, and not asked for yet
    mprq::RxStats past{};                ///< of earlier starts
    std::optional<ibv::KeyCache> keys{}; ///< single-packet queues
    std::optional<RunningRxq> running{};
    EncapRxq encapsulated{}; ///< ports with an encap
};

struct RunningTxq {
    ibv::Cq cq;
    ibv::TxQp qp;
    mbufqp::TxQueuePtr queue{};
};

struct TxSlot {
    Port* port{};
    std::uint16_t id{};
    int socket{-1};
    std::uint16_t descriptors{};
    std::uint64_t offloads{};
    bool deferred{}; ///< not started with the port
    bool stopped{};  ///< while the port runs
    mbufqp::TxStats past{};
    std::optional<RunningTxq> running{};
};

/// Process-local state of a port; control thread, except where `mutex` is named.
struct Port {
    Port(rte_eth_dev_data* of_ethdev, PortSharedPtr of_processes, Args arguments,
         std::shared_ptr<ibv::Device> opened)
        : data{of_ethdev}
        , shared{std::move(of_processes)}
        , args{std::move(arguments)}
        , device{std::move(opened)}
        , keys{device, mbufqp::resolve_eal_memory, nullptr, &shared->key_generation}
        , memory{keys} {}
    ~Port() { UarPages::release(device.get()); }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    std::uint32_t wanted_frame_bytes() const noexcept { return data->mtu + frame_overhead_bytes; }

    rte_eth_dev_data* data;
    PortSharedPtr shared; ///< first: bursts of other processes see it last
    Args args;
    std::shared_ptr<ibv::Device> device;
    ibv::KeyTable keys;
    mbufqp::EalMemoryWatch memory;                 ///< makes `keys` forget what EAL unmaps
    std::optional<mbufqp::OpaVnicPort> opa_vnic{}; ///< of the last start
    std::unique_ptr<IpoibInterface> ipoib{};       ///< encap=ipoib
    RssConfig rss{};
    bool packet_types{true};                  ///< filled in by queues made from now on
    std::vector<ibv::MacAddress> multicast{}; ///< set_mc_addr_list
    std::mutex mutex{};                       ///< guards `running` of the slots against readers of statistics
    std::vector<std::unique_ptr<RxSlot>> rxqs{};
    std::vector<std::unique_ptr<TxSlot>> txqs{};
    std::optional<Steering> steering{}; ///< while started
    FlowState flow{};                   ///< rte_flow
    std::uint64_t out_of_buffer_base{}; ///< hardware counter at the last reset
    Interrupts interrupts{};            ///< last: it goes first
};

/// dev_private. Shared memory: nothing here but what any process may read.
struct PortPrivate {
    Port* port;         ///< of the primary process
    PortShared* shared; ///< nullptr: the port is closed
    rte_ether_addr macs[max_macs];
};

inline Port& port_of(const rte_eth_dev* dev) noexcept {
    return *static_cast<PortPrivate*>(dev->data->dev_private)->port;
}

/// The one place where errors leave for ethdev: logs `port N: TRIED: why` and returns -errno; 0 for success.
int to_errno(const Port& port, const char* tried, const Status& status) noexcept;

} // namespace stride::pmd
