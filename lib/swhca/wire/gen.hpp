// SPDX-License-Identifier: BSD-3-Clause
/// The `gen` wire: a traffic generator in front of the port's receive side, a sink behind its send side.
///
/// Without rate= it pauses as the `pcap` wire does: nothing before a rule takes its frames, and a frame
/// without a receive WQE waits. With rate= it is lossy and waits for nobody.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/gen_sink.hpp"
#include "swhca/wire/gen_templates.hpp"
#include "swhca/wire/wire.hpp"

#include <chrono>
#include <cstdint>

namespace swhca {

class GenWire final : public Wire {
  public:
    explicit GenWire(const GenOptions& options);

    void attach(FrameSink& sink) override { receiver_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    using Clock = std::chrono::steady_clock;

    /// Frames that may go now: what count= and rate= leave of `budget`.
    unsigned allowed(unsigned budget) noexcept;
    bool wanted();
    unsigned send(unsigned count);

    GenOptions options_;
    GenTemplates templates_;
    GenSink sink_;
    FrameSink* receiver_{};
    std::uint64_t sent_{}; ///< the next frame's number
    std::uint32_t next_template_{};
    bool taken_{}; ///< a rule takes the generator's frames, as of rules_seen_
    std::uint64_t rules_seen_{~0ULL};
    Clock::time_point begun_{}; ///< of the rate
    stride::Counter frames_in_{}, bytes_in_{}, waits_{};
};

/// Makes the wire `options` describe.
stride::Result<std::unique_ptr<Wire>> make_gen_wire(const PortOptions& options);

} // namespace swhca
