// SPDX-License-Identifier: BSD-3-Clause
/// Paths of the program to paths of the model's tree, and back.
#pragma once

#include "swhca/preload/process.hpp"

#include <climits>
#include <fcntl.h>
#include <string>

namespace swhca::preload {

/// A path as libc gets it: the program's own, or one in the model's tree.
class Path {
  public:
    /// `path` may be null or relative; then it stays as it is. Files that change are refreshed if
    /// `for_reading`.
    explicit Path(const char* path, bool for_reading = false);
    /// Relative to a directory, which may lie in the tree.
    Path(int directory, const char* path, bool for_reading);

    const char* get() const noexcept { return path_; }
    /// The model that the path belongs to, or nullptr.
    Model* model() const noexcept { return model_; }
    /// N if the program's path is /dev/infiniband/uverbsN of an existing device, else -1.
    int uverbs() const noexcept { return uverbs_; }

  private:
    void resolve(const char* path, bool for_reading);
    void refresh_below(int directory, const char* path);

    const char* path_;
    Model* model_{};
    int uverbs_{-1};
    char buffer_[PATH_MAX];
};

/// Cuts the tree's root off a resolved path, in place. Returns `path`.
char* strip_root(char* path) noexcept;

/// Opens /dev/infiniband/uverbsN: a descriptor, or -1 and errno.
int open_uverbs(Model& model, int index, int flags);

} // namespace swhca::preload
