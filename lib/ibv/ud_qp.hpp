// SPDX-License-Identifier: BSD-3-Clause
/// The UD QP of an InfiniBand interface: it owns the QPN on the wire, the Q_Key and the multicast
/// attachments, and receives. What is sent goes through SOURCE_QPN QPs that bear its QPN (tx_qp.hpp).
#pragma once

#include "ibv/ring_qp.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace stride::ibv {

/// Names of an InfiniBand port on its subnet.
struct PortAddress {
    std::uint16_t lid{}; ///< 0: the subnet manager has given none yet
    std::array<std::uint8_t, 16> gid{};
    std::uint16_t pkey{};
    std::uint32_t active_mtu_bytes{};
};

/// ENOTSUP: the port is no InfiniBand port.
Result<PortAddress> port_address(const Device& device, std::uint16_t pkey_index, int gid_index);

using GroupGid = std::array<std::uint8_t, 16>;

struct UdQpConfig {
    std::uint32_t receive_wqes{}; ///< at least so many; rounded up to a power of two
    std::uint32_t receive_sges{1};
    std::uint16_t pkey_index{};
    std::uint32_t qkey{};
};

/// Created in RESET. make_init(), then its ring may be filled, then start(). Not thread-safe.
class UdQp {
  public:
    /// `cq` takes what is received and must outlive the QP.
    static Result<UdQp> create(std::shared_ptr<Device> device, const Cq& cq, const UdQpConfig& config);

    /// RESET -> INIT: WQEs may be posted, nothing is received.
    Status make_init();
    /// INIT -> RTR -> RTS.
    Status start();
    /// Any state -> RESET: what is in the ring is dropped without completions; indices start from 0 again.
    Status reset() { return qp_.reset(); }

    /// Receives what is sent to the group, until detach() or the end of the QP. The subnet manager must have
    /// routed it here: a join is not made.
    Status attach(const GroupGid& gid, std::uint16_t lid);
    /// ENOENT: is not attached.
    Status detach(const GroupGid& gid, std::uint16_t lid);

    Qpn qpn() const noexcept { return qp_.qpn(); }
    /// WQEs are plain scatter lists; 40 bytes of GRH area come first.
    const mlx5::RqRing& ring() const noexcept { return qp_.rq(); }
    ibv_qp* get() const noexcept { return qp_.get(); }

  private:
    /// Detaches: a QP in a group can't be destroyed.
    class Membership {
      public:
        Membership(ibv_qp* qp, const GroupGid& gid, std::uint16_t lid) noexcept;
        bool is(const GroupGid& gid, std::uint16_t lid) const noexcept {
            return group_->gid == gid && group_->lid == lid;
        }

      private:
        struct Group {
            GroupGid gid;
            std::uint16_t lid;
        };
        struct Leave {
            ibv_qp* qp;
            void operator()(Group* group) const noexcept;
        };
        std::unique_ptr<Group, Leave> group_;
    };

    UdQp(RingQp qp, const UdQpConfig& config) noexcept
        : qp_{std::move(qp)}
        , config_{config} {}

    RingQp qp_;
    UdQpConfig config_;
    std::vector<Membership> groups_{}; ///< gone before the QP
};

} // namespace stride::ibv
