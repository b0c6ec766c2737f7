// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/build.hpp"

#include "swhca/hca/cq.hpp"
#include "swhca/hca/datagram.hpp"
#include "swhca/hca/flow.hpp"
#include "swhca/hca/gid.hpp"
#include "swhca/hca/link.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/qp.hpp"
#include "swhca/hca/retire.hpp"
#include "swhca/hca/srq.hpp"
#include "swhca/hca/uar.hpp"
#include "swhca/hca/wq.hpp"
#include "swhca/wire/make_wire.hpp"

#include <algorithm>
#include <cerrno>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <unistd.h>

namespace swhca {
namespace {

/// EUI-64 of the MAC, as adapters number themselves.
std::uint64_t guid_of(const std::array<std::uint8_t, 6>& mac) noexcept {
    const std::uint8_t bytes[8] = {
        static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    std::uint64_t guid = 0;
    for (const std::uint8_t byte : bytes)
        guid = guid << 8 | byte;
    return guid;
}

void make_engines(Hca& hca, const Config& config) {
    EngineOptions options = config.engine;
    const std::size_t wanted = options.ports ? config.ports.size() : 1;
    for (; options.lane < wanted; ++options.lane) {
        hca.engines.push_back(std::make_unique<Engine>(options));
        if (options.cpu >= 0) ++options.cpu;
    }
}

/// Empties a table by the object's own destroy function.
template <class T, class Destroy>
void destroy_all(Context::Table<T>& table, Destroy destroy) {
    while (!table.empty())
        destroy(table.begin()->first);
}

} // namespace

stride::Result<std::unique_ptr<Hca>> build_hca(const Config& config) {
    auto hca = std::make_unique<Hca>();
    make_engines(*hca, config);
    for (const PortConfig& wanted : config.ports) {
        auto device = std::make_unique<Device>();
        device->name = wanted.options.name;
        device->index = static_cast<unsigned>(hca->devices.size());
        device->node_guid = guid_of(wanted.mac);
        device->engine = hca->engines[device->index % hca->engines.size()].get();
        device->caps = wanted.caps;
        Port& port = device->port;
        port.device_name = device->name;
        port.mac = wanted.mac;
        port.netdev = wanted.netdev;
        port.link_layer = wanted.link_layer;
        port.lid = wanted.lid;
        port.sm_lid = wanted.sm_lid;
        port.pkeys = wanted.pkeys;
        port.gids = gid::table_of(port.link_layer, port.mac);
        port.max_frame_bytes = wanted.max_frame_bytes;
        port.pause = wanted.pause;
        PortOptions options = wanted.options;
        options.engines = static_cast<unsigned>(hca->engines.size());
        auto wire = make_wire(options);
        if (!wire.ok()) return std::move(wire).take_error();
        port.wire = std::move(wire).value();
        hca->devices.push_back(std::move(device));
    }
    for (const auto& device : hca->devices)
        device->engine->add_port(device->port);
    for (const auto& device : hca->devices)
        device->port.shown_up = port_is_up(device->port);
    for (const auto& engine : hca->engines) {
        Hca* made = hca.get();
        Engine* own = engine.get();
        engine->between_passes([made, own] { announce_links(*made, *own); });
        engine->on_fault([made, own](const void* address) { return retire_memory(*made, *own, address); });
    }
    return hca;
}

stride::Status try_wires(const Config& config) {
    for (const PortConfig& wanted : config.ports) {
        auto wire = make_wire(wanted.options);
        if (wire.ok()) continue;
        stride::Error error = std::move(wire).take_error();
        // The wire has named its own keys.
        if (error.what.find("no such option") != std::string::npos)
            error.what += "; every port has " + port_key_names();
        return error;
    }
    return {};
}

int open_context(Hca& hca, Device& device, Context*& context) {
    const int fd = memfd_create("swhca-uverbs", MFD_CLOEXEC);
    if (fd < 0) return errno;
    void* pages = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(uar::file_bytes)) == 0)
        pages = mmap(nullptr, uar::file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pages == MAP_FAILED) {
        const int error = errno;
        close(fd);
        return error;
    }
    auto made = std::make_unique<Context>();
    made->device = &device;
    made->fd = fd;
    made->uar = static_cast<std::byte*>(pages);
    made->bfregs = uar::bfregs;
    made->bfreg_users.resize(std::size_t{2} * uar::bfregs); // those of thread domains come after the others
    {
        Engine::Quiesced quiet{*device.engine};
        device.engine->clock().show(made->uar + uar::window_offset(MLX5_IB_MMAP_CORE_CLOCK),
                                    made->uar + uar::window_offset(MLX5_IB_MMAP_CLOCK_INFO));
    }
    context = made.get();
    device.contexts.push_back(std::move(made));
    // All of them: what this device sends may be for a port whose device nobody has opened.
    for (const auto& engine : hca.engines)
        engine->start();
    return 0;
}

void close_context(Context& context) {
    Device& device = *context.device;
    Engine::Quiesced quiet{*device.engine};
    EventsRead read;
    destroy_all(context.flows, [&](std::uint32_t handle) { destroy_flow(context, handle); });
    destroy_all(context.qps, [&](std::uint32_t handle) {
        context.qps[handle]->groups.clear();
        destroy_qp(context, handle, read);
    });
    destroy_all(context.srqs, [&](std::uint32_t handle) { destroy_srq(context, handle, read); });
    destroy_all(context.ahs, [&](std::uint32_t handle) { destroy_ah(context, handle); });
    destroy_all(context.rqts, [&](std::uint32_t handle) { destroy_rqt(context, handle); });
    destroy_all(context.wqs, [&](std::uint32_t handle) { destroy_wq(context, handle, read); });
    destroy_all(context.cqs, [&](std::uint32_t handle) { destroy_cq(context, handle, read); });
    while (!context.channels.empty())
        channel_closed(context, *context.channels.begin()->second);
    destroy_all(context.mrs, [&](std::uint32_t handle) { dereg_mr(context, handle); });
    destroy_all(context.pds, [&](std::uint32_t handle) { dealloc_pd(context, handle); });
    device.engine->clock().forget(context.uar + uar::window_offset(MLX5_IB_MMAP_CORE_CLOCK));
    munmap(context.uar, uar::file_bytes);
    if (context.async_engine_fd >= 0) {
        close(context.async_engine_fd);
        close(context.async_program_fd);
    }
    auto& contexts = device.contexts;
    contexts.erase(std::find_if(contexts.begin(), contexts.end(),
                                [&](const auto& owned) { return owned.get() == &context; }));
}

void shut_down(Hca& hca) {
    for (const auto& engine : hca.engines)
        engine->stop();
    for (const auto& device : hca.devices)
        device->port.wire->close();
}

} // namespace swhca
