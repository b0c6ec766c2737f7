// SPDX-License-Identifier: BSD-3-Clause
/// What the send path asks of an encap, and what it gets.
#pragma once

#include "mbufqp/tx_flags.hpp"
#include "mbufqp/tx_stats.hpp"
#include "mlx5/wqe.hpp"

#include <cstddef>
#include <cstdint>

namespace stride::mbufqp {

struct HeaderRequest {
    const std::byte* frame{};         ///< first min(frame_bytes, Encap::header_reads_bytes) bytes, contiguous
    std::uint32_t frame_bytes{};      ///< at least Encap::min_frame_bytes
    std::uint32_t min_inline_bytes{}; ///< what the device demands, at most 18
    bool tag{};                       ///< insert a VLAN tag of `tci`
    std::uint16_t tci{};
    const void* context{}; ///< TxQueueConfig::encap_context
    std::byte* address{};  ///< the datagram segment of the WQE, 48 bytes, if Encap::address_ds
};

struct InlineHeader {
    std::uint32_t inlined_bytes{};       ///< written
    std::uint32_t taken_bytes{};         ///< of the frame, that they stand for; the payload starts there
    TxRefusal refusal{TxRefusal::count}; ///< not `count`: why the frame can't go

    static constexpr InlineHeader refused(TxRefusal reason) noexcept { return {0, 0, reason}; }
    bool ok() const noexcept { return refusal == TxRefusal::count; }
};

/// Room an encap takes in a WQE, for those parts of a queue that are not built per encap.
struct EncapShape {
    std::uint32_t min_frame_bytes{};
    std::uint32_t address_ds{};
    std::uint32_t max_header_bytes{};
    std::uint32_t max_trailer_bytes{};
    std::uint32_t usual_wqebbs{}; ///< of a single-segment packet; rewritten and tagged ones may take more
    bool (*has_header)(TxFeatures features) noexcept {};

    /// DS around the data segments, at most.
    std::uint32_t own_ds(TxFeatures features) const noexcept {
        const std::uint32_t tail_ds = max_trailer_bytes == 0 ? 0 : mlx5::inline_frame_ds(max_trailer_bytes);
        return 1 + address_ds + mlx5::eth_segment_ds(has_header(features) ? max_header_bytes : 0) + tail_ds;
    }
};

template <class Encap>
constexpr EncapShape encap_shape() noexcept {
    return {.min_frame_bytes = Encap::min_frame_bytes,
            .address_ds = Encap::address_ds,
            .max_header_bytes = Encap::max_header_bytes,
            .max_trailer_bytes = Encap::max_trailer_bytes,
            .usual_wqebbs = Encap::usual_wqebbs,
            .has_header = &Encap::has_header};
}

} // namespace stride::mbufqp
