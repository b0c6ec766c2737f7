// SPDX-License-Identifier: BSD-3-Clause
/// A learning switch between ports of one process: `wire=switch,fabric=NAME`.
///
/// Forwards by LID or MAC, as the ports' format says; what it has not learned, and groups, go to all others.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/addresses.hpp"
#include "swhca/wire/wire.hpp"

#include <memory>
#include <unordered_map>

namespace swhca {

class SwitchWire;

/// What ports with one fabric= name share. Used on the engine's thread, changed while it is stopped.
struct SwitchFabric {
    std::string name{};
    WireFormat format{};
    std::vector<SwitchWire*> ports{};
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
    SwitchWire* target_of(const FrameAddresses& addresses);
    void flood(const Frame& frame);
    unsigned hand_over(std::span<const Frame> frames);

    std::shared_ptr<SwitchFabric> fabric_;
    WhenFull when_full_;
    FrameSink* sink_{};
    stride::Counter frames_out_{}, frames_in_{}, frames_flooded_{}, frames_lost_{};
};

} // namespace swhca
