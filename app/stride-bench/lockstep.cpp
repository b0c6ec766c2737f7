// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

namespace bench {
namespace {

constexpr std::uint64_t answered = 1ULL << 32;
/// Passes without a frame before nothing is thought to move: a pass may only take note of a doorbell.
constexpr unsigned idle_passes = 3;

template <class F>
void find(const char* name, F*& function) {
    function = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

} // namespace

Lockstep::Lockstep(bool on_other_cpu, int other_cpu) {
    find("swhca_hold", hold_);
    find("swhca_release", release_);
    find("swhca_step", step_);
    find("swhca_report", report_);
    if (hold_ == nullptr || release_ == nullptr) step_ = nullptr;
    if (present() && on_other_cpu) helper_ = std::thread{[this, other_cpu] { help(other_cpu); }};
}

Lockstep::~Lockstep() {
    stop_ = true;
    if (helper_.joinable()) helper_.join();
    release();
}

void Lockstep::hold() {
    if (present() && !held_) hold_();
    held_ = present();
}

void Lockstep::release() {
    if (held_) release_();
    held_ = false;
}

void Lockstep::help(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<unsigned>(cpu), &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    while (!stop_.load(std::memory_order_relaxed)) {
        const unsigned budget = request_.load(std::memory_order_acquire);
        if (budget == 0) {
            __builtin_ia32_pause();
            continue;
        }
        request_.store(0, std::memory_order_relaxed);
        answer_.store(answered | step_(budget), std::memory_order_release);
    }
}

unsigned Lockstep::step(unsigned budget) {
    if (!helper_.joinable()) return step_(budget);
    answer_.store(0, std::memory_order_relaxed);
    request_.store(budget, std::memory_order_release);
    std::uint64_t answer = 0;
    while (((answer = answer_.load(std::memory_order_acquire)) & answered) == 0)
        __builtin_ia32_pause();
    return static_cast<unsigned>(answer);
}

void Lockstep::settle() {
    if (!present()) return;
    for (unsigned idle = 0; idle < idle_passes;)
        idle = step(256) == 0 ? idle + 1 : 0;
}

unsigned Lockstep::fill(unsigned to_send, unsigned wanted) {
    if (!present()) return wanted;
    const unsigned total = to_send + wanted;
    unsigned moved = 0;
    for (unsigned idle = 0; moved < total && idle < idle_passes;) {
        const unsigned now = step(std::min(std::max(to_send, wanted), total - moved));
        moved += now;
        idle = now == 0 ? idle + 1 : 0;
    }
    return moved - std::min(moved, to_send);
}

std::string Lockstep::report() const {
    if (report_ == nullptr) return {};
    std::string text(static_cast<std::size_t>(std::max(0, report_(nullptr, 0))) + 4096, '\0');
    const int length = report_(text.data(), static_cast<unsigned>(text.size()));
    text.resize(static_cast<std::size_t>(std::max(0, length)));
    return text;
}

} // namespace bench
