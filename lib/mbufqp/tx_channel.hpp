// SPDX-License-Identifier: BSD-3-Clause
/// The verbs objects under one send queue of a set.
#pragma once

#include "ibv/key_table.hpp"
#include "ibv/tx_qp.hpp"
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/events.hpp"
#include "mbufqp/tx_queue.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace stride::mbufqp {

struct TxChannelConfig {
    std::shared_ptr<ibv::Device> device{};
    ibv::KeyTable* keys{}; ///< outlives the channel
    EncapKind encap{};
    const void* encap_context{};
    TxFeatures features{};
    std::uint32_t packets{};
    std::uint32_t max_frame_bytes{};
    std::optional<Qpn> source_qpn{};
    ibv_comp_channel* channel{}; ///< nullptr: no events
    std::uint16_t index{};
};

/// Stays where it is made: queues point to it.
class TxChannel {
  public:
    static Result<std::unique_ptr<TxChannel>> create(const TxChannelConfig& config);
    TxChannel(const TxChannel&) = delete;
    TxChannel& operator=(const TxChannel&) = delete;

    /// For the queue that works on this channel's rings.
    TxQueueConfig queue_config() noexcept;
    Status start() { return qp_.start(); }
    /// Waits a moment for what is in flight, then stops the QP and frees the rest.
    void stop(TxQueue& queue) noexcept;
    EventSource& events() noexcept { return events_; }

  private:
    TxChannel(const TxChannelConfig& config, ibv::Cq cq, ibv::TxQp qp) noexcept
        : config_{config}
        , cq_{std::move(cq)}
        , qp_{std::move(qp)}
        , events_{cq_.ring(), cq_.get(), event_bit, config.index} {}

    static const unsigned event_bit;
    static bool find_key(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept;
    static bool recover(void* context) noexcept;

    TxChannelConfig config_;
    ibv::Cq cq_;
    ibv::TxQp qp_;
    EventSource events_;
};

} // namespace stride::mbufqp
