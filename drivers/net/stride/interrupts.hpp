// SPDX-License-Identifier: BSD-3-Clause
/// Interrupts of a port: of its receive queues, for whoever sleeps on an epoll descriptor, and what EAL's
/// interrupt thread watches: events of the device, and queues that run low on spare buffers.
#pragma once

#include "base/result.hpp"
#include "compat.hpp"

#include <memory>

namespace stride::pmd {

struct Port;

struct FreeIntrHandle {
    void operator()(rte_intr_handle* handle) const noexcept { rte_intr_instance_free(handle); }
};
using IntrHandle = std::unique_ptr<rte_intr_handle, FreeIntrHandle>;

/// A descriptor that EAL's interrupt thread calls back for, as long as this lives. The call must not touch
/// what owns it after telling the application, which may close the port then.
class WatchedFd {
  public:
    using Call = void (*)(void* dev);

    static Result<std::unique_ptr<WatchedFd>> watch(int fd, Call call, rte_eth_dev* dev);
    ~WatchedFd();
    WatchedFd(const WatchedFd&) = delete;
    WatchedFd& operator=(const WatchedFd&) = delete;

  private:
    WatchedFd(IntrHandle handle, Call call, rte_eth_dev* dev) noexcept
        : handle_{std::move(handle)}
        , call_{call}
        , dev_{dev} {}

    IntrHandle handle_;
    Call call_;
    rte_eth_dev* dev_;
};

/// Owned by the port; control thread but for tell_spare_low.
struct Interrupts {
    Interrupts() = default;
    ~Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

    /// From probe on: events of the device, told to applications that asked for them.
    Status open(rte_eth_dev* dev);
    /// Shows the queues' channels to rte_eth_dev_rx_intr_ctl, if the port was configured for that.
    Status show_queues(rte_eth_dev* dev);
    void hide_queues() noexcept;
    /// A queue has few spare buffers: from a burst.
    void tell_spare_low() noexcept;

    IntrHandle queues{};
    int spare_low_fd{-1};
    std::unique_ptr<WatchedFd> device{}, spare_low{};
};

} // namespace stride::pmd
