// SPDX-License-Identifier: BSD-3-Clause
/// Surviving memory that a program unmapped under the engine: an access that faults ends the pass instead of
/// the process (doc/adr/0007).
///
/// Silicon works on pages the kernel pinned; the model reads and writes the program's memory where it lies,
/// and the C library unmaps memory (free) by calls that nobody else sees.
#pragma once

#include <csignal>
#include <utility>

namespace swhca {

/// Takes SIGSEGV and SIGBUS. What the program had installed for them gets the faults that are not the
/// engine's. Idempotent, any thread.
void install_memory_guard() noexcept;

/// Installed; from then on the program's own actions are set by swap_program_action.
bool memory_guard_installed() noexcept;

/// What sigaction does for the program and `signal`, SIGSEGV or SIGBUS. Any thread.
void swap_program_action(int signal, const struct sigaction* wanted, struct sigaction* previous) noexcept;

/// Runs `work(argument)`. Null, or the address whose access faulted: then `work` was left in the middle, by a
/// jump that runs no destructors. Not nested.
const void* run_guarded(void (*work)(void*), void* argument) noexcept;

/// The same with a callable.
template <class Work>
const void* run_guarded(Work&& work) noexcept {
    return run_guarded([](void* argument) { (*static_cast<std::remove_reference_t<Work>*>(argument))(); },
                       &work);
}

} // namespace swhca
