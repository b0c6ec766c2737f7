// SPDX-License-Identifier: BSD-3-Clause
/// A wire: what a port is plugged into.
///
/// Frames travel in batches of gather lists, so that a pair of ports moves them with one copy from sender's
/// buffers to receiver's and one virtual call for many frames.
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

/// What travels on a wire. `ethernet` frames begin with the destination MAC, `infiniband` ones with the LRH
/// and end with ICRC and VCRC (zeros), `opa` ones with the 16B header of Omni-Path.
enum class WireFormat : std::uint8_t { ethernet, infiniband, opa };

struct Segment {
    const std::byte* data;
    std::uint32_t length_bytes;
};

/// Bytes a receiver may parse without walking the gather list.
constexpr std::uint32_t header_bytes = 256;

/// A frame on its way, valid during the call that passes it. The first segment holds min(length,
/// header_bytes) bytes at least.
struct Frame {
    std::span<const Segment> segments;
    std::uint32_t length_bytes{};
};

/// What a receiver without a WQE does with the next frame.
enum class WhenFull : std::uint8_t {
    drop, ///< drops and counts it, as silicon without flow control
    wait  ///< leaves it to the wire, as under 802.3x pause
};

/// Who takes frames off a wire: a port's receive side. All calls on the thread of the port's engine.
class FrameSink {
  public:
    virtual ~FrameSink() = default;
    /// Offers frames in order. Returns how many, from the front, are gone: received, or dropped and counted.
    /// Fewer than offered only under `wait`: offer the rest again later.
    virtual unsigned deliver(std::span<const Frame> frames, WhenFull when_full) = 0;
    /// The port is plugged in: what comes while it is not is lost. Any thread.
    virtual bool plugged() const { return true; }
    /// A rule leads to a queue that is ready.
    virtual bool listening() = 0;
    /// A rule takes this frame.
    virtual bool takes(const Frame& frame) = 0;
    /// Counts additions and removals of rules.
    virtual std::uint64_t rule_changes() const = 0;
};

/// All calls on the thread of the port's engine, except constructor, attach, close (engine stopped) and
/// counters (any thread).
class Wire {
  public:
    virtual ~Wire() = default;
    /// Tells where received frames go. Once, before the engine starts.
    virtual void attach(FrameSink& sink) = 0;
    /// Frames leave the port, in order. Returns how many, from the front, are gone (sent, or dropped and
    /// counted); fewer than offered if the far end pauses.
    virtual unsigned transmit(std::span<const Frame> frames) = 0;
    /// Hands up to `budget` waiting frames to the sink. Returns how many are gone.
    virtual unsigned poll(unsigned budget) = 0;
    virtual bool link_up() const { return true; }
    /// Flushes files; called at the end of the process.
    virtual void close() {}
    /// Name and value pairs for the report (`frames_in`, `frames_out`, ...).
    virtual std::vector<std::pair<std::string, std::uint64_t>> counters() const { return {}; }
};

/// Options of one port as given: `--port NAME,wire=pcap,in=a.pcap,out=b.pcap,loop=2`.
struct PortOptions {
    std::string name{};
    std::string wire{"pair"};
    WireFormat format{WireFormat::ethernet}; ///< what the port speaks; taps and switches must know
    WhenFull when_full{WhenFull::drop};      ///< of a far end that is full (`pause=on`: it is waited for)
    unsigned engines{1};                     ///< threads that serve the ports of this process
    std::vector<std::pair<std::string, std::string>> values{};
    const std::string* find(std::string_view key) const noexcept;
};

} // namespace swhca
