// SPDX-License-Identifier: BSD-3-Clause
/// A wire that plays a capture to the port and records what the port sends.
///
/// Without a rate the far end is patient: a frame waits until the receiver has a WQE, input starts only when
/// a rule leads to a ready queue, and as long as the program may still be adding rules (`patience` since the
/// last one) a frame no rule takes waits too. With a rate it is lossy, as a wire is.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/pcap_file.hpp"
#include "swhca/wire/wire.hpp"

#include <atomic>
#include <optional>

namespace swhca {

struct PcapSettings {
    std::uint64_t loops{1}; ///< rounds through the input; 0: for ever
    double frames_per_s{};  ///< 0: as fast as the receiver takes them, losing none
    std::uint64_t patience_ms{3000};
};

class PcapWire final : public Wire {
  public:
    PcapWire(std::optional<Capture> input, std::optional<CaptureWriter> output, PcapSettings settings);

    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    void close() override;
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    unsigned offer(unsigned budget);
    unsigned due(unsigned budget);
    bool settled();
    std::span<const Frame> next(unsigned budget) const;
    void advance(std::span<const Frame> gone);
    void flush_if_idle();

    std::optional<Capture> input_;
    std::optional<CaptureWriter> output_;
    PcapSettings settings_;
    FrameSink* sink_{};
    std::size_t position_{}; ///< next frame of this round
    std::uint64_t loops_done_{};
    std::uint64_t rule_changes_{}, rules_changed_ns_{};
    bool settled_{};
    bool started_{};
    std::uint64_t start_ns_{}; ///< with a rate: when frame 0 was due
    std::uint64_t played_{};   ///< with a rate: frames since start_ns_
    bool unflushed_{};
    std::uint64_t last_write_ns_{};
    unsigned polls_since_look_{};
    stride::Counter frames_in_{}, bytes_in_{}, frames_out_{}, bytes_out_{};
    std::atomic<std::uint64_t> remaining_{}, waiting_{};
};

} // namespace swhca
