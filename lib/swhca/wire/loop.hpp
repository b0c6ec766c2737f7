// SPDX-License-Identifier: BSD-3-Clause
/// A loopback plug: what a port sends comes back to it.
///
/// For programs that open one device twice and talk to themselves, as rdma-core's Python tests do.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/wire.hpp"

namespace swhca {

class LoopWire final : public Wire {
  public:
    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override {
        const unsigned gone =
            sink_ != nullptr ? sink_->deliver(frames, WhenFull::drop) : static_cast<unsigned>(frames.size());
        frames_.add(gone);
        return gone;
    }
    unsigned poll(unsigned) override { return 0; }
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override {
        return {{"frames_looped", frames_.read()}};
    }

  private:
    FrameSink* sink_{};
    stride::Counter frames_{};
};

} // namespace swhca
