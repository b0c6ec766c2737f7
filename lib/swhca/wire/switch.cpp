// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/switch.hpp"

#include "swhca/wire/options.hpp"

#include <algorithm>
#include <mutex>

namespace swhca {
namespace {

using stride::Result;

constexpr std::size_t table_limit = 65536; ///< addresses; then it learns anew

struct Fabrics {
    std::mutex mutex{};
    std::vector<std::weak_ptr<SwitchFabric>> list{};
};

Fabrics& fabrics() {
    static Fabrics all;
    return all;
}

std::shared_ptr<SwitchFabric> fabric_named(const std::string& name, WireFormat format) {
    Fabrics& all = fabrics();
    const std::lock_guard lock{all.mutex};
    std::erase_if(all.list, [](const auto& fabric) { return fabric.expired(); });
    for (const auto& known : all.list) {
        if (auto fabric = known.lock(); fabric && fabric->name == name) return fabric;
    }
    auto fabric = std::make_shared<SwitchFabric>();
    fabric->name = name;
    fabric->format = format;
    all.list.push_back(fabric);
    return fabric;
}

} // namespace

Result<std::unique_ptr<Wire>> SwitchWire::make(const PortOptions& options) {
    stride::Status keys = check_keys(options, {"fabric"});
    if (!keys) return keys.take_error();
    const std::string* name = options.find("fabric");
    auto fabric = fabric_named(name != nullptr ? *name : "fabric", options.format);
    if (fabric->format != options.format)
        return option_error(options, "fabric", "the other ports of this fabric have another link layer");
    return Result<std::unique_ptr<Wire>>{std::make_unique<SwitchWire>(std::move(fabric), options.when_full)};
}

SwitchWire::SwitchWire(std::shared_ptr<SwitchFabric> fabric, WhenFull when_full)
    : fabric_{std::move(fabric)}
    , when_full_{when_full} {
    fabric_->ports.push_back(this);
}

SwitchWire::~SwitchWire() {
    std::erase(fabric_->ports, this);
    std::erase_if(fabric_->table, [this](const auto& entry) { return entry.second == this; });
}

/// Learns the sender; null: to all others. Under `learning`.
SwitchWire* SwitchWire::target_of(const FrameAddresses& addresses) {
    if (!addresses.valid) return nullptr;
    if (fabric_->table.size() >= table_limit) fabric_->table.clear();
    fabric_->table[addresses.source] = this;
    if (addresses.group) return nullptr;
    const auto known = fabric_->table.find(addresses.destination);
    return known == fabric_->table.end() ? nullptr : known->second;
}

void SwitchWire::find_targets(std::span<const Frame> frames, Targets& targets) {
    std::array<FrameAddresses, batch_frames> addresses;
    for (std::size_t i = 0; i < frames.size(); ++i)
        addresses[i] = addresses_of(fabric_->format, frames[i]);
    const std::lock_guard lock{fabric_->learning};
    for (std::size_t i = 0; i < frames.size(); ++i)
        targets[i] = target_of(addresses[i]);
}

/// `lost`: frames that nobody got.
unsigned SwitchWire::hand_over(std::span<const Frame> frames, std::uint64_t& lost) {
    if (sink_ == nullptr || !sink_->plugged()) {
        lost += frames.size();
        return static_cast<unsigned>(frames.size());
    }
    const unsigned gone = sink_->deliver(frames, when_full_);
    frames_in_.fetch_add(gone, std::memory_order_relaxed);
    return gone;
}

void SwitchWire::flood(const Frame& frame) {
    frames_flooded_.add(1);
    if (fabric_->ports.size() < 2) frames_lost_.add(1);
    for (SwitchWire* port : fabric_->ports) {
        if (port == this || port->sink_ == nullptr || !port->sink_->plugged()) continue;
        // One that pauses must not hold up the others.
        const unsigned gone = port->sink_->deliver({&frame, 1}, WhenFull::drop);
        port->frames_in_.fetch_add(gone, std::memory_order_relaxed);
        if (gone == 0) frames_lost_.add(1);
    }
}

unsigned SwitchWire::transmit_batch(std::span<const Frame> frames) {
    Targets targets;
    find_targets(frames, targets);
    std::size_t at = 0;
    while (at < frames.size()) {
        SwitchWire* const target = targets[at];
        if (target == nullptr) {
            flood(frames[at++]);
            continue;
        }
        std::size_t run = 1;
        while (at + run < frames.size() && targets[at + run] == target)
            ++run;
        if (target == this) { // a switch sends nothing back where it came from
            frames_lost_.add(run);
            at += run;
            continue;
        }
        std::uint64_t lost = 0;
        const unsigned gone = target->hand_over(frames.subspan(at, run), lost);
        if (lost != 0) frames_lost_.add(lost);
        at += gone;
        if (gone != run) break;
    }
    return static_cast<unsigned>(at);
}

unsigned SwitchWire::transmit(std::span<const Frame> frames) {
    std::size_t at = 0;
    while (at < frames.size()) {
        const std::size_t batch = std::min(frames.size() - at, batch_frames);
        const unsigned gone = transmit_batch(frames.subspan(at, batch));
        at += gone;
        if (gone != batch) break;
    }
    frames_out_.add(at);
    return static_cast<unsigned>(at);
}

std::vector<std::pair<std::string, std::uint64_t>> SwitchWire::counters() const {
    return {{"frames_in", frames_in_.load(std::memory_order_relaxed)},
            {"frames_out", frames_out_.read()},
            {"frames_flooded", frames_flooded_.read()},
            {"frames_lost", frames_lost_.read()}};
}

} // namespace swhca
