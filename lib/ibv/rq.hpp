// SPDX-License-Identifier: BSD-3-Clause
/// Receive work queues, striding (a WQE is a large buffer for many packets) or regular (a WQE per packet).
#pragma once

#include "ibv/cq.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace stride::ibv {

/// Shape of a striding WQE; the same for all WQEs of a queue.
struct StridingShape {
    std::uint32_t log_stride_bytes{};
    std::uint32_t log_strides{}; ///< strides per WQE
    bool two_byte_shift{};       ///< the HCA writes two zero bytes before each packet
};

struct RqConfig {
    std::uint32_t wqes{};                    ///< at least so many; rounded up to a power of two
    std::uint32_t sges{1};                   ///< data segments per WQE; 1 if striding
    std::optional<StridingShape> striding{}; ///< nullopt: regular
    bool vlan_strip{};
    bool scatter_fcs{}; ///< the frame check sequence is received with the frame
};

/// Created in RESET. Move to ready before packets flow; reset forgets the WQEs posted.
/// WQEs are written through ring(), never by ibv_post_wq_recv, which does not know the striding layout.
class Rq {
  public:
    /// `cq` must outlive the queue. EINVAL: outside what the device offers.
    static Result<Rq> create(std::shared_ptr<Device> device, const Cq& cq, const RqConfig& config);

    /// RESET -> RDY. WQEs may be posted before: libmlx5 zeroes the doorbell record on the way, and it is set
    /// again when the device reads it.
    Status make_ready();
    /// Any state -> RESET; doorbell record and indices start from 0 again.
    Status reset();
    /// What the kernel takes the state to be.
    ibv_wq_state state() const noexcept { return wq_->state; }

    const mlx5::RqRing& ring() const noexcept { return ring_; }
    ibv_wq* get() const noexcept { return wq_.get(); }

  private:
    Rq(Owned<ibv_wq> wq, mlx5::RqRing ring, be32* cq_dbrec) noexcept
        : wq_{std::move(wq)}
        , ring_{ring}
        , cq_dbrec_{cq_dbrec} {}

    Status modify(ibv_wq_state next, const char* name);

    Owned<ibv_wq> wq_;
    mlx5::RqRing ring_;
    be32* cq_dbrec_;
};

} // namespace stride::ibv
