// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/gen.hpp"

#include <algorithm>

namespace swhca {
namespace {

/// Frames offered in one call: enough to spread the call's cost, few enough to stay in the first cache.
constexpr unsigned gen_batch_frames = 32;

} // namespace

GenWire::GenWire(const GenOptions& options)
    : options_{options}
    , templates_{options}
    , sink_{options.check ? &templates_ : nullptr} {}

unsigned GenWire::transmit(std::span<const Frame> frames) {
    sink_.take(frames);
    return static_cast<unsigned>(frames.size());
}

unsigned GenWire::allowed(unsigned budget) noexcept {
    std::uint64_t allowed = budget;
    if (options_.count) allowed = std::min(allowed, *options_.count - sent_);
    if (!options_.rate || allowed == 0) return static_cast<unsigned>(allowed);
    const Clock::time_point now = Clock::now();
    if (begun_ == Clock::time_point{}) begun_ = now;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const auto due = static_cast<std::uint64_t>(seconds * static_cast<double>(*options_.rate)) + 1;
    return static_cast<unsigned>(std::min(allowed, due > sent_ ? due - sent_ : 0));
}

bool GenWire::wanted() {
    if (!receiver_->listening()) return false;
    const std::uint64_t rules = receiver_->rule_changes();
    if (rules != rules_seen_) {
        rules_seen_ = rules;
        taken_ = receiver_->takes(templates_.frames().front());
    }
    return taken_;
}

unsigned GenWire::send(unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        templates_.stamp(next_template_ + i, static_cast<std::uint32_t>(sent_ + i));
    const auto offered = templates_.frames().subspan(next_template_, count);
    const unsigned gone = receiver_->deliver(offered, options_.rate ? WhenFull::drop : WhenFull::wait);
    std::uint64_t bytes = 0;
    for (const Frame& frame : offered.first(gone))
        bytes += frame.length_bytes;
    frames_in_.add(gone);
    bytes_in_.add(bytes);
    sent_ += gone;
    next_template_ += gone;
    if (next_template_ == templates_.count()) next_template_ = 0;
    return gone;
}

unsigned GenWire::poll(unsigned budget) {
    if (!options_.rate && !wanted()) return 0;
    const unsigned want = allowed(budget);
    unsigned moved = 0;
    while (moved < want) {
        const unsigned count =
            std::min({want - moved, gen_batch_frames, templates_.count() - next_template_});
        const unsigned gone = send(count);
        moved += gone;
        if (gone < count) {
            waits_.add(1);
            break;
        }
    }
    return moved;
}

std::vector<std::pair<std::string, std::uint64_t>> GenWire::counters() const {
    std::vector<std::pair<std::string, std::uint64_t>> out{
        {"frames_in", frames_in_.read()}, {"bytes_in", bytes_in_.read()}, {"waits", waits_.read()}};
    sink_.add_counters(out);
    return out;
}

stride::Result<std::unique_ptr<Wire>> make_gen_wire(const PortOptions& options) {
    stride::Result<GenOptions> parsed = parse_gen_options(options);
    if (!parsed) return parsed.take_error();
    return std::unique_ptr<Wire>{std::make_unique<GenWire>(parsed.value())};
}

} // namespace swhca
