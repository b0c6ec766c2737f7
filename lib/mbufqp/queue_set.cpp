// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/queue_set.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace stride::mbufqp {

Result<QueueSet> QueueSet::open(const QueueSetConfig& config) {
    if (config.queues.empty() || config.burst == nullptr)
        return Error{EINVAL, strprintf("queue set: %zu queues and %s burst", config.queues.size(),
                                       config.burst == nullptr ? "no" : "a")};
    QueueSet set;
    set.burst_ = config.burst;
    set.stop_below_ = config.stop_below;
    set.wake_at_ = config.wake_at;
    for (const TxQueueConfig& wanted : config.queues) {
        auto queue = TxQueue::create(wanted);
        if (!queue) return queue.take_error();
        const std::uint32_t room = queue.value()->write_avail();
        // What no completion was asked for stays under a quarter of the ring: half of it always comes back.
        if (config.stop_below > config.wake_at || config.wake_at > room / 2)
            return Error{EINVAL,
                         strprintf("queue set: stop below %u, wake at %u of %u: needs stop <= wake <= half",
                                   config.stop_below, config.wake_at, room)};
        if (!set.members_.empty() && queue.value()->features() != set.members_[0].queue->features())
            return Error{EINVAL, strprintf("queue set: queue %zu has features 0x%x, queue 0 has 0x%x",
                                           set.members_.size(), unsigned{queue.value()->features().bits()},
                                           unsigned{set.members_[0].queue->features().bits()})};
        set.members_.push_back({std::move(queue).value(), false});
    }
    return set;
}

std::uint32_t QueueSet::write_avail(std::size_t index) noexcept {
    Member& member = members_[index];
    member.queue->reclaim_all();
    const std::uint32_t room = member.queue->write_avail();
    if (room < (member.stopped ? wake_at_ : stop_below_)) {
        member.stopped = true;
        return 0;
    }
    member.stopped = false;
    return room;
}

} // namespace stride::mbufqp
