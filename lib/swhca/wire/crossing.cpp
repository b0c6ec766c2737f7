// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/crossing.hpp"

#include <algorithm>
#include <array>

namespace swhca {
namespace {

constexpr std::size_t crossing_batch_frames = 32;

thread_local unsigned lane_of_thread = 0;

} // namespace

unsigned engine_lane() noexcept { return lane_of_thread; }
void set_engine_lane(unsigned lane) noexcept { lane_of_thread = lane; }

CrossingWire::CrossingWire(std::unique_ptr<Wire> inner_wire, unsigned lanes)
    : DecoratedWire{std::move(inner_wire)} {
    for (unsigned i = 0; i < lanes; ++i)
        lanes_.push_back(std::make_unique<Lane>());
}

unsigned CrossingWire::deliver(std::span<const Frame> frames, WhenFull when_full) {
    Lane& lane = *lanes_[engine_lane()];
    unsigned gone = 0;
    for (const Frame& frame : frames) {
        const bool fits = frame.length_bytes <= Lane::max_frame_bytes;
        if (fits && !lane.write(frame, static_cast<std::uint32_t>(when_full))) break;
        ++gone;
    }
    return gone;
}

/// Frames that were offered alike go to the port in one batch. What it does not take stays in the ring.
unsigned CrossingWire::take(Lane& lane, unsigned budget) {
    std::array<Segment, crossing_batch_frames> segments;
    std::array<Frame, crossing_batch_frames> frames;
    std::array<std::uint64_t, crossing_batch_frames> ends;
    std::uint64_t position = lane.tail.load(std::memory_order_relaxed);
    std::uint32_t offered_as = 0;
    std::size_t count = 0;
    RingFrameHeader header{};
    for (const std::size_t most = std::min<std::size_t>(budget, crossing_batch_frames); count < most;
         ++count) {
        const std::byte* data = lane.read(position, header);
        if (data == nullptr || (count != 0 && header.note != offered_as)) break;
        offered_as = header.note;
        segments[count] = {data, header.length_bytes};
        frames[count] = {{&segments[count], 1}, header.length_bytes};
        ends[count] = position;
    }
    if (count == 0) return 0;
    const unsigned gone = give_port({frames.data(), count}, static_cast<WhenFull>(offered_as));
    if (gone != 0) lane.release(ends[gone - 1]);
    return gone;
}

unsigned CrossingWire::poll(unsigned budget) {
    unsigned moved = inner().poll(budget);
    for (const auto& lane : lanes_) {
        unsigned some = 0;
        unsigned last = 0;
        do {
            last = take(*lane, budget - some);
            some += last;
        } while (some < budget && last == crossing_batch_frames);
        moved += some;
    }
    return moved;
}

} // namespace swhca
