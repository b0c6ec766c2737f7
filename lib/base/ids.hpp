// SPDX-License-Identifier: BSD-3-Clause
/// Strong identifiers: a QPN is not a CQN, and neither is a number to calculate with.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace stride {

template <class Tag>
struct Id {
    std::uint32_t value{};
    friend constexpr auto operator<=>(Id, Id) = default;
};

using Qpn = Id<struct QpnTag>;   ///< queue pair number, 24 bits
using Cqn = Id<struct CqnTag>;   ///< completion queue number, 24 bits
using Wqn = Id<struct WqnTag>;   ///< receive work queue number (RQN), 24 bits
using Lkey = Id<struct LkeyTag>; ///< local memory key, 32 bits, host order
using Pdn = Id<struct PdnTag>;   ///< protection domain number, 24 bits

} // namespace stride

template <class Tag>
struct std::hash<stride::Id<Tag>> {
    std::size_t operator()(stride::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
