// SPDX-License-Identifier: BSD-3-Clause
/// The rings a data path works on, as plain views: lib/ibv fills them from mlx5dv_init_obj, a unit test from
/// an array. They own nothing and stay valid as long as the verbs object they were taken from.
#pragma once

#include "base/be.hpp"
#include "base/ids.hpp"
#include "base/ring.hpp"

#include <cstddef>
#include <cstdint>

namespace stride::mlx5 {

/// A completion queue (mlx5dv_cq).
struct CqRing {
    std::byte* cqes{};           ///< size.entries() * cqe_bytes
    RingSize size{};             ///< in CQEs
    std::uint32_t cqe_bytes{64}; ///< 64, or 128: the CQE is then in the second half
    be32* dbrec{};               ///< [0] consumer index, 24 bits; [1] arm
    std::byte* uar{};            ///< UAR page; the CQ doorbell register is at +0x20
    Cqn cqn{};
};

/// A receive work queue (mlx5dv_rwq).
struct RqRing {
    std::byte* wqes{};             ///< size.entries() << log_wqe_bytes
    RingSize size{};               ///< in WQEs
    std::uint32_t log_wqe_bytes{}; ///< distance of two WQEs
    be32* dbrec{};                 ///< producer index, low 16 bits
    Wqn wqn{};
};

/// A send queue (mlx5dv_qp).
struct SqRing {
    std::byte* wqebbs{};      ///< size.entries() * 64
    RingSize size{};          ///< in WQEBBs of 64 bytes
    be32* dbrec{};            ///< producer index, low 16 bits (dbrec[1] of the QP)
    std::byte* doorbell{};    ///< UAR register: first 8 bytes of the last ctrl segment go here
    std::uint32_t bf_bytes{}; ///< size of a BlueFlame buffer; 0: doorbell only
    Qpn qpn{};                ///< goes into each ctrl segment
};

} // namespace stride::mlx5
