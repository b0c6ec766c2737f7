// SPDX-License-Identifier: BSD-3-Clause
/// Faults on request: what silicon does once in a year, when a test wants it.
///
/// A fault is a line `DEVICE KIND key=value ...`; numbers may be hexadecimal (0x..).
///
/// | kind         | keys                      | what happens |
/// |--------------|---------------------------|--------------------------------------------------------------------|
/// | `rx_error`   | syndrome= (2), after= (0) | a packet completes in error instead; its queue is in error |
/// | `tx_error`   | syndrome= (2), after= (0) | a send WQE completes in error instead; its QP is in error |
/// | `cq_overrun` | after= (0)                | the completion of a packet finds no room: the CQ is dead | |
/// `filler`     | every= (1), strides= (0)  | striding RQs: before every N-th packet strides are skipped; 0:
/// the rest of the WQE; every=0: no more | | `late`       | passes=, every=           | of `every` passes of
/// the engine the port sleeps through `passes`   | | `refuse`     | command=, after= (0), errno= (12) | a
/// command (`REG_MR`, `CREATE_CQ`, ...) is refused          | | `remove`     | -                         |
/// the device is gone: DEVICE_FATAL, queues in error, commands answer EIO | | `clear`      | - | no more
/// faults, but what is gone is gone                           |
#pragma once

#include "base/result.hpp"
#include "swhca/hca/device.hpp"

#include <string_view>

namespace swhca {

/// Commands held; quiesces the device's engine itself. Error: no such device, kind or key; names it.
stride::Status inject_fault(Hca& hca, std::string_view text);

/// 0, or the errno with which a fault refuses the command `name`. Commands held.
int refused_by_fault(Device& device, std::string_view name) noexcept;

} // namespace swhca
