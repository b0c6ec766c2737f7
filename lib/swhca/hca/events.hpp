// SPDX-License-Identifier: BSD-3-Clause
/// Event channels: completions and asynchronous events are messages on socket pairs, so that the program's
/// read, poll and epoll need no help. Events are written by the engine (engine/queues.hpp).
#pragma once

#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

struct SocketPair {
    int program_fd{-1}; ///< for the program, which closes it
    int copy_fd{-1};    ///< our copy of the program's end
    int engine_fd{-1};  ///< what events are written to
};

/// 0 or an errno. Our own ends get high numbers, out of the program's way.
int open_event_pair(SocketPair& pair) noexcept;

/// Removes unread events of a dying object; returns how many there were. The order of the others stays.
/// Engine quiesced.
std::uint32_t take_back_completions(const CompChannel& channel, std::uint64_t user_handle);
std::uint32_t take_back_async(const Context& context, std::uint64_t user_handle);

} // namespace swhca
