// SPDX-License-Identifier: BSD-3-Clause
/// Ports whose frames travel in something else than Ethernet: what they offer, and their way through receive.
#pragma once

#include "args.hpp"
#include "compat.hpp"
#include "ipoib.hpp"
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/rx_decap.hpp"
#include "mprq/rx_queue.hpp"

#include <cstdint>

namespace stride::pmd {

struct Port;

/// What the application has seen of a queue, and what it has not.
struct RxFrameCounts {
    std::uint64_t packets{}, bytes{};
    std::uint64_t drops[mbufqp::rx_drops]{};
    /// Drops of what was meant for this port.
    std::uint64_t errors() const noexcept;
};

/// What the data path has as its queue where packets are not frames yet.
struct EncapRxq {
    mprq::RxQueue* queue{}; ///< while started
    mprq::RxBurst burst{};
    mbufqp::RxDecap decap{};
    void* context{};
    mbufqp::RxFrames frames{}; ///< of all starts
    RxFrameCounts base{};      ///< at the last reset of statistics
};

RxFrameCounts counts_of(const mbufqp::RxFrames& frames) noexcept;
/// Since the last reset of statistics.
RxFrameCounts frame_counts(const EncapRxq& rxq) noexcept;

inline bool is_encapsulated(mbufqp::EncapKind kind) noexcept { return kind != mbufqp::EncapKind::ethernet; }

std::uint16_t encap_rx_burst(void* queue, rte_mbuf** packets, std::uint16_t count) noexcept;
QueueCount encap_rx_queue_count(void* queue) noexcept;
int encap_rx_descriptor_status(void* queue, std::uint16_t offset) noexcept;

/// What the link layer carries, if the devarg `encap` does not say; ENOTSUP: it says what cannot be. Opens
/// the interface of an InfiniBand port.
Status choose_encap(Args& args, const std::shared_ptr<ibv::Device>& device,
                    std::unique_ptr<IpoibInterface>& ipoib);
/// The encap's own object, for the port's MTU; before the queues are made.
Status open_encap(Port& port);
/// For TxQueueConfig and for decapsulation.
void* encap_context(Port& port) noexcept;
/// Longest packet that the HCA sees, for a frame of `frame_bytes`.
std::uint32_t wire_bytes(mbufqp::EncapKind kind, std::uint32_t frame_bytes) noexcept;
/// Longest frame that is sent, without an inserted tag.
std::uint32_t max_sent_bytes(const Port& port) noexcept;
/// Largest MTU.
std::uint16_t max_mtu_of(const Port& port) noexcept;

} // namespace stride::pmd
