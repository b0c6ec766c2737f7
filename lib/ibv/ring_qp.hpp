// SPDX-License-Identifier: BSD-3-Clause
/// What all QPs of the driver have in common: their rings are worked on without libmlx5, which changes their
/// state and knows nothing of indices.
#pragma once

#include "base/ids.hpp"
#include "ibv/cq.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace stride::ibv {

/// Created in RESET. Not thread-safe.
class RingQp {
  public:
    /// Sends and receives complete to `cq`, which must outlive the QP. PD and CQs of `attr` are filled in;
    /// `what` names the attempt in errors. EINVAL: rings that are not what the driver can work on.
    static Result<RingQp> create(const std::shared_ptr<Device>& device, const Cq& cq,
                                 ibv_qp_init_attr_ex attr, const std::string& what);

    Status modify(ibv_qp_attr attr, int mask, const char* name);
    /// Nothing but the state.
    Status modify(ibv_qp_state next, const char* name);
    /// Any state -> RESET; doorbell records start from 0 again.
    Status reset();

    Qpn qpn() const noexcept { return Qpn{qp_->qp_num}; }
    std::uint8_t port() const noexcept { return qp_.get_deleter().device->port(); }
    const mlx5::SqRing& sq() const noexcept { return sq_; } ///< if the QP has one
    const mlx5::RqRing& rq() const noexcept { return rq_; } ///< if the QP has one
    /// Where the page of the doorbell register is in the device's command file, for mmap; -1: not known.
    std::int64_t uar_offset() const noexcept { return uar_offset_; }
    ibv_qp* get() const noexcept { return qp_.get(); }

  private:
    RingQp(Owned<ibv_qp> qp, be32* cq_dbrec) noexcept
        : qp_{std::move(qp)}
        , cq_dbrec_{cq_dbrec} {}

    Status find_rings(const ibv_qp_init_attr_ex& attr, const std::string& what);

    Owned<ibv_qp> qp_;
    be32* cq_dbrec_;
    mlx5::SqRing sq_{};
    mlx5::RqRing rq_{};
    std::int64_t uar_offset_{-1};
};

} // namespace stride::ibv
