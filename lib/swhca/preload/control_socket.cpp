// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/preload/control_socket.hpp"

#include "base/format.hpp"
#include "swhca/engine/faults.hpp"
#include "swhca/hca/report.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace swhca::preload {
namespace {

using stride::Error;
using stride::Result;
using stride::strprintf;

constexpr timeval patience{2, 0}; ///< with a client that says nothing

bool address_of(const std::string& path, sockaddr_un& address) {
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return true;
}

/// The line a client sends; cut at the newline or at 1000 characters.
std::string read_line(int fd) {
    std::string line;
    std::array<char, 256> some;
    while (line.size() < 1000 && line.find('\n') == line.npos) {
        const ssize_t got = recv(fd, some.data(), some.size(), 0);
        if (got <= 0) break;
        line.append(some.data(), static_cast<std::size_t>(got));
    }
    return line.substr(0, line.find('\n'));
}

void send_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
}

} // namespace

Result<std::unique_ptr<ControlSocket>> ControlSocket::open(const std::string& path, Hca& hca) {
    sockaddr_un address{};
    if (!address_of(path, address))
        return Error{EINVAL, strprintf("control socket: '%s' is no name of at most %zu characters",
                                       path.c_str(), sizeof address.sun_path - 1)};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return Error{errno, strprintf("control socket: %s", std::strerror(errno))};
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    struct stat status {};
    // A socket nobody answers on was left by a process that died.
    if (stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
        connect(fd, generic, sizeof address) != 0 && errno == ECONNREFUSED)
        unlink(path.c_str());
    if (bind(fd, generic, sizeof address) != 0 || chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 ||
        listen(fd, 4) != 0) {
        const int error = errno;
        close(fd);
        return Error{error, strprintf("control socket %s: %s", path.c_str(), std::strerror(error))};
    }
    return std::unique_ptr<ControlSocket>{new ControlSocket{path, fd, hca}};
}

ControlSocket::ControlSocket(std::string path, int fd, Hca& hca)
    : path_{std::move(path)}
    , fd_{fd}
    , hca_{hca} {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this] { serve(); }};
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ControlSocket::~ControlSocket() {
    if (!thread_.joinable()) return;
    unlink(path_.c_str());
    shutdown(fd_, SHUT_RDWR); // accept returns
    thread_.join();
    close(fd_);
}

void ControlSocket::forget() noexcept {
    if (thread_.joinable()) thread_.detach();
    close(fd_);
}

std::string ControlSocket::answer(std::string_view request) {
    const std::scoped_lock lock{hca_.commands};
    if (request == "stat") return report_json(hca_);
    constexpr std::string_view fault = "fault ";
    if (!request.starts_with(fault)) return "error: requests are stat and fault DEVICE KIND ...\n";
    const stride::Status done = inject_fault(hca_, request.substr(fault.size()));
    return done.ok() ? std::string{"ok\n"} : "error: " + done.error().what + "\n";
}

void ControlSocket::serve() noexcept {
    pthread_setname_np(pthread_self(), "swhca-control");
    for (;;) {
        const int client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (client < 0) return;
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        send_all(client, answer(read_line(client)));
        close(client);
    }
}

} // namespace swhca::preload
