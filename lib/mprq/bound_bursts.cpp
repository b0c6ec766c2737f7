// SPDX-License-Identifier: BSD-3-Clause
/// Bursts of striding queues whose packets are bound to strides for good.
#include "mprq/striding_burst.hpp"

namespace stride::mprq {

RxBurst select_bound_burst(RxOffloads offloads) noexcept {
    return detail::striding_bursts<detail::Place::bound>.of(offloads);
}

} // namespace stride::mprq
