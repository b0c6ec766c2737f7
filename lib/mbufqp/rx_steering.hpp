// SPDX-License-Identifier: BSD-3-Clause
/// Which frames of a port come to the receive queues of a set, and to which of them.
#pragma once

#include "ibv/flow.hpp"
#include "ibv/rqt.hpp"
#include "ibv/tir.hpp"

#include <memory>
#include <span>
#include <vector>

namespace stride::mbufqp {

class RxSteering {
  public:
    /// Frames that one of `matches` takes. With several WQs they are spread by IP addresses; the WQs are
    /// READY and outlive this.
    static Result<RxSteering> create(std::shared_ptr<ibv::Device> device, std::span<ibv_wq* const> wqs,
                                     std::span<const ibv::FlowMatch> matches);

  private:
    explicit RxSteering(ibv::Rqt rqt) noexcept
        : rqt_{std::move(rqt)} {}

    ibv::Rqt rqt_;
    std::vector<std::unique_ptr<ibv::Tir>> tirs_{};
    std::vector<ibv::Flow> flows_{};
};

} // namespace stride::mbufqp
