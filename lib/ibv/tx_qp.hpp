// SPDX-License-Identifier: BSD-3-Clause
/// A send queue: that of a RAW_PACKET QP, or of a SOURCE_QPN QP, which sends datagrams under the QPN of a UD
/// QP (ud_qp.hpp). Any number of the latter may share one QPN.
#pragma once

#include "base/ids.hpp"
#include "ibv/ring_qp.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace stride::ibv {

struct TxQpConfig {
    std::uint32_t wqebbs{}; ///< at least so many WQEBBs of 64 bytes; rounded up to a power of two
    std::uint32_t max_tso_header_bytes{}; ///< 0: no TSO
    /// Given: an underlay QP of this UD QP, which must outlive it. Its WQEs have an address vector.
    std::optional<Qpn> source_qpn{};
};

/// Created in RESET; start() takes it to RTS. Not thread-safe.
class TxQp {
  public:
    /// `cq` must outlive the QP. EINVAL: larger than the device takes.
    static Result<TxQp> create(std::shared_ptr<Device> device, const Cq& cq, const TxQpConfig& config);

    /// RESET -> INIT -> RTR -> RTS.
    Status start();
    /// Any state -> RESET: what is in the ring is dropped without completions; the indices start from 0
    /// again.
    Status reset() { return qp_.reset(); }
    /// After an error CQE: reset and start. The ring's owner forgets what was posted.
    Status recover();

    const mlx5::SqRing& ring() const noexcept { return qp_.sq(); }
    /// Of the page with the doorbell register, in the command file; -1: not known.
    std::int64_t uar_offset() const noexcept { return qp_.uar_offset(); }
    ibv_qp* get() const noexcept { return qp_.get(); }

  private:
    TxQp(RingQp qp, bool underlay) noexcept
        : qp_{std::move(qp)}
        , underlay_{underlay} {}

    RingQp qp_;
    bool underlay_; ///< libmlx5 changes nothing but the state
};

} // namespace stride::ibv
