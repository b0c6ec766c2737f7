// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/shm.hpp"

#include "swhca/wire/options.hpp"

namespace swhca {
namespace {

using stride::Result;

constexpr unsigned polls_between_looks = 4096;
constexpr std::size_t learned_limit = 65536;

} // namespace

Result<std::unique_ptr<Wire>> ShmWire::make(const PortOptions& options) {
    stride::Status keys = check_keys(options, {"fabric"});
    if (!keys) return keys.take_error();
    const std::string* name = options.find("fabric");
    if (name == nullptr || name->empty() || name->find('/') != name->npos)
        return option_error(options, "fabric", "a shm wire needs a name for its fabric, without /");
    Result<ShmSegment> segment = ShmSegment::join(*name, options.format);
    if (!segment) return option_error(options, "fabric", segment.error().what);
    return Result<std::unique_ptr<Wire>>{
        std::make_unique<ShmWire>(std::move(segment).value(), options.format, options.when_full)};
}

ShmWire::ShmWire(ShmSegment segment, WireFormat format, WhenFull when_full)
    : segment_{std::move(segment)}
    , format_{format}
    , when_full_{when_full} {
    look_around();
}

/// Who died must not stop who waits for it.
void ShmWire::look_around() {
    others_.store(segment_->bury_dead(), std::memory_order_relaxed);
    std::erase_if(table_, [this](const auto& entry) { return !segment_->is_taken(entry.second); });
}

/// False: the frame has to wait.
bool ShmWire::send_to(std::uint32_t place, const Frame& frame) {
    if (segment_->write(place, frame)) return true;
    look_around();
    if (segment_->is_taken(place) && when_full_ == WhenFull::wait) return false;
    frames_lost_.add(1);
    return true;
}

bool ShmWire::send(const Frame& frame) {
    const FrameAddresses addresses = addresses_of(format_, frame);
    if (addresses.valid && !addresses.group) {
        const auto known = table_.find(addresses.destination);
        if (known != table_.end() && segment_->is_taken(known->second)) return send_to(known->second, frame);
    }
    // To all; where it has to wait it goes on with this place when the port offers the frame again.
    for (; flooded_ < ShmLayout::places; ++flooded_) {
        if (flooded_ == segment_->own() || !segment_->is_taken(flooded_)) continue;
        if (!send_to(flooded_, frame)) return false;
    }
    flooded_ = 0;
    return true;
}

unsigned ShmWire::transmit(std::span<const Frame> frames) {
    unsigned gone = 0;
    while (gone < frames.size() && send(frames[gone]))
        ++gone;
    frames_out_.add(gone);
    return gone;
}

unsigned ShmWire::poll(unsigned budget) {
    if (++polls_since_look_ >= polls_between_looks) {
        polls_since_look_ = 0;
        look_around();
    }
    if (sink_ == nullptr) return 0;
    unsigned moved = 0;
    ShmArrival arrival;
    while (moved < budget && segment_->peek(arrival)) {
        const Segment segment{arrival.data, arrival.length_bytes};
        const Frame frame{{&segment, 1}, arrival.length_bytes};
        if (arrival.length_bytes != 0 && sink_->deliver({&frame, 1}, when_full_) == 0) break;
        const FrameAddresses addresses = addresses_of(format_, frame);
        if (table_.size() >= learned_limit) table_.clear();
        if (addresses.valid && arrival.from < ShmLayout::places) table_[addresses.source] = arrival.from;
        segment_->consume(arrival);
        ++moved;
    }
    frames_in_.add(moved);
    return moved;
}

std::vector<std::pair<std::string, std::uint64_t>> ShmWire::counters() const {
    return {{"frames_in", frames_in_.read()},
            {"frames_out", frames_out_.read()},
            {"frames_lost", frames_lost_.read()},
            {"others", others_.load(std::memory_order_relaxed)}};
}

} // namespace swhca
