// SPDX-License-Identifier: BSD-3-Clause
/// What secondary processes ask the primary, over EAL's multi-process channel.
#pragma once

#include "base/result.hpp"
#include "ibv/key_table.hpp"

#include <cstdint>
#include <mutex>

namespace stride::pmd {

struct Port;

enum class Ask : std::uint32_t {
    command_fd, ///< a copy of the device's command descriptor, to map doorbell pages from
    find_key,   ///< of the memory at `address`
    reset_wq,
    ready_wq,
    recover_qp,
    spare_low, ///< no answer
    stats      ///< into PortShared
};

struct Question {
    Ask ask{};
    std::uint16_t port_id{}, queue{};
    std::uint64_t address{};
    std::uint32_t number{}; ///< by which the asker knows the answer
};

struct Answer {
    int code{}; ///< a positive errno; 0: done
    std::uint32_t number{};
    ibv::KeyEntry key{};
    int fd{-1}; ///< command_fd: the asker closes it
};

/// Secondary: asks and waits; any thread, one at a time. The code says ETIMEDOUT or the like if the primary
/// does not answer, and EAGAIN for a second after that, without asking.
Answer ask_primary(Question question) noexcept;
/// Secondary: tells, and does not wait.
void tell_primary(const Question& question) noexcept;

/// Primary: answers from now on. ENOTSUP: EAL was started so that there can be no other processes.
Status answer_secondaries();
/// Primary: `port` may be asked about, until it is withdrawn; then nobody is about to be answered.
void admit_questions(std::uint16_t port_id, Port* port) noexcept;

} // namespace stride::pmd
