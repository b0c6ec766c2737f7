// SPDX-License-Identifier: BSD-3-Clause
// libc calls that take a path.
#include "swhca/abi/sysfs.hpp"
#include "swhca/preload/descriptors.hpp"
#include "swhca/preload/interpose.hpp"
#include "swhca/preload/paths.hpp"

#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace {

using swhca::preload::open_uverbs;
using swhca::preload::Path;
using swhca::preload::Real;
using swhca::preload::strip_root;

using OpenFunction = int(const char*, int, mode_t);
using OpenAtFunction = int(int, const char*, int, mode_t);

/// The program may look at a file that changes only by opening it.
int open_path(Real<OpenFunction>& real, const char* path, int flags, mode_t mode) {
    const Path ours(path, true);
    if (ours.uverbs() >= 0) return open_uverbs(*ours.model(), ours.uverbs(), flags);
    return real(ours.get(), flags, mode);
}

int open_path_at(Real<OpenAtFunction>& real, int directory, const char* path, int flags, mode_t mode) {
    const Path ours(directory, path, true);
    if (ours.uverbs() >= 0) return open_uverbs(*ours.model(), ours.uverbs(), flags);
    return real(directory, ours.get(), flags, mode);
}

constinit Real<OpenFunction> real_open{"open"}, real_open64{"open64"};
constinit Real<OpenAtFunction> real_openat{"openat"}, real_openat64{"openat64"};

/// A stand-in file of the tree, shown as the character device it stands for.
template <class Stat>
void show_device(const Path& path, Stat* info) noexcept {
    if (path.uverbs() < 0) return;
    const auto number = swhca::uverbs_number(static_cast<unsigned>(path.uverbs()));
    info->st_mode = S_IFCHR | 0666;
    info->st_rdev = makedev(number.major, number.minor);
}

template <class Stat>
int stat_path(Real<int(const char*, Stat*)>& real, const char* path, Stat* info) {
    const Path ours(path);
    const int result = real(ours.get(), info);
    if (result == 0) show_device(ours, info);
    return result;
}

template <class Stat>
int stat_path(Real<int(int, const char*, Stat*)>& real, int version, const char* path, Stat* info) {
    const Path ours(path);
    const int result = real(version, ours.get(), info);
    if (result == 0) show_device(ours, info);
    return result;
}

constinit Real<int(const char*, struct stat*)> real_stat{"stat"}, real_lstat{"lstat"};
constinit Real<int(const char*, struct stat64*)> real_stat64{"stat64"}, real_lstat64{"lstat64"};
constinit Real<int(int, const char*, struct stat*)> real_xstat{"__xstat"}, real_lxstat{"__lxstat"};
constinit Real<int(int, const char*, struct stat64*)> real_xstat64{"__xstat64"}, real_lxstat64{"__lxstat64"};
constinit Real<int(int, int, const char*, struct stat*, int)> real_fxstatat{"__fxstatat"};
constinit Real<int(int, int, const char*, struct stat64*, int)> real_fxstatat64{"__fxstatat64"};
constinit Real<int(int, const char*, int, unsigned, struct statx*)> real_statx{"statx"};
constinit Real<int(const char*, int)> real_access{"access"};
constinit Real<int(int, const char*, int, int)> real_faccessat{"faccessat"};
constinit Real<ssize_t(const char*, char*, size_t)> real_readlink{"readlink"};
constinit Real<ssize_t(int, const char*, char*, size_t)> real_readlinkat{"readlinkat"};
constinit Real<char*(const char*, char*)> real_realpath{"realpath"};
constinit Real<std::FILE*(const char*, const char*)> real_fopen{"fopen"}, real_fopen64{"fopen64"};
constinit Real<DIR*(const char*)> real_opendir{"opendir"};

using Filter = int(const dirent*);
using Order = int(const dirent**, const dirent**);
constinit Real<int(const char*, dirent***, Filter*, Order*)> real_scandir{"scandir"},
    real_scandir64{"scandir64"};
constinit Real<int(int, const char*, dirent***, Filter*, Order*)> real_scandirat{"scandirat"};
constinit Real<std::FILE*(const char*, const char*, std::FILE*)> real_freopen{"freopen"};
constinit Real<int(int, const char*, std::uint32_t)> real_inotify_add_watch{"inotify_add_watch"};

} // namespace

SWHCA_INTERPOSE(int, open, (const char* path, int flags, mode_t mode)) {
    return open_path(real_open, path, flags, mode);
}
SWHCA_INTERPOSE(int, open64, (const char* path, int flags, mode_t mode)) {
    return open_path(real_open64, path, flags, mode);
}
SWHCA_INTERPOSE(int, __open_2, (const char* path, int flags)) { return open_path(real_open, path, flags, 0); }
SWHCA_INTERPOSE(int, __open64_2, (const char* path, int flags)) {
    return open_path(real_open64, path, flags, 0);
}
SWHCA_INTERPOSE(int, openat, (int directory, const char* path, int flags, mode_t mode)) {
    return open_path_at(real_openat, directory, path, flags, mode);
}
SWHCA_INTERPOSE(int, openat64, (int directory, const char* path, int flags, mode_t mode)) {
    return open_path_at(real_openat64, directory, path, flags, mode);
}
SWHCA_INTERPOSE(int, __openat_2, (int directory, const char* path, int flags)) {
    return open_path_at(real_openat, directory, path, flags, 0);
}
SWHCA_INTERPOSE(int, __openat64_2, (int directory, const char* path, int flags)) {
    return open_path_at(real_openat64, directory, path, flags, 0);
}

