// SPDX-License-Identifier: BSD-3-Clause
/// The device files a program looks for under /sys and /dev, as a real tree in a directory of the model.
///
/// A path P of the machine lies at ROOT + P. Which paths are redirected is decided by prefix, so that openat
/// below a directory works as well. Some files change; they are written anew when somebody opens them.
#pragma once

#include "base/result.hpp"
#include "swhca/hca/device.hpp"

#include <string>
#include <string_view>

namespace swhca {

/// Character device number of uverbs`index` (the kernel's static range of ib_uverbs).
struct DeviceNumber {
    unsigned major{231};
    unsigned minor{192};
};
DeviceNumber uverbs_number(unsigned index) noexcept;

/// The absolute `path` belongs to the model. `pci_listed`: the listing of the PCI bus is the model's as well.
bool is_redirected(std::string_view path, bool pci_listed) noexcept;

/// N of `/dev/infiniband/uverbsN`, or -1.
int uverbs_index(std::string_view path) noexcept;

/// Makes a directory of its own for a tree and removes those that dead processes of this user left.
stride::Result<std::string> make_tree_root();
/// Lays out all files of all devices below `root`.
stride::Status lay_tree(const Hca& hca, const std::string& root, bool pci_listed);
/// Removes `root` and all below it.
void remove_tree(const std::string& root);

/// Writes the file behind `path` (as redirected, without ROOT) anew if it is one that changes.
void refresh_file(const Hca& hca, const std::string& root, std::string_view path);

} // namespace swhca
