// SPDX-License-Identifier: BSD-3-Clause
/// Two ports of one process back to back: what one sends, the other receives at once, with one copy.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/wire.hpp"

namespace swhca {

class PairWire final : public Wire {
  public:
    /// Joins itself to the wire of port `peer_name`, or, if that is empty, to the first wire that is still
    /// alone and names no peer either.
    PairWire(std::string name, std::string peer_name, WhenFull when_full);
    ~PairWire() override;

    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned) override { return 0; }
    /// Up if there is somebody at the far end, plugged in.
    bool link_up() const override {
        return peer_ != nullptr && (peer_->sink_ == nullptr || peer_->plugged());
    }
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    bool joins(const PairWire& other) const;
    bool plugged() const { return sink_ != nullptr && sink_->plugged(); }

    std::string name_, peer_name_;
    WhenFull when_full_;
    PairWire* peer_{};
    FrameSink* sink_{};
    stride::Counter frames_out_{}, bytes_out_{}, frames_lost_{}, frames_in_{}, bytes_in_{};
};

} // namespace swhca