SWHCA_INTERPOSE(int, stat, (const char* path, struct stat* info)) { return stat_path(real_stat, path, info); }
SWHCA_INTERPOSE(int, lstat, (const char* path, struct stat* info)) {
    return stat_path(real_lstat, path, info);
}
SWHCA_INTERPOSE(int, stat64, (const char* path, struct stat64* info)) {
    return stat_path(real_stat64, path, info);
}
SWHCA_INTERPOSE(int, lstat64, (const char* path, struct stat64* info)) {
    return stat_path(real_lstat64, path, info);
}
SWHCA_INTERPOSE(int, __xstat, (int version, const char* path, struct stat* info)) {
    return stat_path(real_xstat, version, path, info);
}
SWHCA_INTERPOSE(int, __lxstat, (int version, const char* path, struct stat* info)) {
    return stat_path(real_lxstat, version, path, info);
}
SWHCA_INTERPOSE(int, __xstat64, (int version, const char* path, struct stat64* info)) {
    return stat_path(real_xstat64, version, path, info);
}
SWHCA_INTERPOSE(int, __lxstat64, (int version, const char* path, struct stat64* info)) {
    return stat_path(real_lxstat64, version, path, info);
}
SWHCA_INTERPOSE(int, __fxstatat,
                (int version, int directory, const char* path, struct stat* info, int flags)) {
    const Path ours(directory, path, false);
    const int result = real_fxstatat(version, directory, ours.get(), info, flags);
    if (result == 0) show_device(ours, info);
    return result;
}
SWHCA_INTERPOSE(int, __fxstatat64,
                (int version, int directory, const char* path, struct stat64* info, int flags)) {
    const Path ours(directory, path, false);
    const int result = real_fxstatat64(version, directory, ours.get(), info, flags);
    if (result == 0) show_device(ours, info);
    return result;
}
SWHCA_INTERPOSE(int, statx, (int directory, const char* path, int flags, unsigned mask, struct statx* info)) {
    const Path ours(directory, path, false);
    const int result = real_statx(directory, ours.get(), flags, mask, info);
    int index = ours.uverbs();
    if ((flags & AT_EMPTY_PATH) != 0 && path != nullptr && path[0] == '\0') {
        const auto file = swhca::preload::descriptors().find(directory);
        if (file != nullptr && file->kind() == swhca::preload::OpenFile::Kind::command)
            index = static_cast<int>(file->context().device->index);
    }
    if (result == 0 && index >= 0) {
        const auto number = swhca::uverbs_number(static_cast<unsigned>(index));
        info->stx_mode = S_IFCHR | 0666;
        info->stx_rdev_major = number.major;
        info->stx_rdev_minor = number.minor;
    }
    return result;
}

SWHCA_INTERPOSE(int, access, (const char* path, int mode)) { return real_access(Path(path).get(), mode); }
SWHCA_INTERPOSE(int, faccessat, (int directory, const char* path, int mode, int flags)) {
    return real_faccessat(directory, Path(directory, path, false).get(), mode, flags);
}
SWHCA_INTERPOSE(ssize_t, readlink, (const char* path, char* buffer, size_t size)) {
    return real_readlink(Path(path).get(), buffer, size);
}
SWHCA_INTERPOSE(ssize_t, __readlink_chk, (const char* path, char* buffer, size_t size, size_t)) {
    return real_readlink(Path(path).get(), buffer, size);
}
SWHCA_INTERPOSE(ssize_t, readlinkat, (int directory, const char* path, char* buffer, size_t size)) {
    return real_readlinkat(directory, Path(directory, path, false).get(), buffer, size);
}
SWHCA_INTERPOSE(char*, realpath, (const char* path, char* resolved)) {
    return strip_root(real_realpath(Path(path).get(), resolved));
}
SWHCA_INTERPOSE(char*, __realpath_chk, (const char* path, char* resolved, size_t)) {
    return strip_root(real_realpath(Path(path).get(), resolved));
}
SWHCA_INTERPOSE(char*, canonicalize_file_name, (const char* path)) {
    return strip_root(real_realpath(Path(path).get(), nullptr));
}

SWHCA_INTERPOSE(std::FILE*, fopen, (const char* path, const char* mode)) {
    return real_fopen(Path(path, true).get(), mode);
}
SWHCA_INTERPOSE(std::FILE*, fopen64, (const char* path, const char* mode)) {
    return real_fopen64(Path(path, true).get(), mode);
}
SWHCA_INTERPOSE(DIR*, opendir, (const char* path)) { return real_opendir(Path(path).get()); }
SWHCA_INTERPOSE(std::FILE*, freopen, (const char* path, const char* mode, std::FILE* stream)) {
    return real_freopen(Path(path, true).get(), mode, stream);
}
SWHCA_INTERPOSE(int, scandirat,
                (int directory, const char* path, dirent*** names, Filter* filter, Order* order)) {
    return real_scandirat(directory, Path(directory, path, false).get(), names, filter, order);
}
SWHCA_INTERPOSE(int, inotify_add_watch, (int fd, const char* path, std::uint32_t mask)) {
    return real_inotify_add_watch(fd, Path(path).get(), mask);
}
SWHCA_INTERPOSE(int, scandir, (const char* path, dirent*** names, Filter* filter, Order* order)) {
    return real_scandir(Path(path).get(), names, filter, order);
}
SWHCA_INTERPOSE(int, scandir64, (const char* path, dirent*** names, Filter* filter, Order* order)) {
    return real_scandir64(Path(path).get(), names, filter, order);
}
