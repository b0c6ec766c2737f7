// SPDX-License-Identifier: BSD-3-Clause
/// WQEs of receive queues and the doorbell record that posts them.
#pragma once

#include "base/barrier.hpp"
#include "base/ids.hpp"
#include "mlx5/rings.hpp"

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstdint>

namespace stride::mlx5 {

/// Key of a data segment that ends a scatter list shorter than the WQE (MLX5_INVALID_LKEY of libmlx5).
inline constexpr std::uint32_t list_end_lkey = 0x100;

inline void write_data_segment(mlx5_wqe_data_seg& segment, std::uint32_t bytes, be32 lkey,
                               std::uintptr_t address) noexcept {
    segment.byte_count = be32{bytes}.wire();
    segment.lkey = lkey.wire();
    segment.addr = be64{address}.wire();
}

inline mlx5_wqe_data_seg* data_segment(const RqRing& rq, std::uint32_t slot, std::uint32_t n) noexcept {
    return reinterpret_cast<mlx5_wqe_data_seg*>(rq.wqes + (std::size_t{slot} << rq.log_wqe_bytes)) + n;
}

/// A striding WQE is mlx5_mprq_wqe: a 16-byte next segment, unused in a cyclic queue, then the data segment
/// that names the buffer. ibv_post_wq_recv would write the data segment where the next segment is.
inline mlx5_mprq_wqe* striding_wqe(const RqRing& rq, std::uint32_t slot) noexcept {
    return reinterpret_cast<mlx5_mprq_wqe*>(rq.wqes + (std::size_t{slot} << rq.log_wqe_bytes));
}

/// Writes all of the WQE but the buffer's address, which set_striding_address gives each time it is posted.
inline void prepare_striding_wqe(const RqRing& rq, std::uint32_t slot, std::uint32_t wqe_bytes,
                                 Lkey lkey) noexcept {
    mlx5_mprq_wqe* wqe = striding_wqe(rq, slot);
    *wqe = {};
    write_data_segment(wqe->dseg, wqe_bytes, be32{lkey.value}, 0);
    const auto segments = static_cast<std::uint32_t>((1U << rq.log_wqe_bytes) / sizeof(mlx5_wqe_data_seg));
    for (std::uint32_t n = 2; n < segments; ++n)
        write_data_segment(*data_segment(rq, slot, n), 0, be32{list_end_lkey}, 0);
}
inline void set_striding_address(mlx5_mprq_wqe& wqe, const std::byte* strides) noexcept {
    wqe.dseg.addr = be64{reinterpret_cast<std::uintptr_t>(strides)}.wire();
}

/// Posts everything before `pi`: a receive queue has a doorbell record and no register.
inline void ring_receive_doorbell(be32* dbrec, std::uint32_t pi) noexcept {
    store_to_device(dbrec, be32{pi & 0xffffU});
}

} // namespace stride::mlx5
