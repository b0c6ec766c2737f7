// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/memory_guard.hpp"

#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <mutex>

namespace swhca {
namespace {

/// Where the thread lands if an access faults; null outside of run_guarded. The handler may not allocate:
/// static TLS.
[[gnu::tls_model("initial-exec")]] thread_local sigjmp_buf* landing = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local const void* faulted = nullptr;

constexpr std::array<int, 2> guarded_signals = {SIGSEGV, SIGBUS};
/// What the program wants to happen, by position in guarded_signals.
std::array<struct sigaction, guarded_signals.size()> program_actions{};
std::atomic<bool> installed{false};
constinit std::mutex installing{};

struct sigaction& program_action(int signal) noexcept {
    return program_actions[signal == SIGBUS ? 1 : 0];
}

/// The fault is the program's own: do what it asked for. The default is to fault again without a handler.
void pass_on(int signal, siginfo_t* info, void* context) {
    const struct sigaction& action = program_action(signal);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(signal, info, context);
    } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
        action.sa_handler(signal);
    } else {
        installed.store(false);
        sigaction(signal, &action, nullptr);
    }
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (landing == nullptr) return pass_on(signal, info, context);
    faulted = info->si_addr;
    siglongjmp(*std::exchange(landing, nullptr), 1);
}

} // namespace

void install_memory_guard() noexcept {
    const std::lock_guard lock{installing};
    if (installed.load()) return;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    // The signal stays unmasked: the handler is left by a jump that restores no mask.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    for (const int signal : guarded_signals)
        sigaction(signal, &ours, &program_action(signal));
    installed.store(true);
}

bool memory_guard_installed() noexcept { return installed.load(std::memory_order_acquire); }

void swap_program_action(int signal, const struct sigaction* wanted, struct sigaction* previous) noexcept {
    const std::lock_guard lock{installing};
    const struct sigaction before = program_action(signal);
    if (wanted != nullptr) program_action(signal) = *wanted;
    if (previous != nullptr) *previous = before;
}

[[gnu::noinline]] const void* run_guarded(void (*work)(void*), void* argument) noexcept {
    sigjmp_buf here;
    if (sigsetjmp(here, 0) != 0) return faulted != nullptr ? faulted : static_cast<const void*>(&installed);
    landing = &here;
    work(argument);
    landing = nullptr;
    return nullptr;
}

} // namespace swhca
