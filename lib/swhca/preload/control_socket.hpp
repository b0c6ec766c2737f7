// SPDX-License-Identifier: BSD-3-Clause
/// The door for `swhca stat` and `swhca fault`: a unix socket on which a running instance answers.
///
/// One request a connection, a line: `stat` (answered with the JSON report) or `fault DEVICE KIND ...`
/// (answered with `ok`, or with what is wrong). A thread of its own serves it, asleep but for requests.
#pragma once

#include "base/result.hpp"
#include "swhca/hca/device.hpp"

#include <memory>
#include <string>
#include <thread>

namespace swhca::preload {

class ControlSocket {
  public:
    /// Binds `path`, which must not exist or be a socket nobody answers on. Only the user may connect.
    static stride::Result<std::unique_ptr<ControlSocket>> open(const std::string& path, Hca& hca);
    ~ControlSocket();
    ControlSocket(const ControlSocket&) = delete;
    ControlSocket& operator=(const ControlSocket&) = delete;
    /// In the child of a fork there is no thread, and the socket is the parent's.
    void forget() noexcept;

  private:
    ControlSocket(std::string path, int fd, Hca& hca);
    void serve() noexcept;
    std::string answer(std::string_view request);

    std::string path_;
    int fd_;
    Hca& hca_;
    std::thread thread_{};
};

} // namespace swhca::preload
