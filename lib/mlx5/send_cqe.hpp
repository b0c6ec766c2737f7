// SPDX-License-Identifier: BSD-3-Clause
/// CQEs of a send queue, as mlx5dv.h lays them out.
#pragma once

#include "base/barrier.hpp"
#include "base/be.hpp"
#include "mlx5/rings.hpp"

#include <infiniband/mlx5dv.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace stride::mlx5 {

/// What a CQE of a send queue says.
enum class SendCqeKind : std::uint8_t {
    hardware,   ///< still the HCA's: nothing there
    done,       ///< all WQEs up to wqe_counter are executed
    error,      ///< the WQE at wqe_counter failed; the queue is in error
    unexpected, ///< an opcode or format this queue never asked for
};

/// Read side of a CQ that only a send queue completes to. Holds no index.
class SendCqes {
  public:
    SendCqes() = default;
    explicit SendCqes(const CqRing& ring) noexcept
        : first_{ring.cqes + (ring.cqe_bytes - sizeof(mlx5_cqe64))}
        , log_cqe_bytes_{static_cast<std::uint8_t>(std::countr_zero(ring.cqe_bytes))}
        , log_size_{static_cast<std::uint8_t>(ring.size.log())} {}

    const mlx5_cqe64* at(std::uint32_t ci) const noexcept {
        const std::size_t slot = ci & ((1U << log_size_) - 1);
        return reinterpret_cast<const mlx5_cqe64*>(first_ + (slot << log_cqe_bytes_));
    }
    /// One acquiring load; the rest of the CQE may be read unless it is `hardware`.
    SendCqeKind kind(std::uint32_t ci) const noexcept {
        const unsigned op_own = load_from_device(&at(ci)->op_own);
        const unsigned owner = (ci >> log_size_) & 1U;
        if ((op_own & MLX5_CQE_OWNER_MASK) != owner || op_own >> 4 == MLX5_CQE_INVALID)
            return SendCqeKind::hardware;
        if ((op_own & format_and_opcode) == MLX5_CQE_REQ << 4) [[likely]]
            return SendCqeKind::done;
        return op_own >> 4 == MLX5_CQE_REQ_ERR ? SendCqeKind::error : SendCqeKind::unexpected;
    }
    /// Index of the WQE, in WQEBBs, that the CQE speaks of.
    std::uint16_t wqe_counter(std::uint32_t ci) const noexcept {
        return be16::from_wire(at(ci)->wqe_counter).host();
    }
    std::uint8_t syndrome(std::uint32_t ci) const noexcept {
        return reinterpret_cast<const mlx5_err_cqe*>(at(ci))->syndrome;
    }

  private:
    static constexpr unsigned format_and_opcode = 0xfc; ///< op_own [7:4] opcode, [3:2] compression format

    const std::byte* first_{};
    std::uint8_t log_cqe_bytes_{6};
    std::uint8_t log_size_{};
};

/// The consumer index as the doorbell record holds it: 24 bits.
inline void release_cqes(be32* dbrec, std::uint32_t ci) noexcept {
    store_to_device(dbrec, be32{ci & 0xffffffU});
}

} // namespace stride::mlx5
