// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/preload/paths.hpp"

#include "swhca/abi/sysfs.hpp"
#include "swhca/hca/build.hpp"
#include "swhca/preload/descriptors.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace swhca::preload {

Path::Path(const char* path, bool for_reading)
    : path_{path} {
    if (path != nullptr && path[0] == '/') resolve(path, for_reading);
}

Path::Path(int directory, const char* path, bool for_reading)
    : path_{path} {
    if (path == nullptr) return;
    if (path[0] == '/') {
        resolve(path, for_reading);
    } else if (for_reading && directory != AT_FDCWD && model_if_made() != nullptr) {
        refresh_below(directory, path);
    }
}

void Path::resolve(const char* path, bool for_reading) {
    if (!is_redirected(path, lists_on_pci())) return;
    Model* owner = preload::model();
    if (owner == nullptr) return;
    const int length = std::snprintf(buffer_, sizeof buffer_, "%s%s", owner->root.c_str(), path);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof buffer_) return;
    path_ = buffer_;
    model_ = owner;
    const int index = uverbs_index(path);
    if (index >= 0 && static_cast<std::size_t>(index) < owner->hca->devices.size()) uverbs_ = index;
    if (for_reading) refresh_file(*owner->hca, owner->root, path);
}

void Path::refresh_below(int directory, const char* path) {
    char link[32];
    char target[PATH_MAX];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, target, sizeof target);
    const Model& owner = *model_if_made();
    if (length <= 0) return;
    std::string_view where(target, static_cast<std::size_t>(length));
    if (!where.starts_with(owner.root)) return;
    where.remove_prefix(owner.root.size());
    refresh_file(*owner.hca, owner.root, std::string(where) + "/" + path);
}

char* strip_root(char* path) noexcept {
    const Model* owner = model_if_made();
    if (path == nullptr || owner == nullptr) return path;
    const std::size_t length = owner->root.size();
    if (std::strncmp(path, owner->root.c_str(), length) == 0 && path[length] == '/')
        std::memmove(path, path + length, std::strlen(path + length) + 1);
    return path;
}

int open_uverbs(Model& model, int index, int flags) {
    Context* context = nullptr;
    int error = 0;
    {
        std::scoped_lock lock{model.hca->commands};
        error = open_context(*model.hca, *model.hca->devices[static_cast<std::size_t>(index)], context);
    }
    if (error != 0) return errno = error, -1;
    const int fd = context->fd;
    if ((flags & O_CLOEXEC) == 0) fcntl(fd, F_SETFD, 0);
    descriptors().watch(fd, std::make_shared<OpenFile>(*model.hca, *context));
    return fd;
}

} // namespace swhca::preload
