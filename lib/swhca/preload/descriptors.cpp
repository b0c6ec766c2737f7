// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/preload/descriptors.hpp"

#include "swhca/hca/build.hpp"
#include "swhca/hca/cq.hpp"

#include <new>
#include <unistd.h>

namespace swhca::preload {

OpenFile::OpenFile(Hca& hca, Context& context)
    : kind_{Kind::command}
    , pid_{getpid()}
    , hca_{hca}
    , context_{&context} {}

OpenFile::OpenFile(std::shared_ptr<OpenFile> owner, CompChannel& channel)
    : kind_{Kind::channel}
    , pid_{getpid()}
    , hca_{owner->hca_}
    , context_{owner->context_}
    , channel_{&channel}
    , owner_{std::move(owner)} {}

OpenFile::~OpenFile() {
    if (is_dead()) return;
    if (kind_ == Kind::command) {
        std::scoped_lock lock{hca_.commands};
        close_context(*context_);
        return;
    }
    const auto owner = owner_.lock();
    if (owner == nullptr) return;
    std::scoped_lock lock{hca_.commands};
    channel_closed(*context_, *channel_);
}

bool OpenFile::is_dead() const noexcept { return getpid() != pid_; }

Descriptors::File Descriptors::find_slow(int fd) {
    std::scoped_lock lock{mutex_};
    const auto at = files_.find(fd);
    return at == files_.end() ? nullptr : at->second;
}

std::vector<std::pair<int, Descriptors::File>> Descriptors::all() {
    std::scoped_lock lock{mutex_};
    return {files_.begin(), files_.end()};
}

void Descriptors::watch(int fd, File file) {
    File replaced;
    std::scoped_lock lock{mutex_};
    std::swap(files_[fd], replaced);
    files_[fd] = std::move(file);
    if (static_cast<unsigned>(fd) < limit)
        watched_[static_cast<unsigned>(fd)].store(true, std::memory_order_release);
}

Descriptors::File Descriptors::forget(int fd) {
    if (!may_watch(fd)) return nullptr;
    std::scoped_lock lock{mutex_};
    const auto at = files_.find(fd);
    if (at == files_.end()) return nullptr;
    File file = std::move(at->second);
    files_.erase(at);
    if (static_cast<unsigned>(fd) < limit)
        watched_[static_cast<unsigned>(fd)].store(false, std::memory_order_release);
    return file;
}

std::vector<Descriptors::File> Descriptors::forget_range(unsigned first, unsigned last) {
    std::vector<int> fds;
    {
        std::scoped_lock lock{mutex_};
        for (const auto& [fd, file] : files_)
            if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) fds.push_back(fd);
    }
    std::vector<File> files;
    for (const int fd : fds)
        files.push_back(forget(fd));
    return files;
}

Descriptors& descriptors() noexcept {
    // Never destroyed: programs close descriptors after our static objects would be gone.
    alignas(Descriptors) static std::byte storage[sizeof(Descriptors)];
    static Descriptors* const table = new (storage) Descriptors;
    return *table;
}

void ContextDescriptors::watch_channel(int fd, Context&, CompChannel& channel) {
    descriptors().watch(fd, std::make_shared<OpenFile>(owner_, channel));
}

CompChannel* ContextDescriptors::channel_of(int fd, const Context& context) {
    const auto file = descriptors().find(fd);
    if (file == nullptr || file->kind() != OpenFile::Kind::channel || !file->belongs_to(context))
        return nullptr;
    return file->channel();
}

} // namespace swhca::preload
