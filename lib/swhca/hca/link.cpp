// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/link.hpp"

#include "swhca/engine/queues.hpp"

namespace swhca {

void announce_links(Hca& hca, const Engine& engine) {
    for (const auto& device : hca.devices) {
        if (device->engine != &engine) continue;
        Port& port = device->port;
        const bool up = port_is_up(port);
        if (up == port.shown_up) continue;
        const std::unique_lock lock{hca.commands, std::try_to_lock};
        if (!lock.owns_lock()) return;
        port.shown_up = up;
        for (const auto& context : device->contexts)
            send_async_event(*context, up ? AsyncEvent::port_active : AsyncEvent::port_error, port.number);
    }
}

} // namespace swhca
