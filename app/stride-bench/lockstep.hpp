// SPDX-License-Identifier: BSD-3-Clause
/// The software HCA's engine, stepped by hand (lib/swhca/swhca.h), or nothing if the process runs without
/// one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace bench {

class Lockstep {
  public:
    /// `on_other_cpu`: steps run on a helper thread on `other_cpu`, so that the engine's stores come from
    /// another core's caches.
    Lockstep(bool on_other_cpu, int other_cpu);
    ~Lockstep();
    Lockstep(const Lockstep&) = delete;
    Lockstep& operator=(const Lockstep&) = delete;

    /// There is an engine in this process.
    bool present() const noexcept { return step_ != nullptr; }
    /// From now only step() moves packets; until release().
    void hold();
    void release();
    /// One pass; frames moved, both directions.
    unsigned step(unsigned budget);
    /// Steps until nothing moves.
    void settle();
    /// Lets `to_send` frames out, which a queue has posted, and `wanted` in. Returns how many came in.
    /// Without an engine: `wanted`.
    unsigned fill(unsigned to_send, unsigned wanted);
    /// The HCA's report (JSON), or an empty text.
    std::string report() const;

  private:
    void help(int cpu);

    void (*hold_)() = nullptr;
    void (*release_)() = nullptr;
    unsigned (*step_)(unsigned) = nullptr;
    int (*report_)(char*, unsigned) = nullptr;
    bool held_ = false;
    std::thread helper_;
    std::atomic<unsigned> request_{0};     ///< budget asked of the helper; 0: none
    std::atomic<std::uint64_t> answer_{0}; ///< frames moved, with `answered` set
    std::atomic<bool> stop_{false};
};

} // namespace bench
