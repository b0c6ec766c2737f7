// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/events.hpp"

#include "ibv/handle.hpp"
#include "mbufqp/mbufqp.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace stride::mbufqp {
namespace {

Status make_nonblocking(int fd, const char* what) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return ibv::verbs_error(errno, what);
    return {};
}

/// EAL pins the thread that opens the set, to a CPU that may be busy for ever.
void run_anywhere() noexcept {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        CPU_SET(cpu, &all);
    pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

unsigned event_of(ibv_event_type type) noexcept {
    switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return MBUFQP_EVENT_LINK;
    case IBV_EVENT_DEVICE_FATAL:
        return MBUFQP_EVENT_ERROR;
    default:
        return 0; // a queue finds its own error
    }
}

} // namespace

Result<std::unique_ptr<EventThread>> EventThread::start(std::shared_ptr<ibv::Device> device,
                                                        const ibv::CompletionChannel& channel,
                                                        std::vector<EventSource*> sources, EventSink sink,
                                                        bool device_events) {
    if (auto status = make_nonblocking(channel.fd(), "completion channel"); !status)
        return status.take_error();
    if (device_events)
        if (auto status = make_nonblocking(device->context()->async_fd, "device events"); !status)
            return status.take_error();
    std::unique_ptr<EventThread> made{new EventThread};
    made->device_ = std::move(device);
    made->channel_ = channel.get();
    made->sink_ = sink;
    made->device_events_ = device_events;
    made->stop_fd_ = eventfd(0, EFD_CLOEXEC);
    if (made->stop_fd_ < 0) return ibv::verbs_error(errno, "event thread");
    made->sources_ = std::move(sources);
    made->thread_ = std::thread{[thread = made.get()] { thread->run(); }};
    return made;
}

EventThread::~EventThread() {
    if (thread_.joinable()) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
        thread_.join();
    }
    if (stop_fd_ >= 0) close(stop_fd_);
}

void EventThread::run() noexcept {
    run_anywhere();
    pollfd fds[3] = {{stop_fd_, POLLIN, 0},
                     {channel_->fd, POLLIN, 0},
                     {device_events_ ? device_->context()->async_fd : -1, POLLIN, 0}};
    while (true) {
        if (poll(fds, 3, -1) < 0 && errno != EINTR) return;
        if (fds[0].revents != 0) return;
        if ((fds[1].revents & POLLIN) != 0) take_completion();
        if ((fds[2].revents & POLLIN) != 0) take_device_event();
    }
}

void EventThread::take_completion() noexcept {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_, &cq, &context) != 0) return;
    ibv_ack_cq_events(cq, 1);
    for (EventSource* source : sources_)
        if (source->cq() == cq) {
            source->happened();
            sink_.call(sink_.context, source->event(), source->queue());
        }
}

void EventThread::take_device_event() noexcept {
    ibv_async_event event{};
    if (ibv_get_async_event(device_->context(), &event) != 0) return;
    const unsigned bits = event_of(event.event_type);
    ibv_ack_async_event(&event);
    if (bits != 0) sink_.call(sink_.context, bits, 0);
}

} // namespace stride::mbufqp
