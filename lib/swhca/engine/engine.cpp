// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/engine.hpp"

#include "swhca/engine/memory_guard.hpp"
#include "swhca/engine/port_unit.hpp"
#include "swhca/wire/crossing.hpp"

#include <chrono>
#include <csignal>

#include <pthread.h>

namespace swhca {
namespace {

constexpr unsigned pass_budget = 64;
constexpr unsigned quiet_passes_before_sleep = 2000;
constexpr std::chrono::microseconds idle_sleep{50};
constexpr unsigned passes_between_clock_reads = 15; ///< reading the clock costs as much as a short packet
constexpr unsigned stop_wish = 1U << 30; ///< added to pauses_wanted_; no number of pauses reaches it

void relax() noexcept { __builtin_ia32_pause(); }

} // namespace

Engine::Engine(EngineOptions options)
    : options_{options} {
    // Taken now, because a program like EAL pins its threads before the engine's is made (facts).
    if (sched_getaffinity(0, sizeof start_cpus_, &start_cpus_) != 0) CPU_ZERO(&start_cpus_);
}

Engine::~Engine() { stop(); }

void Engine::add_port(Port& port) { units_.push_back(std::make_unique<PortUnit>(port)); }

void Engine::start() {
    const std::lock_guard lock{control_};
    if (options_.manual || thread_.joinable()) return;
    stop_wanted_ = false;
    sigset_t all, before;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS})
        sigdelset(&all, fault); // for the memory guard; blocked, they would end the process
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this] { run(); }};
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::stop() {
    const std::lock_guard lock{control_};
    if (!thread_.joinable()) return;
    stop_wanted_ = true;
    // A parked engine wakes up when the number is another than the one it fell asleep with, which it would
    // not be after a resume() and a pause() in between.
    pauses_wanted_.fetch_add(stop_wish);
    pauses_wanted_.notify_all();
    thread_.join();
    pauses_wanted_.fetch_sub(stop_wish);
}

void Engine::forget_thread() noexcept {
    if (thread_.joinable()) thread_.detach();
    parked_ = true;
    stop_wanted_ = true;
}

unsigned Engine::step(unsigned budget) {
    std::unique_lock lock{control_};
    pause();
    const unsigned moved = pass(budget);
    while (!settle_fault()) {
        // A command is at work and may want the engine quiesced.
        resume();
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
        pause();
    }
    resume();
    return moved;
}

void Engine::set_plug(Port& port, bool in) {
    port.forced_down.store(!in);
    if (in) return;
    const Quiesced quiet{*this};
    for (const auto& unit : units_)
        if (&unit->port() == &port) unit->lose_arrivals();
}

void Engine::hold() {
    const std::lock_guard lock{control_};
    pause();
}

void Engine::release() {
    const std::lock_guard lock{control_};
    resume();
}

/// Returns when no pass runs and none will start. The engine publishes `parked_` before it looks at
/// `pauses_wanted_` again, both sequentially consistent: either it sees the wish, or we see it unparked.
void Engine::pause() noexcept {
    pauses_wanted_.fetch_add(1);
    for (unsigned spins = 0; spins < 1000; ++spins) {
        if (parked_.load()) return;
        relax();
    }
    while (!parked_.load())
        parked_.wait(false);
}

void Engine::resume() noexcept {
    if (pauses_wanted_.fetch_sub(1) == 1) pauses_wanted_.notify_all();
}

Engine::Quiesced::Quiesced(Engine& engine) noexcept
    : engine_{engine} {
    engine_.control_.lock();
    engine_.pause();
}

Engine::Quiesced::~Quiesced() {
    engine_.resume();
    engine_.control_.unlock();
}

/// On the engine's thread: waits until nobody wants a pause. Leaves unparked, or for good.
void Engine::park() noexcept {
    for (;;) {
        parked_.store(true);
        parked_.notify_all();
        for (unsigned wanted = pauses_wanted_.load(); wanted != 0; wanted = pauses_wanted_.load()) {
            if (stop_wanted_.load()) return;
            pauses_wanted_.wait(wanted);
        }
        parked_.store(false);
        if (pauses_wanted_.load() == 0) return;
    }
}

unsigned Engine::pass(unsigned budget) {
    unsigned moved = 0;
    set_engine_lane(options_.lane);
    if (passes_to_clock_-- == 0) {
        passes_to_clock_ = passes_between_clock_reads;
        clock_.refresh();
        if (between_passes_) between_passes_();
    }
    if (!settle_) return pass_units(budget);
    if (fault_ != nullptr) return 0;
    fault_ = run_guarded([&] { moved = pass_units(budget); });
    if (fault_ != nullptr) [[unlikely]] {
        for (const auto& unit : units_)
            unit->recover();
    }
    return moved;
}

unsigned Engine::pass_units(unsigned budget) {
    unsigned moved = 0;
    for (const auto& unit : units_)
        moved += unit->pass(budget);
    return moved;
}

void Engine::on_fault(std::function<bool(const void* address)> settle) {
    install_memory_guard();
    settle_ = std::move(settle);
}

/// True if there is no fault to settle any more.
bool Engine::settle_fault() {
    if (fault_ != nullptr && settle_(fault_)) fault_ = nullptr;
    return fault_ == nullptr;
}

void Engine::run() {
    pthread_setname_np(pthread_self(), "swhca");
    cpu_set_t cpus = start_cpus_;
    if (options_.cpu >= 0) {
        CPU_ZERO(&cpus);
        CPU_SET(static_cast<std::size_t>(options_.cpu), &cpus);
    }
    if (CPU_COUNT(&cpus) != 0) pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    unsigned quiet_passes = 0;
    park();
    while (!stop_wanted_.load(std::memory_order_relaxed)) {
        if (pauses_wanted_.load(std::memory_order_relaxed) != 0) {
            park();
            continue;
        }
        if (!settle_fault()) continue;
        quiet_passes = pass(pass_budget) != 0 ? 0 : quiet_passes + 1;
        if (quiet_passes == 0) continue;
        relax();
        if (options_.idle && quiet_passes > quiet_passes_before_sleep)
            std::this_thread::sleep_for(idle_sleep);
    }
    parked_.store(true);
    parked_.notify_all();
}

} // namespace swhca
