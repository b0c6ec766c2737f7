// SPDX-License-Identifier: BSD-3-Clause
#include "companions.hpp"

#include "base/format.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace swhca::cli {
namespace {

using stride::Error;
using stride::Status;
using stride::strprintf;

Error failed(int error, const char* what) {
    return Error{error, strprintf("--netdev: %s: %s", what, std::strerror(error))};
}

bool write_file(const char* path, const std::string& text) {
    std::FILE* out = std::fopen(path, "we");
    if (out == nullptr) return false;
    const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    return std::fclose(out) == 0 && written;
}

/// Root makes namespaces; anybody else becomes root of a user namespace first.
Status enter_namespaces() {
    constexpr int wanted = CLONE_NEWNET | CLONE_NEWNS;
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (unshare(uid == 0 ? wanted : wanted | CLONE_NEWUSER) != 0)
        return failed(errno, "no network namespace (root may make one)");
    if (uid == 0) return {};
    if (!write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", strprintf("0 %u 1", uid)) ||
        !write_file("/proc/self/gid_map", strprintf("0 %u 1", gid)))
        return failed(errno, "cannot map the user into a namespace");
    return {};
}

/// Mounts on /sys are to be seen by nobody else. In a chroot whose root is no mount point only /sys can be
/// asked.
bool keep_mounts_private() {
    return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ||
           mount(nullptr, "/sys", nullptr, MS_PRIVATE, nullptr) == 0;
}

/// What `ip -batch` makes the interfaces of.
std::string interface_commands(const Config& config) {
    std::string text = "link set lo up\n";
    for (unsigned i = 0; i < config.ports.size(); ++i) {
        const std::string name = companion_name(i);
        const auto& mac = config.ports[i].mac;
        text += strprintf("link add %s address %02x:%02x:%02x:%02x:%02x:%02x type veth peer name %sp\n",
                          name.c_str(), mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], name.c_str());
        text += strprintf("link set %s up\nlink set %sp up\n", name.c_str(), name.c_str());
    }
    return text;
}

} // namespace

std::string companion_name(unsigned index) { return strprintf("swhca%u", index); }

Status make_companions(const Config& config) {
    if (Status entered = enter_namespaces(); !entered.ok()) return entered;
    if (!keep_mounts_private() || mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0)
        return failed(errno, "cannot mount a /sys that shows the new interfaces");
    std::FILE* ip = popen("exec ip -batch -", "we");
    if (ip == nullptr) return failed(errno, "cannot run ip");
    const std::string text = interface_commands(config);
    std::fwrite(text.data(), 1, text.size(), ip);
    if (pclose(ip) != 0) return Error{EIO, "--netdev: ip (package iproute2) could not make the interfaces"};
    return {};
}

} // namespace swhca::cli
