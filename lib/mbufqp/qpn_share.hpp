// SPDX-License-Identifier: BSD-3-Clause
/// Rules of sets that share one QPN. Sharers whose queue counts and lifetimes were not tied to those of the
/// QPN's owner have crashed kernels (CVE-2023-52745, CVE-2022-48883).
#pragma once

#include "base/format.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <mutex>

namespace stride::mbufqp {

/// One per QPN; any thread.
class QpnShare {
  public:
    void own(std::uint16_t tx_queues) noexcept { owner_queues_ = tx_queues; }

    /// A further set. EINVAL: it has more queues than the owner; ESHUTDOWN: the owner is closing.
    Status join(std::uint16_t tx_queues, std::uint16_t rx_queues) {
        const std::lock_guard lock{mutex_};
        if (closed_) return Error{ESHUTDOWN, "the set whose QPN is to be shared is closed"};
        if (tx_queues > owner_queues_)
            return Error{EINVAL, strprintf("%u send queues, but the set whose QPN they share has %u",
                                           tx_queues, owner_queues_)};
        if (rx_queues != 0)
            return Error{EINVAL,
                         "a set that shares a QPN has no receive queues: packets come to the QPN's owner"};
        ++sharers_;
        return {};
    }
    void leave() noexcept {
        const std::lock_guard lock{mutex_};
        --sharers_;
    }
    /// The owner goes. EBUSY: not while others are there.
    Status close() {
        const std::lock_guard lock{mutex_};
        if (sharers_ != 0) return Error{EBUSY, strprintf("%u sets share the QPN", sharers_)};
        closed_ = true;
        return {};
    }

  private:
    std::mutex mutex_{};
    std::uint16_t owner_queues_{};
    unsigned sharers_{};
    bool closed_{};
};

} // namespace stride::mbufqp
