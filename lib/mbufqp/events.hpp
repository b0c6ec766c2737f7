// SPDX-License-Identifier: BSD-3-Clause
/// Events: queues ask for one, a thread per set waits for them.
///
/// No wake-up is lost: a queue is armed with the index of the CQE it waits for, and the HCA, which knows its
/// own, gives the event at once if that CQE was written between the last look and the arming.
#pragma once

#include "base/result.hpp"
#include "ibv/cq.hpp"
#include "mbufqp/queue_set.hpp"
#include "mlx5/cq_arm.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace stride::mbufqp {

/// A CQ that events are asked of. Armed by the queue's thread, counted by the event thread.
class EventSource {
  public:
    EventSource() = default;
    EventSource(const mlx5::CqRing& ring, ibv_cq* cq, unsigned event, std::uint16_t queue) noexcept
        : ring_{ring}
        , cq_{cq}
        , event_{event}
        , queue_{queue} {}

    /// One event for the CQE at `ci`, at once if it is there.
    void arm(std::uint32_t ci) noexcept { mlx5::arm_cq(ring_, events_.load(std::memory_order_acquire), ci); }
    /// An event has come: the next one is another.
    void happened() noexcept { events_.fetch_add(1, std::memory_order_release); }

    ibv_cq* cq() const noexcept { return cq_; }
    unsigned event() const noexcept { return event_; }
    std::uint16_t queue() const noexcept { return queue_; }

  private:
    mlx5::CqRing ring_{};
    ibv_cq* cq_{};
    unsigned event_{};
    std::uint16_t queue_{};
    std::atomic<std::uint32_t> events_{0};
};

/// Waits for room in a send queue: true if there is some, or the queue needs a put to be recovered; false if
/// an event was asked for. The queue's thread.
inline bool room_or_arm(QueueSet& set, std::size_t index, EventSource& source) noexcept {
    if (set.write_avail(index) != 0 || set.queue(index).hot().broken) return true;
    source.arm(set.queue(index).hot().cq.ci());
    return false;
}

/// Called on the event thread with the bits of MBUFQP_EVENT_*.
struct EventSink {
    void (*call)(void* context, unsigned event, std::uint16_t queue) noexcept {};
    void* context{};
};

/// The thread. Sources and device outlive it.
class EventThread {
  public:
    /// `device_events`: also those of the device (link, errors); for one thread of a device only.
    static Result<std::unique_ptr<EventThread>> start(std::shared_ptr<ibv::Device> device,
                                                      const ibv::CompletionChannel& channel,
                                                      std::vector<EventSource*> sources, EventSink sink,
                                                      bool device_events);
    ~EventThread();
    EventThread(const EventThread&) = delete;
    EventThread& operator=(const EventThread&) = delete;

  private:
    EventThread() = default;

    void run() noexcept;
    void take_completion() noexcept;
    void take_device_event() noexcept;

    std::shared_ptr<ibv::Device> device_{};
    ibv_comp_channel* channel_{};
    EventSink sink_{};
    bool device_events_{};
    int stop_fd_{-1};
    std::vector<EventSource*> sources_{};
    std::thread thread_{};
};

} // namespace stride::mbufqp
