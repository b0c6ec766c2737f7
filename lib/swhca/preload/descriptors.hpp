// SPDX-License-Identifier: BSD-3-Clause
/// Which descriptors of the program are the model's, however they were copied.
#pragma once

#include "swhca/abi/call.hpp"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace swhca::preload {

/// An open file of the model: what all copies of a descriptor stand for. The last copy's end closes it.
class OpenFile {
  public:
    enum class Kind : std::uint8_t { command, channel };

    /// A command descriptor.
    OpenFile(Hca& hca, Context& context);
    /// A completion channel of the command descriptor `owner`.
    OpenFile(std::shared_ptr<OpenFile> owner, CompChannel& channel);
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    Kind kind() const noexcept { return kind_; }
    Hca& hca() const noexcept { return hca_; }
    Context& context() const noexcept { return *context_; }
    CompChannel* channel() const noexcept { return channel_; }
    bool belongs_to(const Context& context) const noexcept {
        return context_ == &context && !owner_.expired();
    }
    /// Made before a fork: there is no engine behind it here.
    bool is_dead() const noexcept;

  private:
    Kind kind_;
    pid_t pid_;
    Hca& hca_;
    Context* context_;
    CompChannel* channel_{};
    std::weak_ptr<OpenFile> owner_{}; ///< channel: its command descriptor; gone means its context is gone
};

/// All watched descriptors of the process. Untouched descriptors cost one load.
class Descriptors {
  public:
    using File = std::shared_ptr<OpenFile>;

    /// The file behind `fd`, or nullptr.
    File find(int fd) {
        if (!may_watch(fd)) return nullptr;
        return find_slow(fd);
    }
    void watch(int fd, File file);
    /// Every watched descriptor with its file, as of now.
    std::vector<std::pair<int, File>> all();
    /// Forgets `fd`. The returned file closes when its last holder lets go; hold no lock then.
    File forget(int fd);
    /// Forgets all from `first` to `last`.
    std::vector<File> forget_range(unsigned first, unsigned last);

    /// Around fork.
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    static constexpr unsigned limit = 65536; ///< descriptors beyond are always looked up
    bool may_watch(int fd) const noexcept {
        if (fd < 0) return false;
        return static_cast<unsigned>(fd) >= limit ||
               watched_[static_cast<unsigned>(fd)].load(std::memory_order_acquire);
    }
    File find_slow(int fd);

    std::array<std::atomic<bool>, limit> watched_{};
    std::mutex mutex_{};
    std::map<int, File> files_{};
};

Descriptors& descriptors() noexcept;

/// What command handlers see: the descriptors of one context.
class ContextDescriptors final : public DescriptorTable {
  public:
    explicit ContextDescriptors(Descriptors::File owner)
        : owner_{std::move(owner)} {}
    void watch_channel(int fd, Context& context, CompChannel& channel) override;
    CompChannel* channel_of(int fd, const Context& context) override;

  private:
    Descriptors::File owner_;
};

} // namespace swhca::preload
