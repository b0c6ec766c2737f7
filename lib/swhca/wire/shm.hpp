// SPDX-License-Identifier: BSD-3-Clause
/// A switch between processes: `wire=shm,fabric=NAME`. Every port learns for itself behind whose place an
/// address is; what it has not learned, and groups, go to all others.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/addresses.hpp"
#include "swhca/wire/shm_segment.hpp"
#include "swhca/wire/wire.hpp"

#include <atomic>
#include <optional>
#include <unordered_map>

namespace swhca {

class ShmWire final : public Wire {
  public:
    static stride::Result<std::unique_ptr<Wire>> make(const PortOptions& options);
    ShmWire(ShmSegment segment, WireFormat format, WhenFull when_full);

    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    void close() override { segment_.reset(); }
    // The link is to the switch, whoever else is plugged in: programs (perftest) want it up before their peer
    // comes.
    bool link_up() const override { return true; }
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    bool send_to(std::uint32_t place, const Frame& frame);
    bool send(const Frame& frame);
    void look_around();

    std::optional<ShmSegment> segment_; ///< gone after close()
    WireFormat format_;
    WhenFull when_full_;
    FrameSink* sink_{};
    std::unordered_map<std::uint64_t, std::uint32_t> table_{}; ///< address to place
    std::uint32_t flooded_{}; ///< places before this one have the frame that goes to all
    unsigned polls_since_look_{};
    std::atomic<std::uint32_t> others_{};
    stride::Counter frames_out_{}, frames_in_{}, frames_lost_{};
};

} // namespace swhca
