// SPDX-License-Identifier: BSD-3-Clause
#include "interrupts.hpp"

#include "mlx5/cq_arm.hpp"
#include "ops.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace stride::pmd {
namespace {

Error no_handle(const char* what) { return Error{ENOMEM, strprintf("no interrupt handle for %s", what)}; }

Status make_nonblocking(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return ibv::verbs_error(errno, "interrupts: make a descriptor non-blocking");
    return {};
}

struct DeviceNews {
    bool link{}, gone{};
};

/// Takes all events that wait.
DeviceNews take_events(const ibv::Device& device) noexcept {
    DeviceNews news;
    ibv_async_event event{};
    while (ibv_get_async_event(device.context(), &event) == 0) {
        if (event.event_type == IBV_EVENT_DEVICE_FATAL) news.gone = true;
        if ((event.event_type == IBV_EVENT_PORT_ACTIVE || event.event_type == IBV_EVENT_PORT_ERR) &&
            event.element.port_num == device.port())
            news.link = true;
        ibv_ack_async_event(&event);
    }
    return news;
}

/// As other threads leave it: whole.
std::uint16_t link_status(rte_eth_dev* dev) noexcept {
    rte_eth_link link{};
    rte_eth_linkstatus_get(dev, &link);
    return link.link_status;
}

/// EAL's interrupt thread.
void on_device_event(void* context) {
    auto* const dev = static_cast<rte_eth_dev*>(context);
    const auto& wanted = dev->data->dev_conf.intr_conf;
    const DeviceNews news = take_events(*port_of(dev).device);
    const auto before = link_status(dev);
    if (news.link) link_update(dev, 0);
    const bool changed = link_status(dev) != before;
    // Last, and one of the two: the application may close the port.
    if (news.gone && wanted.rmv != 0)
        rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_RMV, nullptr);
    else if (changed && wanted.lsc != 0)
        rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_LSC, nullptr);
}

/// EAL's interrupt thread.
void on_spare_low(void* context) {
    auto* const dev = static_cast<rte_eth_dev*>(context);
    std::uint64_t times = 0;
    if (read(port_of(dev).interrupts.spare_low_fd, &times, sizeof times) != sizeof times) return;
    rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_RX_AVAIL_THRESH, nullptr);
}

} // namespace

Result<std::unique_ptr<WatchedFd>> WatchedFd::watch(int fd, Call call, rte_eth_dev* dev) {
    if (auto status = make_nonblocking(fd); !status) return status.take_error();
    IntrHandle handle{rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE)};
    if (!handle || rte_intr_fd_set(handle.get(), fd) != 0 ||
        rte_intr_type_set(handle.get(), RTE_INTR_HANDLE_EXT) != 0)
        return no_handle("events");
    if (const int code = rte_intr_callback_register(handle.get(), call, dev); code != 0)
        return Error{-code, strprintf("EAL does not watch descriptor %d", fd)};
    return std::unique_ptr<WatchedFd>{new WatchedFd{std::move(handle), call, dev}};
}

WatchedFd::~WatchedFd() {
    // Closed from a callback, the port is still being called: EAL forgets it after that.
    if (rte_thread_is_intr() != 0)
        rte_intr_callback_unregister_pending(handle_.get(), call_, dev_, nullptr);
    else
        rte_intr_callback_unregister_sync(handle_.get(), call_, dev_);
}

Interrupts::~Interrupts() {
    hide_queues();
    device.reset();
    spare_low.reset();
    if (spare_low_fd >= 0) close(spare_low_fd);
}

Status Interrupts::open(rte_eth_dev* dev) {
    spare_low_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (spare_low_fd < 0) return ibv::verbs_error(errno, "interrupts: eventfd");
    auto low = WatchedFd::watch(spare_low_fd, on_spare_low, dev);
    if (!low) return low.take_error();
    spare_low = std::move(low).value();
    auto events = WatchedFd::watch(port_of(dev).device->context()->async_fd, on_device_event, dev);
    if (!events) return events.take_error();
    device = std::move(events).value();
    return {};
}

Status Interrupts::show_queues(rte_eth_dev* dev) {
    Port& port = port_of(dev);
    if (dev->data->dev_conf.intr_conf.rxq == 0 || port.rxqs.empty()) return {};
    IntrHandle handle{rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE)};
    const int count = static_cast<int>(port.rxqs.size());
    if (!handle || rte_intr_type_set(handle.get(), RTE_INTR_HANDLE_EXT) != 0 ||
        rte_intr_vec_list_alloc(handle.get(), nullptr, count) != 0)
        return no_handle("receive queues");
    for (int i = 0; i < count; ++i) {
        const int fd = port.rxqs[static_cast<std::size_t>(i)]->running->channel->fd();
        if (auto status = make_nonblocking(fd); !status) return status;
        if (rte_intr_vec_list_index_set(handle.get(), i, RTE_INTR_VEC_RXTX_OFFSET + i) != 0 ||
            rte_intr_efds_index_set(handle.get(), i, fd) != 0)
            return no_handle("so many receive queues");
    }
    if (rte_intr_nb_efd_set(handle.get(), count) != 0) return no_handle("receive queues");
    queues = std::move(handle);
    dev->intr_handle = queues.get();
    return {};
}

void Interrupts::hide_queues() noexcept {
    if (!queues) return;
    rte_intr_free_epoll_fd(queues.get());
    rte_intr_vec_list_free(queues.get());
    queues.reset();
}

void Interrupts::tell_spare_low() noexcept {
    const std::uint64_t once = 1;
    [[maybe_unused]] const ssize_t written = write(spare_low_fd, &once, sizeof once);
}

int rx_queue_intr_enable(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    RxSlot& slot = *port_of(dev).rxqs[queue];
    if (!slot.running || !slot.running->channel) return -ENOTSUP;
    const RunningRxq& running = *slot.running;
    mlx5::arm_cq(running.cq.ring(), running.events, running.queue->completion_index());
    return 0;
}

int rx_queue_intr_disable(rte_eth_dev* dev, std::uint16_t queue) noexcept {
    RxSlot& slot = *port_of(dev).rxqs[queue];
    if (!slot.running || !slot.running->channel) return -ENOTSUP;
    RunningRxq& running = *slot.running;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(running.channel->get(), &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        ++running.events; // arms after this one count as new
    }
    return errno == EAGAIN ? 0 : -errno;
}

int rx_avail_thresh_set(rte_eth_dev* dev, std::uint16_t queue, std::uint8_t percent) noexcept {
    Port& port = port_of(dev);
    if (queue >= port.rxqs.size() || !port.rxqs[queue]) return -EINVAL;
    if (!port.device->caps().striding.raw_packet)
        return to_errno(port, "available buffers threshold",
                        Error{ENOTSUP, "a regular receive queue has no buffers of its own"});
    RxSlot& slot = *port.rxqs[queue];
    slot.avail_thresh = percent;
    if (slot.running) slot.running->queue->watch_spare(percent);
    return 0;
}

int rx_avail_thresh_query(rte_eth_dev* dev, std::uint16_t* queue, std::uint8_t* percent) noexcept {
    Port& port = port_of(dev);
    const std::size_t count = port.rxqs.size();
    for (std::size_t n = 0; n < count; ++n) {
        const std::size_t at = (*queue + n) % count;
        if (!port.rxqs[at] || !port.rxqs[at]->spare_low.exchange(false)) continue;
        *queue = static_cast<std::uint16_t>(at);
        if (percent != nullptr) *percent = port.rxqs[at]->avail_thresh;
        return 1;
    }
    return 0;
}

} // namespace stride::pmd
