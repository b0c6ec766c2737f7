// SPDX-License-Identifier: BSD-3-Clause
/// CQE compression (PRM "Completion Queue Element Compressing"): runs of packets that differ in little are
/// one title CQE and arrays of 8 mini-CQEs.
///
/// A session of N completions takes the N slots that N CQEs would: the title stands in the first, with N for
/// its byte count; the arrays stand in the 2nd, 9th, 17th, ... (as net/mlx5 reads them, mlx5_rx_poll_len). A
/// session ends where the ring does (net/mlx5 unpacks one as an array, without a mask: rxq_cq_decompress_v).
/// The title's owner bit is written last. Only packets are compressed: never errors, fillers or datagrams. A
/// run is held back no longer than the batch of frames it came in.
#pragma once

#include "swhca/engine/completion.hpp"

namespace swhca {

/// As begin_cqe, publish_cqe, for the CQE of a received packet.
void* begin_held_cqe(Cq& cq) noexcept;
void publish_held_cqe(Cq& cq, const CqeTail& tail, bool striding) noexcept;

inline void* begin_packet_cqe(Cq& cq) noexcept {
    if (cq.session == nullptr) [[likely]]
        return begin_cqe(cq);
    return begin_held_cqe(cq);
}
inline void publish_packet_cqe(Cq& cq, const CqeTail& tail, bool striding) noexcept {
    if (cq.session == nullptr) [[likely]]
        return publish_cqe(cq, tail);
    publish_held_cqe(cq, tail, striding);
}

} // namespace swhca
