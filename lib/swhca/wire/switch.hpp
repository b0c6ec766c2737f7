// SPDX-License-Identifier: BSD-3-Clause
/// A learning switch between ports of one process: `wire=switch,fabric=NAME`.
///
/// Forwards by LID or MAC, as the ports' format says; what it has not learned, and groups, go to all others.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/addresses.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace swhca {

class SwitchWire;

/// What ports with one fabric= name share.
struct SwitchFabric {
    std::string name{};
    WireFormat format{};
    std::vector<SwitchWire*> ports{}; ///< changed while engines are stopped
    /// Of `table`, once a batch. Nothing of the program's is touched under it: an access that faults leaves
    /// no mutex behind (engine/memory_guard.hpp).
    std::mutex learning{};
    std::unordered_map<std::uint64_t, SwitchWire*> table{};
};

class SwitchWire final : public Wire {
  public:
    /// Error: the fabric has ports of another format.
    static stride::Result<std::unique_ptr<Wire>> make(const PortOptions& options);
    SwitchWire(std::shared_ptr<SwitchFabric> fabric, WhenFull when_full);
    ~SwitchWire() override;

    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned) override { return 0; }
    bool link_up() const override { return fabric_->ports.size() > 1; }
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    static constexpr std::size_t batch_frames = 64;
    using Targets = std::array<SwitchWire*, batch_frames>;

    SwitchWire* target_of(const FrameAddresses& addresses);
    void find_targets(std::span<const Frame> frames, Targets& targets);
    unsigned transmit_batch(std::span<const Frame> frames);
    void flood(const Frame& frame);
    unsigned hand_over(std::span<const Frame> frames, std::uint64_t& lost);

    std::shared_ptr<SwitchFabric> fabric_;
    WhenFull when_full_;
    FrameSink* sink_{};
    stride::Counter frames_out_{}, frames_flooded_{}, frames_lost_{};
    std::atomic<std::uint64_t> frames_in_{}; ///< the engines of all other ports add
};

} // namespace swhca
