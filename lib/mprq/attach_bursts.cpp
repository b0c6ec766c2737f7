// SPDX-License-Identifier: BSD-3-Clause
/// Bursts of striding queues whose packets are attached to strides.
#include "mprq/striding_burst.hpp"

namespace stride::mprq {

RxBurst select_attach_burst(RxOffloads offloads) noexcept {
    return detail::striding_bursts<detail::Place::attached>.of(offloads);
}

} // namespace stride::mprq
