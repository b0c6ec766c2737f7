// SPDX-License-Identifier: BSD-3-Clause
// SIGSEGV and SIGBUS of the program: the engine's guard takes them first (engine/memory_guard.hpp), and the
// program's actions are kept beside it.
#include "swhca/engine/memory_guard.hpp"
#include "swhca/preload/interpose.hpp"

#include <cerrno>
#include <csignal>

namespace {

using swhca::preload::Real;

using Handler = void (*)(int);

constinit Real<int(int, const struct sigaction*, struct sigaction*)> real_sigaction{"sigaction"};
constinit Real<Handler(int, Handler)> real_signal{"signal"};

bool is_guarded(int number) noexcept {
    return (number == SIGSEGV || number == SIGBUS) && swhca::memory_guard_installed();
}

} // namespace

SWHCA_INTERPOSE(int, sigaction, (int number, const struct sigaction* wanted, struct sigaction* previous)) {
    if (!is_guarded(number)) return real_sigaction(number, wanted, previous);
    swhca::swap_program_action(number, wanted, previous);
    return 0;
}

SWHCA_INTERPOSE(Handler, signal, (int number, Handler handler)) {
    if (!is_guarded(number)) return real_signal(number, handler);
    struct sigaction wanted {};
    struct sigaction previous {};
    wanted.sa_handler = handler;
    wanted.sa_flags = SA_RESTART;
    swhca::swap_program_action(number, &wanted, &previous);
    return previous.sa_handler;
}
