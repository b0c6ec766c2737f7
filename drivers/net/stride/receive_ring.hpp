// SPDX-License-Identifier: BSD-3-Clause
/// Where a receive queue posts its buffers: a WQ, or over InfiniBand the receive queue of a SOURCE_QPN QP.
#pragma once

#include "ibv/rq.hpp"
#include "ibv/underlay_rq.hpp"

#include <utility>
#include <variant>

namespace stride::pmd {

class ReceiveRing {
  public:
    explicit ReceiveRing(ibv::Rq rq) noexcept
        : ring_{std::move(rq)} {}
    explicit ReceiveRing(ibv::UnderlayRq rq) noexcept
        : ring_{std::move(rq)} {}

    const mlx5::RqRing& ring() const noexcept {
        return wq_ring() != nullptr ? wq_ring()->ring() : std::get_if<ibv::UnderlayRq>(&ring_)->ring();
    }
    /// The ring may have been filled before.
    Status make_ready() {
        ibv::Rq* const rq = std::get_if<ibv::Rq>(&ring_);
        return rq != nullptr ? rq->make_ready() : std::get_if<ibv::UnderlayRq>(&ring_)->make_ready();
    }
    Status reset() {
        ibv::Rq* const rq = std::get_if<ibv::Rq>(&ring_);
        return rq != nullptr ? rq->reset() : std::get_if<ibv::UnderlayRq>(&ring_)->reset();
    }
    /// nullptr: it is none.
    ibv_wq* wq() const noexcept { return wq_ring() != nullptr ? wq_ring()->get() : nullptr; }
    ibv_qp* underlay_qp() const noexcept {
        const auto* const rq = std::get_if<ibv::UnderlayRq>(&ring_);
        return rq != nullptr ? rq->get() : nullptr;
    }

  private:
    const ibv::Rq* wq_ring() const noexcept { return std::get_if<ibv::Rq>(&ring_); }

    std::variant<ibv::Rq, ibv::UnderlayRq> ring_;
};

} // namespace stride::pmd
