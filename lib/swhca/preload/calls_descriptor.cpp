// SPDX-License-Identifier: BSD-3-Clause
// libc calls that take a descriptor.
#include "swhca/abi/dispatch.hpp"
#include "swhca/abi/sysfs.hpp"
#include "swhca/hca/uar.hpp"
#include "swhca/hca/user_memory.hpp"
#include "swhca/preload/descriptors.hpp"
#include "swhca/preload/interpose.hpp"
#include "swhca/preload/paths.hpp"

#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

using swhca::preload::ContextDescriptors;
using swhca::preload::Descriptors;
using swhca::preload::descriptors;
using swhca::preload::OpenFile;
using swhca::preload::Path;
using swhca::preload::Real;

constinit Real<ssize_t(int, void*, size_t)> real_read{"read"};
constinit Real<ssize_t(int, const void*, size_t)> real_write{"write"};
constinit Real<int(int)> real_close{"close"}, real_dup{"dup"};
constinit Real<int(int, int)> real_dup2{"dup2"};
constinit Real<int(int, int, int)> real_dup3{"dup3"};
constinit Real<int(unsigned, unsigned, int)> real_close_range{"close_range"};
constinit Real<void(int)> real_closefrom{"closefrom"};
constinit Real<int(int, int, long)> real_fcntl{"fcntl"}, real_fcntl64{"fcntl64"};
constinit Real<int(int, unsigned long, void*)> real_ioctl{"ioctl"};
constinit Real<void*(void*, size_t, int, int, int, off_t)> real_mmap{"mmap"}, real_mmap64{"mmap64"};
constinit Real<int(int, struct stat*)> real_fstat{"fstat"};
constinit Real<int(int, struct stat64*)> real_fstat64{"fstat64"};
constinit Real<int(int, int, struct stat*)> real_fxstat{"__fxstat"};
constinit Real<int(int, int, struct stat64*)> real_fxstat64{"__fxstat64"};
constinit Real<int(int, const char*, struct stat*, int)> real_fstatat{"fstatat"};
constinit Real<int(int, const char*, struct stat64*, int)> real_fstatat64{"fstatat64"};
constinit Real<int(int, int, int)> real_socket{"socket"};
constinit Real<ssize_t(int, const iovec*, int)> real_writev{"writev"};
constinit Real<ssize_t(int, msghdr*, int)> real_recvmsg{"recvmsg"};

/// The command file behind `fd`, or nullptr.
Descriptors::File command_file(int fd) {
    auto file = descriptors().find(fd);
    if (file != nullptr && file->kind() != OpenFile::Kind::command) file = nullptr;
    return file;
}

template <class Result>
Result fail(int error, Result value) noexcept {
    errno = error;
    return value;
}

/// Longer than any header can say a command is.
constexpr size_t max_command_bytes = size_t{1} << 21;

/// Appends to `command` what the program has at `data`; 0 or an errno. A copy: nobody changes it meanwhile.
int take_piece(std::vector<std::byte>& command, const void* data, size_t size) {
    if (size > max_command_bytes - command.size()) return EINVAL;
    const size_t before = command.size();
    command.resize(before + size);
    return swhca::copy_from_user(command.data() + before, std::bit_cast<std::uint64_t>(data), size);
}

/// One command may lie in several pieces.
ssize_t write_pieces(Descriptors::File file, const iovec* pieces, int count) {
    if (file->is_dead()) return fail<ssize_t>(EIO, -1);
    std::vector<std::byte> command;
    for (int i = 0; i < count; ++i)
        if (const int error = take_piece(command, pieces[i].iov_base, pieces[i].iov_len))
            return fail<ssize_t>(error, -1);
    ContextDescriptors table{file};
    const int error = swhca::execute_command(file->hca(), file->context(), table, command);
    return error != 0 ? fail<ssize_t>(error, -1) : static_cast<ssize_t>(command.size());
}

ssize_t write_command(Descriptors::File file, const void* data, size_t size) {
    const iovec piece{const_cast<void*>(data), size};
    return write_pieces(std::move(file), &piece, 1);
}

/// `copy` of `fd` was made: watch it if `fd` is watched.
int watch_copy(int fd, int copy) {
    if (copy < 0 || copy == fd) return copy;
    if (auto file = descriptors().find(fd); file != nullptr) descriptors().watch(copy, std::move(file));
    return copy;
}

/// The program replaces `fd` by something else: whatever it was for us is closed.
void forget_replaced(int from, int fd) {
    if (from == fd) return;
    // dup2 of a bad descriptor leaves the target as it is.
    if (real_fcntl(from, F_GETFD, 0L) >= 0) descriptors().forget(fd);
}

