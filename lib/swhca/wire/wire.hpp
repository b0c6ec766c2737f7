// SPDX-License-Identifier: BSD-3-Clause
/// A wire: what a port is plugged into.
///
/// A frame is a gather list, so that a pair of ports moves it with one copy from sender's buffers to
/// receiver's.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swhca {

struct Segment {
    const std::byte* data;
    std::uint32_t length_bytes;
};

/// A frame on its way, valid during the call that passes it. The first segment holds all headers the receiver
/// parses (min(length, 256) bytes at least).
struct Frame {
    std::span<const Segment> segments;
    std::uint32_t length_bytes{};
    std::uint64_t timestamp_ns{}; ///< 0: now
};

/// What became of an offered frame.
enum class Verdict : std::uint8_t {
    taken,   ///< received or sent
    dropped, ///< gone, counted by the one who dropped it
    busy     ///< no room and the link pauses: offer the same frame again later
};

/// Who takes frames off a wire: a port's receive side.
class FrameSink {
  public:
    virtual ~FrameSink() = default;
    virtual Verdict deliver(const Frame& frame) = 0;
};

/// All calls on the engine's thread, except the constructor and close().
class Wire {
  public:
    virtual ~Wire() = default;
    /// A frame leaves the port.
    virtual Verdict transmit(const Frame& frame) = 0;
    /// Hands up to `budget` waiting frames to `sink`; stops at busy. Returns how many were taken or dropped.
    virtual unsigned poll(FrameSink& sink, unsigned budget) = 0;
    virtual bool link_up() const { return true; }
    /// Flushes files; called at the end of the process, engine stopped.
    virtual void close() {}
    /// Name and value pairs for the report (`frames_in`, `frames_out`, ...).
    virtual std::vector<std::pair<std::string, std::uint64_t>> counters() const { return {}; }
};

/// Options of one port as given: `--port NAME,wire=pcap,in=a.pcap,out=b.pcap,loop=2`.
struct PortOptions {
    std::string name{};
    std::string wire{"pair"};
    std::vector<std::pair<std::string, std::string>> values{};
    const std::string* find(std::string_view key) const noexcept;
};

} // namespace swhca
