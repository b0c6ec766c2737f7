// SPDX-License-Identifier: BSD-3-Clause
/// The model of this process: made when the program first looks for devices, dead in a forked child, finished
/// at the end of the process.
#pragma once

#include "swhca/hca/config.hpp"
#include "swhca/hca/device.hpp"
#include "swhca/preload/control_socket.hpp"

#include <memory>
#include <string>

namespace swhca::preload {

struct Model {
    Config config{};
    std::unique_ptr<Hca> hca{};
    std::unique_ptr<ControlSocket> control{};
    std::string root{}; ///< of the device files' tree
    pid_t pid{};        ///< the process it works in
};

/// The model, made now if it is not there. Nullptr if it can't be made (said on stderr, once), in a child
/// that shares memory with its parent (vfork), and while it is being made on this thread.
Model* model();

/// The model if there is one already.
Model* model_if_made() noexcept;

/// Whether listings of the PCI bus are the model's too.
bool lists_on_pci() noexcept;

} // namespace swhca::preload
