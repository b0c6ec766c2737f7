// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/gen_sink.hpp"

#include "base/be.hpp"

#include <algorithm>
#include <cstring>

namespace swhca {
namespace {

using stride::be16;
using stride::be32;

constexpr std::uint32_t ethertype_offset = 12;
constexpr std::uint32_t tag_bytes = 4;
constexpr std::uint16_t ethertype_vlan = 0x8100;

/// A place in a gather list.
class Cursor {
  public:
    Cursor(const Frame& frame, std::uint32_t offset) noexcept
        : segments_{frame.segments} {
        skip(offset);
    }
    std::uint32_t run() const noexcept {
        return segments_.empty() ? 0 : segments_.front().length_bytes - offset_;
    }
    const std::byte* data() const noexcept { return segments_.front().data + offset_; }
    void skip(std::uint32_t bytes) noexcept {
        offset_ += bytes;
        while (!segments_.empty() && offset_ >= segments_.front().length_bytes) {
            offset_ -= segments_.front().length_bytes;
            segments_ = segments_.subspan(1);
        }
    }

  private:
    std::span<const Segment> segments_;
    std::uint32_t offset_{};
};

bool same_bytes(Cursor a, Cursor b, std::uint32_t bytes) noexcept {
    while (bytes != 0) {
        const std::uint32_t run = std::min({bytes, a.run(), b.run()});
        if (run == 0 || std::memcmp(a.data(), b.data(), run) != 0) return false;
        a.skip(run);
        b.skip(run);
        bytes -= run;
    }
    return true;
}

template <class T>
T read_at(const Frame& frame, std::uint32_t offset) noexcept {
    T value;
    std::memcpy(&value, frame.segments.front().data + offset, sizeof value);
    return value;
}

bool tagged(const Frame& frame) noexcept {
    return read_at<be16>(frame, ethertype_offset).host() == ethertype_vlan;
}

} // namespace

void GenSink::take(std::span<const Frame> frames) noexcept {
    std::uint64_t bytes = 0;
    for (const Frame& frame : frames) {
        bytes += frame.length_bytes;
        if (templates_ != nullptr) check(frame);
    }
    frames_.add(frames.size());
    bytes_.add(bytes);
}

void GenSink::check(const Frame& frame) noexcept {
    // The first template stands for all: either every frame is tagged or none.
    const bool sent_tagged = tagged(templates_->frames().front());
    if (frame.length_bytes < templates_->stamp_offset() + gen_stamp_bytes - (sent_tagged ? tag_bytes : 0))
        return foreign_.add(1);
    const std::uint32_t lost_tag = sent_tagged && !tagged(frame) ? tag_bytes : 0;
    const std::uint32_t stamp = templates_->stamp_offset() - lost_tag;
    if (stamp + gen_stamp_bytes > frame.length_bytes) return foreign_.add(1);
    const std::uint32_t sequence = read_at<be32>(frame, stamp);
    if (sequence != ~read_at<be32>(frame, stamp + 4).host()) return foreign_.add(1);

    account(sequence);
    const Frame& sent = templates_->frames()[sequence % templates_->count()];
    if (frame.length_bytes + lost_tag != sent.length_bytes) return wrong_length_.add(1);
    const std::uint32_t from = ethertype_offset;
    const std::uint32_t behind = stamp + gen_stamp_bytes;
    if (!same_bytes({frame, from}, {sent, from + lost_tag}, stamp - from) ||
        !same_bytes({frame, behind}, {sent, behind + lost_tag}, frame.length_bytes - behind))
        wrong_bytes_.add(1);
}

void GenSink::advance(std::uint32_t to) noexcept {
    const std::uint32_t steps = to - next_;
    if (steps >= window) {
        seen_.reset();
    } else {
        for (std::uint32_t i = 0; i < steps; ++i)
            seen_.reset((next_ + i) % window);
    }
    next_ = to;
}

void GenSink::account(std::uint32_t sequence) noexcept {
    const std::uint32_t ahead = sequence - next_;
    if (!any_ || ahead < 0x80000000U) {
        any_ = true;
        skipped_.add(ahead);
        advance(sequence + 1);
        seen_.set(sequence % window);
        return;
    }
    if (next_ - sequence > window) return too_old_.add(1);
    if (seen_.test(sequence % window)) return duplicates_.add(1);
    seen_.set(sequence % window);
    reordered_.add(1);
}

void GenSink::add_counters(std::vector<std::pair<std::string, std::uint64_t>>& out) const {
    out.emplace_back("sink_frames", frames_.read());
    out.emplace_back("sink_bytes", bytes_.read());
    if (templates_ == nullptr) return;
    out.emplace_back("sink_foreign", foreign_.read());
    out.emplace_back("sink_wrong_length", wrong_length_.read());
    out.emplace_back("sink_wrong_bytes", wrong_bytes_.read());
    out.emplace_back("sink_duplicates", duplicates_.read());
    out.emplace_back("sink_reordered", reordered_.read());
    out.emplace_back("sink_too_old", too_old_.read());
    const std::uint64_t reordered = reordered_.read();
    out.emplace_back("sink_missing", skipped_.read() - reordered);
}

} // namespace swhca
