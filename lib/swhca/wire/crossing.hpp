// SPDX-License-Identifier: BSD-3-Clause
/// Where frames go from one engine to another: around wires on which the port at the far end is served by
/// another thread (`run --engine ports`).
///
/// The sender's engine copies frames into a ring, the receiver's engine takes them out when it polls. There
/// is a ring for each engine that sends, so none has two writers and nobody waits for a lock.
#pragma once

#include "swhca/wire/decorated.hpp"
#include "swhca/wire/frame_ring.hpp"

#include <memory>
#include <vector>

namespace swhca {

/// Number of the engine whose pass runs on this thread: the lane it sends by.
unsigned engine_lane() noexcept;
void set_engine_lane(unsigned lane) noexcept;

class CrossingWire final : public DecoratedWire {
  public:
    /// `lanes`: number of engines.
    CrossingWire(std::unique_ptr<Wire> inner, unsigned lanes);
    unsigned transmit(std::span<const Frame> frames) override { return inner().transmit(frames); }
    unsigned poll(unsigned budget) override;

  private:
    using Lane = FrameRing<1U << 20>;
    /// On the sender's engine. A full ring makes the sender wait, whatever the receiver does when it has no
    /// WQE: it is the engine that is behind, not the program.
    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override;
    unsigned take(Lane& lane, unsigned budget);

    std::vector<std::unique_ptr<Lane>> lanes_{};
};

} // namespace swhca
