// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/pair.hpp"

#include <algorithm>
#include <mutex>

namespace swhca {
namespace {

/// Wires of this process that have no peer yet.
struct Waiting {
    std::mutex mutex{};
    std::vector<PairWire*> wires{};
};

Waiting& waiting() {
    static Waiting list;
    return list;
}

} // namespace

PairWire::PairWire(std::string name, std::string peer_name, WhenFull when_full)
    : name_{std::move(name)}
    , peer_name_{std::move(peer_name)}
    , when_full_{when_full} {
    Waiting& list = waiting();
    const std::lock_guard lock{list.mutex};
    const auto match =
        std::find_if(list.wires.begin(), list.wires.end(), [&](const PairWire* w) { return joins(*w); });
    if (match == list.wires.end()) {
        list.wires.push_back(this);
        return;
    }
    peer_ = *match;
    peer_->peer_ = this;
    list.wires.erase(match);
}

PairWire::~PairWire() {
    Waiting& list = waiting();
    const std::lock_guard lock{list.mutex};
    list.wires.erase(std::remove(list.wires.begin(), list.wires.end(), this), list.wires.end());
    if (peer_ != nullptr) peer_->peer_ = nullptr;
}

/// Either names the other, or neither names anybody.
bool PairWire::joins(const PairWire& other) const {
    if (peer_name_.empty() && other.peer_name_.empty()) return true;
    const bool wanted = peer_name_.empty() || peer_name_ == other.name_;
    const bool wanting = other.peer_name_.empty() || other.peer_name_ == name_;
    return wanted && wanting;
}

unsigned PairWire::transmit(std::span<const Frame> frames) {
    if (peer_ == nullptr || !peer_->plugged()) {
        frames_lost_.add(frames.size());
        return static_cast<unsigned>(frames.size());
    }
    const unsigned gone = peer_->sink_->deliver(frames, when_full_);
    std::uint64_t bytes = 0;
    for (const Frame& frame : frames.first(gone))
        bytes += frame.length_bytes;
    frames_out_.add(gone);
    bytes_out_.add(bytes);
    peer_->frames_in_.add(gone);
    peer_->bytes_in_.add(bytes);
    return gone;
}

std::vector<std::pair<std::string, std::uint64_t>> PairWire::counters() const {
    return {{"frames_in", frames_in_.read()},
            {"bytes_in", bytes_in_.read()},
            {"frames_out", frames_out_.read()},
            {"bytes_out", bytes_out_.read()},
            {"frames_lost", frames_lost_.read()}};
}

} // namespace swhca
