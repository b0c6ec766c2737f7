// SPDX-License-Identifier: BSD-3-Clause
/// A receive queue under the QPN of a UD QP: that of a SOURCE_QPN QP. Packets come to it by flow rules alone
/// (flow.hpp), so that one QPN may have several queues.
#pragma once

#include "base/ids.hpp"
#include "ibv/ring_qp.hpp"

#include <cstdint>
#include <memory>

namespace stride::ibv {

struct UnderlayRqConfig {
    Qpn source_qpn{};      ///< of a UD QP, which outlives the queue
    std::uint32_t wqes{};  ///< at least so many; rounded up to a power of two
    std::uint32_t sges{1}; ///< data segments per WQE
};

/// Created in RESET, as an Rq: the ring may be filled, then make_ready(). Not thread-safe.
class UnderlayRq {
  public:
    /// `cq` must outlive the queue.
    static Result<UnderlayRq> create(std::shared_ptr<Device> device, const Cq& cq,
                                     const UnderlayRqConfig& config);

    /// RESET -> INIT -> RTR. What is posted before is there: libmlx5 sets the doorbell record from an index
    /// of its own on the way, and it is set again.
    Status make_ready();
    Status reset() { return qp_.reset(); }

    /// WQEs are plain scatter lists; 40 bytes of GRH area come first.
    const mlx5::RqRing& ring() const noexcept { return qp_.rq(); }
    ibv_qp* get() const noexcept { return qp_.get(); }

  private:
    explicit UnderlayRq(RingQp qp) noexcept
        : qp_{std::move(qp)} {}

    RingQp qp_;
};

} // namespace stride::ibv
