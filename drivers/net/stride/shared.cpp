// SPDX-License-Identifier: BSD-3-Clause
#include "shared.hpp"

#include "base/log.hpp"

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mempool.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace stride::pmd {

PortShared* PortShared::create() noexcept {
    void* const place = rte_zmalloc("stride_port", sizeof(PortShared), alignof(PortShared));
    return place != nullptr ? new (place) PortShared : nullptr;
}

void LeavePort::operator()(PortShared* shared) const noexcept {
    if (shared->processes.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    shared->~PortShared();
    rte_free(shared);
}

int bind_ops_index() noexcept {
    for (std::uint32_t index = 0; index < rte_mempool_ops_table.num_ops; ++index)
        if (std::strcmp(rte_mempool_ops_table.ops[index].name, "stride") == 0) return static_cast<int>(index);
    return -1;
}

/// Ended, whether its parent has looked or not.
static bool is_gone(pid_t process) noexcept {
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (fd < 0) return errno == ESRCH;
    pollfd ended{.fd = fd, .events = POLLIN, .revents = 0};
    const bool gone = poll(&ended, 1, 0) == 1;
    close(fd);
    return gone;
}

/// A burst takes microseconds, and longer only where its thread does not get to run, or asks the primary. One
/// whose process was killed never ends.
template <class Queue, class Slot>
void SharedQueue<Queue, Slot>::withdraw() noexcept {
    constexpr unsigned look_us = 50, doubt_us = 100'000, most_us = 20'000'000;
    queue.store(nullptr, std::memory_order_seq_cst); // before looking; a burst does it the other way round
    for (unsigned waited_us = 0; waited_us < most_us; waited_us += look_us) {
        const pid_t process = inside.load(std::memory_order_seq_cst);
        if (process == 0) return;
        if (waited_us >= doubt_us && is_gone(process)) {
            inside.store(0);
            return;
        }
        rte_delay_us_sleep(look_us);
    }
    log_line(LogLevel::error, "port %u queue %u: process %d does not end its burst", port_id, id,
             inside.load());
}

template struct SharedQueue<mprq::RxQueue, RxSlot>;
template struct SharedQueue<mbufqp::TxQueue, TxSlot>;

} // namespace stride::pmd