unsigned window_of(off_t offset) noexcept {
    return static_cast<unsigned>(static_cast<std::uint64_t>(offset) / swhca::uar::window_offset(1));
}

bool is_clock(off_t offset) noexcept {
    return window_of(offset) == MLX5_IB_MMAP_CORE_CLOCK || window_of(offset) == MLX5_IB_MMAP_CLOCK_INFO;
}

/// Does what `map` does if the offset names a page that libmlx5 may map (mlx5-abi.h, mlx5_ib_mmap_cmd).
bool page_is_offered(OpenFile& file, size_t length, off_t offset) {
    namespace uar = swhca::uar;
    const auto page = static_cast<std::uint64_t>(offset) / uar::page_bytes;
    const unsigned window = window_of(offset);
    const bool registers = window == MLX5_IB_MMAP_REGULAR_PAGE || window == MLX5_IB_MMAP_WC_PAGE ||
                           window == MLX5_IB_MMAP_NC_PAGE;
    const bool clock = is_clock(offset);
    const unsigned pages = clock ? 1 : uar::pages;
    if ((!registers && !clock && window != MLX5_IB_MMAP_ALLOC_WC) || page % uar::window_pages >= pages ||
        length != uar::page_bytes || file.is_dead())
        return false;
    if (!registers) return true;
    std::scoped_lock lock{file.hca().commands};
    file.context().uar_window = window;
    return true;
}

/// A descriptor that came through a socket: if it is the same open file as one that is watched, so is this.
void watch_received(int fd) {
    struct stat64 received {};
    if (real_fstat64(fd, &received) != 0) return;
    for (auto& [known, file] : descriptors().all()) {
        struct stat64 info {};
        if (known == fd || real_fstat64(known, &info) != 0) continue;
        if (info.st_dev != received.st_dev || info.st_ino != received.st_ino) continue;
        descriptors().watch(fd, std::move(file));
        return;
    }
}

void watch_received(const msghdr& message) {
    for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            watch_received(fd);
        }
    }
}

template <class MapFunction>
void* map(MapFunction& real, void* at, size_t length, int protection, int flags, int fd, off_t offset) {
    if ((flags & MAP_ANONYMOUS) == 0) {
        if (auto file = command_file(fd); file != nullptr) {
            if (!page_is_offered(*file, length, offset)) return fail<void*>(EINVAL, MAP_FAILED);
            if ((protection & PROT_WRITE) != 0 && is_clock(offset)) return fail<void*>(EPERM, MAP_FAILED);
        }
    }
    return real(at, length, protection, flags, fd, offset);
}

template <class Stat>
void show_descriptor(int fd, Stat* info) {
    const auto file = command_file(fd);
    if (file == nullptr) return;
    const auto number = swhca::uverbs_number(file->context().device->index);
    info->st_mode = S_IFCHR | 0666;
    info->st_rdev = makedev(number.major, number.minor);
    info->st_size = 0;
}

template <class StatFunction, class Stat>
int stat_at(StatFunction& real, int directory, const char* path, Stat* info, int flags) {
    const Path ours(directory, path, false);
    const int result = real(directory, ours.get(), info, flags);
    if (result != 0) return result;
    if (ours.uverbs() >= 0) {
        const auto number = swhca::uverbs_number(static_cast<unsigned>(ours.uverbs()));
        info->st_mode = S_IFCHR | 0666;
        info->st_rdev = makedev(number.major, number.minor);
    } else if ((flags & AT_EMPTY_PATH) != 0 && path != nullptr && path[0] == '\0') {
        show_descriptor(directory, info);
    }
    return result;
}

template <class ControlFunction>
int control(ControlFunction& real, int fd, int command, long argument) {
    const int result = real(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? watch_copy(fd, result) : result;
}

} // namespace

