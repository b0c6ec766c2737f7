// SPDX-License-Identifier: BSD-3-Clause
/// get: from what a receive queue hands over to Ethernet frames.
///
/// An Ethernet queue's packets are frames already. For another encap a receive burst is followed by this: the
/// encap finds the frame in each packet, the mbuf is trimmed to it, and what is none is counted and freed.
#pragma once

#include "base/counter.hpp"
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/encap/receive.hpp"

#include <array>
#include <cstdint>

struct rte_mbuf;

namespace stride::mbufqp {

/// What the application saw, and what it did not; written by the queue's thread.
struct RxFrames {
    Counter packets{}, bytes{};            ///< frames handed over, without what the encap has around them
    std::array<Counter, rx_drops> drops{}; ///< by RxDrop
};

/// Trims the packets to their frames and closes the gaps of those dropped; how many are left. `context` is of
/// the encap's own type.
using RxDecap = std::uint16_t (*)(void* context, rte_mbuf** packets, std::uint16_t count,
                                  RxFrames& frames) noexcept;

/// nullptr: the encap's packets are frames.
RxDecap encap_decap(EncapKind kind) noexcept;

} // namespace stride::mbufqp
