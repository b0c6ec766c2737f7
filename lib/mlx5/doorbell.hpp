// SPDX-License-Identifier: BSD-3-Clause
/// Telling the HCA that WQEs are ready: WQE, barrier, doorbell record, barrier, UAR register.
#pragma once

#include "base/barrier.hpp"
#include "base/be.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mlx5 {

/// Posts everything before `pi` (free-running, in WQEBBs). `last_wqe` is the start of the last WQE: its first
/// 8 bytes are what the register takes. Owner of the send queue only.
inline void ring_send_doorbell(be32* dbrec, std::byte* reg, std::uint16_t pi,
                               const std::byte* last_wqe) noexcept {
    std::uint64_t head;
    std::memcpy(&head, last_wqe, sizeof head);
    store_to_device(dbrec, be32{pi});
    ring_doorbell(reg, head);
}

} // namespace stride::mlx5
