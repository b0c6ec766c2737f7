// SPDX-License-Identifier: BSD-3-Clause
/// The engine: the part of the HCA that moves packets. One thread polls doorbells and wires; or nobody's
/// thread, and a program steps it by hand (swhca.h). One engine serves all ports, or each port has its own.
///
/// Control commands change objects only inside a Quiesced guard: the engine leaves its pass, says so, and
/// waits. The handshake has no lock for the engine to hog, so a command never starves (facts: a mutex does).
#pragma once

#include "swhca/engine/clock_pages.hpp"
#include "swhca/hca/objects.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sched.h>

namespace swhca {

class PortUnit;

struct EngineOptions {
    int cpu{-1};        ///< CPU to run on; -1: any CPU the process started with
    bool idle{false};   ///< sleep when nothing moves for a while, instead of spinning
    bool manual{false}; ///< no thread: only step() moves packets
    bool ports{false};  ///< an engine for each port (hca/build.hpp makes them)
    unsigned lane{0};   ///< number of the engine among those of the process (wire/crossing.hpp)
};

class Engine {
  public:
    explicit Engine(EngineOptions options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Adds a port, whose wire is in place, to the round. Before start(); the port outlives the engine.
    void add_port(Port& port);
    /// Starts the thread (not if manual): own affinity, all signals blocked, named `swhca`. Idempotent.
    void start();
    /// Ends the thread after the pass it is in. Idempotent; start() may follow.
    void stop();
    /// In the child of a fork there is no thread: forgets it. Nothing but the destructor may follow.
    void forget_thread() noexcept;

    /// One pass over all ports on the calling thread, `budget` frames per port and direction at most; the
    /// thread, if any, is paused meanwhile. Returns the frames moved (sent + received).
    unsigned step(unsigned budget);
    /// Takes packet moving away from the thread (step() still works), or gives it back. Nests.
    void hold();
    void release();

    /// Pulls the plug of a port of this engine, or puts it back: while it is out nothing is sent or received,
    /// and what was on its way to the port when it was pulled is lost. Any thread but the engine's own.
    void set_plug(Port& port, bool in);

    /// What to do about an address the engine could not read or write: called between passes, again and again
    /// until it answers true. Before start(). Without it a fault ends the process.
    void on_fault(std::function<bool(const void* address)> settle);

    /// Something cheap to do between passes, every few of them. Before start().
    void between_passes(std::function<void()> work) { between_passes_ = std::move(work); }

    /// Changed while quiesced.
    ClockPages& clock() noexcept { return clock_; }

    /// While one lives no pass of this engine runs. Any thread but the engine's own; recursive.
    class Quiesced {
      public:
        explicit Quiesced(Engine& engine) noexcept;
        ~Quiesced();
        Quiesced(const Quiesced&) = delete;
        Quiesced& operator=(const Quiesced&) = delete;

      private:
        Engine& engine_;
    };

  private:
    friend class Quiesced;
    void pause() noexcept;
    void resume() noexcept;
    void park() noexcept;
    void run();
    unsigned pass(unsigned budget);
    unsigned pass_units(unsigned budget);
    bool settle_fault();

    EngineOptions options_;
    cpu_set_t start_cpus_{}; ///< where the process could run when the engine was made
    std::vector<std::unique_ptr<PortUnit>> units_;
    ClockPages clock_{};
    std::function<bool(const void* address)> settle_{};
    std::function<void()> between_passes_{};
    const void* fault_{}; ///< of the last pass, not settled yet; who runs passes uses it
    unsigned passes_to_clock_{};
    std::thread thread_;
    std::recursive_mutex control_; ///< one commander at a time; the engine never takes it
    std::atomic<unsigned> pauses_wanted_{0};
    std::atomic<bool> parked_{true}; ///< the engine's thread is in no pass (waiting, or not there at all)
    std::atomic<bool> stop_wanted_{false};
};

} // namespace swhca
