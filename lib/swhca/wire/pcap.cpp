// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/pcap.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace swhca {
namespace {

using stride::clock_ns;

constexpr std::uint64_t ns_per_ms = 1'000'000;
constexpr double ns_per_s = 1e9;
constexpr std::uint64_t flush_after_ns = 1 * ns_per_ms;
constexpr unsigned polls_between_looks = 64; ///< at the clock, while there is something to flush
constexpr double max_backlog_frames = 4096;  ///< an engine that was away for long does not catch up all of it
constexpr std::uint64_t for_ever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t bytes_of(std::span<const Frame> frames) noexcept {
    std::uint64_t bytes = 0;
    for (const Frame& frame : frames)
        bytes += frame.length_bytes;
    return bytes;
}

} // namespace

PcapWire::PcapWire(std::optional<Capture> input, std::optional<CaptureWriter> output, PcapSettings settings)
    : input_{std::move(input)}
    , output_{std::move(output)}
    , settings_{settings} {
    if (input_) remaining_ = settings_.loops == 0 ? for_ever : settings_.loops * input_->frames().size();
}

unsigned PcapWire::transmit(std::span<const Frame> frames) {
    frames_out_.add(frames.size());
    bytes_out_.add(bytes_of(frames));
    if (!output_) return static_cast<unsigned>(frames.size());
    const std::uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    for (const Frame& frame : frames)
        output_->write(frame, now_ns);
    last_write_ns_ = clock_ns(CLOCK_MONOTONIC);
    unflushed_ = true;
    return static_cast<unsigned>(frames.size());
}

/// A reader of the file shall see whole frames whenever nothing moves.
void PcapWire::flush_if_idle() {
    if (!unflushed_ || ++polls_since_look_ < polls_between_looks) return;
    polls_since_look_ = 0;
    if (clock_ns(CLOCK_MONOTONIC) - last_write_ns_ < flush_after_ns) return;
    unflushed_ = false;
    const stride::Status flushed = output_->flush();
    if (!flushed) stride::log_line(stride::LogLevel::error, "%s", flushed.error().what.c_str());
}

void PcapWire::close() {
    if (!output_) return;
    const stride::Status flushed = output_->flush();
    if (!flushed) stride::log_line(stride::LogLevel::error, "%s", flushed.error().what.c_str());
    output_.reset();
}

unsigned PcapWire::poll(unsigned budget) {
    flush_if_idle();
    if (remaining_.load(std::memory_order_relaxed) == 0 || sink_ == nullptr || !sink_->listening()) return 0;
    if (settings_.frames_per_s == 0.0) return offer(budget);
    budget = due(budget);
    unsigned gone = 0;
    while (gone < budget && remaining_.load(std::memory_order_relaxed) != 0) {
        const std::span<const Frame> frames = next(budget - gone);
        sink_->deliver(frames, WhenFull::drop);
        advance(frames);
        gone += static_cast<unsigned>(frames.size());
    }
    played_ += gone;
    return gone;
}

/// Frames in order up to the end of the input.
std::span<const Frame> PcapWire::next(unsigned budget) const {
    const std::span<const Frame> rest = input_->frames().subspan(position_);
    return rest.first(std::min<std::size_t>(budget, rest.size()));
}

void PcapWire::advance(std::span<const Frame> gone) {
    frames_in_.add(gone.size());
    bytes_in_.add(bytes_of(gone));
    if (settings_.loops != 0)
        remaining_.store(remaining_.load(std::memory_order_relaxed) - gone.size(), std::memory_order_relaxed);
    position_ += gone.size();
    if (position_ != input_->frames().size()) return;
    position_ = 0;
    ++loops_done_;
}

/// The program has had `patience` since its last rule: frames no rule takes may be lost now.
bool PcapWire::settled() {
    const std::uint64_t changes = sink_->rule_changes();
    if (changes != rule_changes_ || !started_) {
        started_ = true;
        rule_changes_ = changes;
        rules_changed_ns_ = clock_ns(CLOCK_MONOTONIC);
        settled_ = false;
    }
    if (!settled_)
        settled_ = clock_ns(CLOCK_MONOTONIC) - rules_changed_ns_ >= settings_.patience_ms * ns_per_ms;
    return settled_;
}

/// Without a rate: what the receiver takes.
unsigned PcapWire::offer(unsigned budget) {
    std::span<const Frame> frames = next(budget);
    if (!settled()) {
        const auto takes = [this](const Frame& frame) { return sink_->takes(frame); };
        const auto stop = std::find_if_not(frames.begin(), frames.end(), takes);
        frames = frames.first(static_cast<std::size_t>(stop - frames.begin()));
    }
    const unsigned gone = frames.empty() ? 0 : sink_->deliver(frames, WhenFull::wait);
    advance(frames.first(gone));
    const bool waits = gone == 0 && remaining_.load(std::memory_order_relaxed) != 0;
    waiting_.store(waits ? 1 : 0, std::memory_order_relaxed);
    return gone;
}

/// With a rate: how many frames the clock says are due.
unsigned PcapWire::due(unsigned budget) {
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!started_) {
        started_ = true;
        start_ns_ = now_ns;
        played_ = 0;
    }
    const double since_start = static_cast<double>(now_ns - start_ns_) * settings_.frames_per_s / ns_per_s;
    const double backlog = std::floor(since_start) - static_cast<double>(played_);
    if (backlog > max_backlog_frames) {
        start_ns_ = now_ns;
        played_ = 0;
        return budget;
    }
    return static_cast<unsigned>(std::clamp(backlog, 0.0, static_cast<double>(budget)));
}

std::vector<std::pair<std::string, std::uint64_t>> PcapWire::counters() const {
    const std::uint64_t remaining = remaining_;
    return {{"frames_in", frames_in_.read()},
            {"bytes_in", bytes_in_.read()},
            {"remaining", remaining},
            {"waiting", waiting_},
            {"finished", remaining == 0 ? 1U : 0U},
            {"frames_out", frames_out_.read()},
            {"bytes_out", bytes_out_.read()}};
}

} // namespace swhca
