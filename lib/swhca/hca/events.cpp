// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/events.hpp"

#include <cerrno>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace swhca {
namespace {

constexpr int high_fd = 768; // below the usual limit of 1024, above what programs reach

/// Moves `fd` to a high number if there is one free.
int move_high(int fd) noexcept {
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, high_fd);
    if (high < 0) return fd;
    close(fd);
    return high;
}

template <class Event>
bool send_event(int fd, const Event& event) noexcept {
    return fd >= 0 && send(fd, &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof event;
}

/// Reads all unread messages of a socket pair, drops those that `dies` names and writes the others back.
template <class Event, class Dies>
std::uint32_t take_back(int program_fd, int engine_fd, Dies dies) {
    std::vector<Event> kept;
    std::uint32_t dropped = 0;
    Event event{};
    while (recv(program_fd, &event, sizeof event, MSG_DONTWAIT) == sizeof event) {
        if (dies(event)) {
            ++dropped;
        } else {
            kept.push_back(event);
        }
    }
    for (const Event& other : kept)
        send_event(engine_fd, other);
    return dropped;
}

} // namespace

int open_event_pair(SocketPair& pair) noexcept {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
    const int copy = fcntl(ends[0], F_DUPFD_CLOEXEC, high_fd);
    pair = SocketPair{ends[0], copy >= 0 ? copy : fcntl(ends[0], F_DUPFD_CLOEXEC, 0), move_high(ends[1])};
    return 0;
}

std::uint32_t take_back_completions(const CompChannel& channel, std::uint64_t user_handle) {
    return take_back<ib_uverbs_comp_event_desc>(
        channel.program_fd, channel.engine_fd,
        [&](const ib_uverbs_comp_event_desc& event) { return event.cq_handle == user_handle; });
}

std::uint32_t take_back_async(const Context& context, std::uint64_t user_handle) {
    return take_back<ib_uverbs_async_event_desc>(
        context.async_program_fd, context.async_engine_fd,
        [&](const ib_uverbs_async_event_desc& event) { return event.element == user_handle; });
}

} // namespace swhca
