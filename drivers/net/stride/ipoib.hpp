// SPDX-License-Identifier: BSD-3-Clause
/// A port's interface on an InfiniBand fabric (encap=ipoib): the UD QP that owns QPN, Q_Key and groups, and
/// which packets of the QPN go to which receive queue.
#pragma once

#include "ibv/flow.hpp"
#include "ibv/ud_qp.hpp"
#include "mbufqp/encap/ipoib.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace stride::pmd {

/// Lives as long as the port, so that its MAC address, which is made of QPN and LID, does. Control thread;
/// address() is for bursts.
class IpoibInterface {
  public:
    /// Rules grow with the square.
    static constexpr std::uint16_t max_queues = 16;

    /// ENOTSUP: no InfiniBand port; EAGAIN: the subnet manager has given it no LID yet.
    static Result<std::unique_ptr<IpoibInterface>> open(const std::shared_ptr<ibv::Device>& device);

    Qpn qpn() const noexcept { return owner_.qpn(); }
    mbufqp::Mac mac() const noexcept { return mbufqp::mac_of(config_.own); }
    std::uint16_t max_mtu() const noexcept { return max_mtu_; }

    /// The encap's object for this MTU; before the queues are made.
    Status set_mtu(std::uint16_t mtu);
    mbufqp::IpoibPort* address() noexcept { return port_ ? &*port_ : nullptr; }

    /// Receives into `queues` (SOURCE_QPN QPs of this QPN, ready, alive until stop()): several share the
    /// packets by the low bits of their ports, or of their addresses where there are none: verbs have no hash
    /// for what is behind an IPoIB header. At most max_queues.
    Status start(std::span<ibv_qp* const> queues);
    void stop() noexcept;

  private:
    IpoibInterface(std::shared_ptr<ibv::Device> device, ibv::Cq cq, ibv::UdQp owner) noexcept
        : device_{std::move(device)}
        , cq_{std::move(cq)}
        , owner_{std::move(owner)} {}

    Status add_rules(std::span<ibv_qp* const> queues);

    std::shared_ptr<ibv::Device> device_;
    ibv::Cq cq_; ///< of the owner, to which nothing completes
    ibv::UdQp owner_;
    mbufqp::IpoibConfig config_{};
    std::uint16_t max_mtu_{};
    std::optional<mbufqp::IpoibPort> port_{};
    std::vector<ibv::Flow> rules_{}; ///< while started
};

} // namespace stride::pmd
