// SPDX-License-Identifier: BSD-3-Clause
#include "instructions.hpp"

#include <ucontext.h>

namespace bench {
namespace {

// Of the one thread that counts; the handler runs on it.
std::uint64_t counted;
greg_t last_ip;

void on_trap(int, siginfo_t*, void* context) {
    const greg_t ip = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    // A repeated string instruction traps after each round, with the same address.
    if (ip != last_ip) ++counted;
    last_ip = ip;
}

constexpr std::uint64_t trap_flag = 0x100;

inline void set_trap_flag() noexcept {
    asm volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(trap_flag) : "memory", "cc");
}

inline void clear_trap_flag() noexcept {
    asm volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~trap_flag) : "memory", "cc");
}

} // namespace

InstructionCounter::InstructionCounter() {
    struct sigaction action {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTRAP, &action, &before_);
    begin();
    overhead_ = end();
}

InstructionCounter::~InstructionCounter() { sigaction(SIGTRAP, &before_, nullptr); }

void InstructionCounter::begin() noexcept {
    counted = 0;
    last_ip = 0;
    set_trap_flag();
}

std::uint64_t InstructionCounter::end() noexcept {
    clear_trap_flag();
    return counted - (counted < overhead_ ? counted : overhead_);
}

} // namespace bench
