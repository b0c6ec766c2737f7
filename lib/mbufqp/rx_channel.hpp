// SPDX-License-Identifier: BSD-3-Clause
/// One receive queue of a set: lib/mprq on a WQ, or on the RQ of a UD QP, and the encap behind it.
#pragma once

#include "ibv/key_table.hpp"
#include "ibv/rq.hpp"
#include "ibv/ud_qp.hpp"
#include "mbufqp/events.hpp"
#include "mbufqp/rx_decap.hpp"
#include "mprq/rx_queue.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace stride::mbufqp {

struct RxChannelConfig {
    std::shared_ptr<ibv::Device> device{};
    ibv::KeyTable* keys{}; ///< outlives the channel
    EncapKind encap{};
    rte_mempool* pool{};
    std::uint32_t packets{};
    std::uint32_t max_wire_bytes{}; ///< longest packet, with all that the encap has around a frame
    ibv_comp_channel* channel{};    ///< nullptr: no events
    std::uint16_t index{};
    std::uint32_t qkey{}; ///< IPoIB: of the UD QP
    std::uint16_t pkey_index{};
};

/// Stays where it is made: queues point to it.
class RxChannel {
  public:
    static Result<std::unique_ptr<RxChannel>> create(const RxChannelConfig& config);
    ~RxChannel();
    RxChannel(const RxChannel&) = delete;
    RxChannel& operator=(const RxChannel&) = delete;

    /// Posts buffers and receives from now on. `encap_context` outlives the channel.
    Status start(void* encap_context);
    void stop() noexcept;

    std::uint16_t get(rte_mbuf** packets, std::uint16_t count) noexcept {
        const std::uint16_t taken = burst_(queue_.get(), packets, count);
        return decap_ == nullptr ? taken : decap_(encap_context_, packets, taken, frames_);
    }
    std::uint32_t read_avail() const noexcept { return queue_->ready_packets(); }
    /// True: a packet is there; false: an event was asked for. The queue's thread.
    bool packet_or_arm() noexcept {
        if (read_avail() != 0) return true;
        events_.arm(queue_->completion_index());
        return false;
    }

    EventSource& events() noexcept { return events_; }
    ibv_wq* wq() const noexcept { return rq_ ? rq_->get() : nullptr; }
    ibv::UdQp* ud() noexcept { return ud_ ? &*ud_ : nullptr; }
    mprq::RxStats stats() const noexcept { return queue_->stats(); }
    /// Counted where packets are not frames yet.
    const RxFrames* frames() const noexcept { return decap_ != nullptr ? &frames_ : nullptr; }

  private:
    RxChannel(const RxChannelConfig& config, ibv::Cq cq) noexcept;

    Status create_queue();
    mprq::RxQueueConfig queue_config() noexcept;
    Status reset_ring();
    Status make_ready();

    RxChannelConfig config_;
    ibv::Cq cq_;
    ibv::KeyCache keys_;
    std::optional<ibv::Rq> rq_{};
    std::optional<ibv::UdQp> ud_{};
    std::optional<mprq::Geometry> striding_{};
    mprq::RxQueuePtr queue_{};
    mprq::RxBurst burst_{};
    RxDecap decap_{};
    void* encap_context_{};
    RxFrames frames_{};
    EventSource events_;
};

} // namespace stride::mbufqp
