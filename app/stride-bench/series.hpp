// SPDX-License-Identifier: BSD-3-Clause
/// The timed code: one fill of each series.
#pragma once

#include "instructions.hpp"
#include "lockstep.hpp"
#include "options.hpp"
#include "port.hpp"
#include "quiet.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct rte_mbuf;

namespace bench {

/// Cycles, instructions and packets of one or more fills.
struct Cost {
    std::uint64_t cycles{}, instructions{}, packets{};
    Cost& operator+=(const Cost& other) noexcept {
        cycles += other.cycles;
        instructions += other.instructions;
        packets += other.packets;
        return *this;
    }
};

/// What the application does with packets it received: frees them, or holds them for a while first.
class Application {
  public:
    /// `ring_packets`: descriptors of all queues, what hold_percent is a share of.
    Application(const Options& options, std::uint32_t ring_packets);
    ~Application();
    Application(const Application&) = delete;
    Application& operator=(const Application&) = delete;

    /// Takes `count` packets. The array is scratch space afterwards.
    void take(rte_mbuf** packets, unsigned count) noexcept;

  private:
    unsigned keep(rte_mbuf** packets, unsigned count) noexcept;

    bool touch_;
    std::uint32_t limit_{};         ///< packets held
    std::uint32_t percent_{100};    ///< of each burst that is held
    std::uint32_t share_{};         ///< running remainder of percent_
    std::vector<rte_mbuf*> held_{}; ///< ring, a power of two
    std::uint32_t pi_{}, ci_{};
    std::uint64_t sum_{}; ///< of the bytes touched
};

/// Times fills. With `count_instructions`, single-steps them instead.
class Bench {
  public:
    Bench(const Options& options, Port& port, Lockstep& engine);

    /// Brings engine and queues into the state fills of `series` start from. Untimed.
    void settle(Series series);
    /// One fill. Throws std::runtime_error if packets get lost.
    Cost fill(Series series, bool count_instructions);
    /// Receives (and frees) until nothing is left.
    void drain();

  private:
    template <class Work>
    Cost measure(bool count_instructions, unsigned packets, Work&& work);
    // What is timed; each returns how many packets it dealt with, `packets` at least.
    unsigned receive_and_take(unsigned packets);
    unsigned receive(unsigned packets);
    unsigned free_received(unsigned packets) noexcept;
    unsigned forward(unsigned packets);
    unsigned send(unsigned packets) noexcept;
    unsigned arrive(unsigned to_send);
    void prepare_to_send();

    const Options& options_;
    Port& port_;
    Lockstep& engine_;
    Application application_;
    InstructionCounter instructions_;
    std::vector<rte_mbuf*> packets_; ///< of one fill
    std::uint16_t queue_{};          ///< next to be polled
    unsigned unsent_{};              ///< frames posted by the last fill, still to leave
};

} // namespace bench
