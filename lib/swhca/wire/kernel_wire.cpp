// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/kernel_wire.hpp"

#include "swhca/wire/options.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace swhca {
namespace {

using stride::Result;

constexpr std::size_t longest_frame_bytes = 65536 + 64;
constexpr std::size_t max_pieces = 256;

int open_tap(const std::string& name) {
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::memcpy(request.ifr_name, name.c_str(), name.size());
    if (ioctl(fd, TUNSETIFF, &request) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool plug_in(int fd, unsigned index) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    packet_mreq all{};
    all.mr_ifindex = static_cast<int>(index);
    all.mr_type = PACKET_MR_PROMISC;
    const int on = 1;
    return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
           setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0 &&
           setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) == 0;
}

int open_packet_socket(const std::string& name) {
    const unsigned index = if_nametoindex(name.c_str());
    if (index == 0) return -1;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || plug_in(fd, index)) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

} // namespace

Result<std::unique_ptr<Wire>> KernelWire::make(const PortOptions& options) {
    stride::Status keys = check_keys(options, {"dev"});
    if (!keys) return keys.take_error();
    const std::string* name = options.find("dev");
    if (name == nullptr || name->empty() || name->size() >= IFNAMSIZ)
        return option_error(options, "dev", "takes the name of an interface");
    if (options.format == WireFormat::infiniband)
        return option_error(options, "dev", "the kernel's interfaces are Ethernet's");
    const int fd = options.wire == "tap" ? open_tap(*name) : open_packet_socket(*name);
    if (fd < 0) return option_error(options, "dev", std::strerror(errno));
    return Result<std::unique_ptr<Wire>>{std::make_unique<KernelWire>(fd)};
}

KernelWire::KernelWire(int fd)
    : fd_{fd}
    , buffer_(longest_frame_bytes) {}

KernelWire::~KernelWire() { ::close(fd_); }

/// What the kernel does not take (interface down, frame too long) is lost; only a full queue waits.
unsigned KernelWire::transmit(std::span<const Frame> frames) {
    unsigned gone = 0;
    for (const Frame& frame : frames) {
        std::array<iovec, max_pieces> pieces;
        std::size_t count = 0;
        for (const Segment& segment : frame.segments.first(std::min(frame.segments.size(), max_pieces)))
            pieces[count++] = {const_cast<std::byte*>(segment.data), segment.length_bytes};
        const ssize_t sent = writev(fd_, pieces.data(), static_cast<int>(count));
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
        (sent == static_cast<ssize_t>(frame.length_bytes) ? frames_out_ : frames_lost_).add(1);
        ++gone;
    }
    return gone;
}

unsigned KernelWire::poll(unsigned budget) {
    // Until somebody listens frames wait in the kernel, which drops what is too much.
    if (sink_ == nullptr || !sink_->listening()) return 0;
    unsigned moved = 0;
    for (; moved < budget; ++moved) {
        const ssize_t got = read(fd_, buffer_.data(), buffer_.size());
        if (got <= 0) break;
        const Segment segment{buffer_.data(), static_cast<std::uint32_t>(got)};
        const Frame frame{{&segment, 1}, segment.length_bytes};
        (void)sink_->deliver({&frame, 1}, WhenFull::drop);
    }
    frames_in_.add(moved);
    return moved;
}

std::vector<std::pair<std::string, std::uint64_t>> KernelWire::counters() const {
    return {{"frames_in", frames_in_.read()},
            {"frames_out", frames_out_.read()},
            {"frames_lost", frames_lost_.read()}};
}

} // namespace swhca