SWHCA_INTERPOSE(ssize_t, read, (int fd, void* data, size_t size)) {
    return command_file(fd) != nullptr ? fail<ssize_t>(EINVAL, -1) : real_read(fd, data, size);
}
SWHCA_INTERPOSE(ssize_t, __read_chk, (int fd, void* data, size_t size, size_t)) {
    return command_file(fd) != nullptr ? fail<ssize_t>(EINVAL, -1) : real_read(fd, data, size);
}
SWHCA_INTERPOSE(ssize_t, write, (int fd, const void* data, size_t size)) {
    if (auto file = command_file(fd); file != nullptr) return write_command(std::move(file), data, size);
    return real_write(fd, data, size);
}
SWHCA_INTERPOSE(ssize_t, writev, (int fd, const iovec* pieces, int count)) {
    if (auto file = command_file(fd); file != nullptr) return write_pieces(std::move(file), pieces, count);
    return real_writev(fd, pieces, count);
}
SWHCA_INTERPOSE(ssize_t, recvmsg, (int fd, msghdr* message, int flags)) {
    const ssize_t received = real_recvmsg(fd, message, flags);
    if (received >= 0 && message->msg_controllen != 0 && swhca::preload::model_if_made() != nullptr)
        watch_received(*message);
    return received;
}
SWHCA_INTERPOSE(int, ioctl, (int fd, unsigned long request, void* argument)) {
    // As a kernel that has the ioctl ABI, but not this method: libibverbs then writes the command, if it can
    // (cmd_fallback.c), and says "not supported" otherwise.
    if (command_file(fd) != nullptr) return fail(EPROTONOSUPPORT, -1);
    return real_ioctl(fd, request, argument);
}

SWHCA_INTERPOSE(int, close, (int fd)) {
    const auto file = descriptors().forget(fd);
    return real_close(fd);
}
SWHCA_INTERPOSE(int, close_range, (unsigned first, unsigned last, int flags)) {
    constexpr int only_mark = 1 << 2; // CLOSE_RANGE_CLOEXEC
    if ((flags & only_mark) != 0) return real_close_range(first, last, flags);
    const auto files = descriptors().forget_range(first, last);
    return real_close_range(first, last, flags);
}
SWHCA_INTERPOSE(void, closefrom, (int first)) {
    const auto files = descriptors().forget_range(static_cast<unsigned>(first), ~0U);
    real_closefrom(first);
}
SWHCA_INTERPOSE(int, dup, (int fd)) { return watch_copy(fd, real_dup(fd)); }
SWHCA_INTERPOSE(int, dup2, (int fd, int wanted)) {
    forget_replaced(fd, wanted);
    return watch_copy(fd, real_dup2(fd, wanted));
}
SWHCA_INTERPOSE(int, dup3, (int fd, int wanted, int flags)) {
    forget_replaced(fd, wanted);
    return watch_copy(fd, real_dup3(fd, wanted, flags));
}
SWHCA_INTERPOSE(int, fcntl, (int fd, int command, long argument)) {
    return control(real_fcntl, fd, command, argument);
}
SWHCA_INTERPOSE(int, fcntl64, (int fd, int command, long argument)) {
    return control(real_fcntl64, fd, command, argument);
}

SWHCA_INTERPOSE(void*, mmap, (void* at, size_t length, int protection, int flags, int fd, off_t offset)) {
    return map(real_mmap, at, length, protection, flags, fd, offset);
}
SWHCA_INTERPOSE(void*, mmap64, (void* at, size_t length, int protection, int flags, int fd, off_t offset)) {
    return map(real_mmap64, at, length, protection, flags, fd, offset);
}

SWHCA_INTERPOSE(int, fstat, (int fd, struct stat* info)) {
    const int result = real_fstat(fd, info);
    if (result == 0) show_descriptor(fd, info);
    return result;
}
SWHCA_INTERPOSE(int, fstat64, (int fd, struct stat64* info)) {
    const int result = real_fstat64(fd, info);
    if (result == 0) show_descriptor(fd, info);
    return result;
}
SWHCA_INTERPOSE(int, __fxstat, (int version, int fd, struct stat* info)) {
    const int result = real_fxstat(version, fd, info);
    if (result == 0) show_descriptor(fd, info);
    return result;
}
SWHCA_INTERPOSE(int, __fxstat64, (int version, int fd, struct stat64* info)) {
    const int result = real_fxstat64(version, fd, info);
    if (result == 0) show_descriptor(fd, info);
    return result;
}
SWHCA_INTERPOSE(int, fstatat, (int directory, const char* path, struct stat* info, int flags)) {
    return stat_at(real_fstatat, directory, path, info, flags);
}
SWHCA_INTERPOSE(int, fstatat64, (int directory, const char* path, struct stat64* info, int flags)) {
    return stat_at(real_fstatat64, directory, path, info, flags);
}

SWHCA_INTERPOSE(int, socket, (int domain, int type, int protocol)) {
    // The kernel knows nothing of our devices: libibverbs has to look in sysfs (libibverbs/init.c).
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA) return fail(EPROTONOSUPPORT, -1);
    return real_socket(domain, type, protocol);
}
