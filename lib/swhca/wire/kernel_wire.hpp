// SPDX-License-Identifier: BSD-3-Clause
/// Ethernet wires into the kernel: `wire=tap,dev=NAME` makes a TAP interface, `wire=af_packet,dev=NAME` is
/// plugged into one that exists. Both need the rights the kernel asks for (CAP_NET_ADMIN, CAP_NET_RAW).
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/wire.hpp"

namespace swhca {

class KernelWire final : public Wire {
  public:
    /// Makes the wire `options.wire` names. Errors say what the kernel did not like.
    static stride::Result<std::unique_ptr<Wire>> make(const PortOptions& options);
    /// Takes over `fd`, which does not block and moves one frame a call.
    explicit KernelWire(int fd);
    ~KernelWire() override;
    KernelWire(const KernelWire&) = delete;
    KernelWire& operator=(const KernelWire&) = delete;

    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    int fd_;
    FrameSink* sink_{};
    std::vector<std::byte> buffer_;
    stride::Counter frames_in_{}, frames_out_{}, frames_lost_{};
};

} // namespace swhca
