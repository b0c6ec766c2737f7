// SPDX-License-Identifier: BSD-3-Clause
/// CQEs of a send queue, as mlx5dv.h lays them out, on the cursor of a CQ that only that queue completes to.
#pragma once

#include "mlx5/cq_cursor.hpp"

#include <infiniband/mlx5dv.h>

#include <cstdint>

namespace stride::mlx5 {

/// What a CQE of a send queue says.
enum class SendCqeKind : std::uint8_t {
    hardware,   ///< still the HCA's: nothing there
    done,       ///< all WQEs up to wqe_counter are executed
    error,      ///< the WQE at wqe_counter failed; the queue is in error
    unexpected, ///< an opcode or format this queue never asked for
};

/// Of the CQE `ahead` places from the next one. One acquiring load; the rest of the CQE may be read unless it
/// is `hardware`.
inline SendCqeKind send_cqe_kind(const CqCursor& cq, std::uint32_t ahead = 0) noexcept {
    constexpr unsigned format_and_opcode = 0xfc; // op_own [7:4] opcode, [3:2] compression format
    const mlx5_cqe64* const cqe = cq.poll(ahead);
    if (cqe == nullptr) return SendCqeKind::hardware;
    const unsigned op_own = cqe->op_own;
    if ((op_own & format_and_opcode) == MLX5_CQE_REQ << 4) [[likely]]
        return SendCqeKind::done;
    return op_own >> 4 == MLX5_CQE_REQ_ERR ? SendCqeKind::error : SendCqeKind::unexpected;
}
/// Index of the WQE, in WQEBBs, that the CQE at `index` speaks of.
inline std::uint16_t send_wqe_counter(const CqCursor& cq, std::uint32_t index) noexcept {
    return be16::from_wire(cq.at(index)->wqe_counter).host();
}

} // namespace stride::mlx5
