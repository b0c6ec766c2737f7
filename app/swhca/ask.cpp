// SPDX-License-Identifier: BSD-3-Clause
#include "ask.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace swhca::cli {

stride::Result<std::string> ask(const std::string& path, const std::string& request) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return stride::Error{EINVAL, path + ": too long for a socket"};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string line = request + "\n";
    if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(fd, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
        const int error = errno;
        if (fd >= 0) close(fd);
        return stride::Error{error, path + ": " + std::strerror(error)};
    }
    std::string answer;
    std::array<char, 4096> some;
    for (ssize_t got = 0; (got = recv(fd, some.data(), some.size(), 0)) > 0;)
        answer.append(some.data(), static_cast<std::size_t>(got));
    close(fd);
    return answer;
}

} // namespace swhca::cli
