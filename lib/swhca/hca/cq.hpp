// SPDX-License-Identifier: BSD-3-Clause
/// Completion queues and channels. All functions: commands held; 0 or an errno.
#pragma once

#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

/// As CREATE_CQ and its driver part (mlx5_ib_create_cq) say it.
struct CqRequest {
    std::uint64_t user_handle{};
    std::uint32_t cqe{}; ///< entries of the ring - 1
    std::uint32_t comp_vector{};
    CompChannel* channel{};
    std::uint64_t ring{}, dbrec{};
    std::uint32_t cqe_bytes{};
    bool compress{};
    std::uint8_t compress_format{}; ///< one of MLX5_IB_CQE_RES_FORMAT_*
};

/// What the program has read of a dead object's events.
struct EventsRead {
    std::uint32_t completions{}, async{};
};

int create_cq(Context& context, const CqRequest& request, Cq*& cq);
/// EBUSY while queues complete there.
int destroy_cq(Context& context, std::uint32_t handle, EventsRead& read);
/// Moves a CQ to another ring: a CQE of its own kind ends the old one, and the program copies what is unread
/// (libmlx5 cq.c, mlx5_cq_resize_copy_cqes). EINVAL if the unread CQEs do not fit.
int resize_cq(Context& context, std::uint32_t handle, const CqRequest& request);
/// Moderation is kept; events are never held back by it.
int modify_cq(Context& context, std::uint32_t handle, std::uint16_t count, std::uint16_t period_us);

/// Makes a channel; `program_fd` goes to the program.
int create_channel(Context& context, CompChannel*& channel, int& program_fd);
/// The program closed its last descriptor of the channel, which goes with its last CQ.
void channel_closed(Context& context, CompChannel& channel);

constexpr std::uint32_t completion_vectors = 8;

} // namespace swhca
