// SPDX-License-Identifier: BSD-3-Clause
// MTU: the receive queues accept frames up to it, whatever the device lets through.
#include "ops.hpp"

#include "base/log.hpp"

#include <cstring>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace stride::pmd {
namespace {

/// The port lets frames through up to its netdev's MTU; it is raised if need be, never lowered, for the
/// kernel uses the interface too.
Status raise_netdev_mtu(const std::string& netdev, std::uint16_t mtu) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return ibv::verbs_error(0, "open a socket to set the MTU of " + netdev);
    ifreq request{};
    std::strncpy(request.ifr_name, netdev.c_str(), IFNAMSIZ - 1);
    int code = ioctl(fd, SIOCGIFMTU, &request);
    if (code == 0 && request.ifr_mtu < mtu) {
        request.ifr_mtu = mtu;
        code = ioctl(fd, SIOCSIFMTU, &request);
    }
    Status status;
    if (code != 0) status = ibv::verbs_error(0, strprintf("set the MTU of %s to %u", netdev.c_str(), mtu));
    close(fd);
    return status;
}

} // namespace

int mtu_set(rte_eth_dev* dev, std::uint16_t mtu) noexcept {
    Port& port = port_of(dev);
    if (dev->data->dev_started != 0)
        return to_errno(port, "set MTU", Error{EBUSY, "the port is started; WQEs are cut for its MTU"});
    const std::uint16_t most = max_mtu_of(port);
    if (mtu < min_mtu || mtu > most)
        return to_errno(port, "set MTU",
                        Error{EINVAL, strprintf("%u; allowed are %u to %u", mtu, min_mtu, most)});
    const std::string netdev = port.device->netdev();
    if (netdev.empty()) return 0;
    if (auto status = raise_netdev_mtu(netdev, mtu); !status) return to_errno(port, "set MTU", status);
    return 0;
}

} // namespace stride::pmd
