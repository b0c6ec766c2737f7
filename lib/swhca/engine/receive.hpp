// SPDX-License-Identifier: BSD-3-Clause
/// The receive side of a port: from frames on the wire to strides, scatter lists and CQEs.
#pragma once

#include "swhca/engine/completion.hpp"
#include "swhca/engine/parse.hpp"
#include "swhca/engine/rss.hpp"
#include "swhca/engine/steering.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <span>

namespace swhca {

/// What the pipeline knows of a frame when it reaches its queue.
struct Arrival {
    const Frame* frame{};
    PacketInfo info{};
    RssResult rss{};
    const Destination* destination{}; ///< null: no rule takes it
    std::uint64_t timestamp_ns{};
};

/// What became of a frame at a receive queue.
enum class Placement : std::uint8_t {
    placed,   ///< received (or completed in error, or dropped and counted)
    no_buffer ///< the queue has no WQE
};

/// Counters of one batch, added to the port's once.
struct ReceiveTally {
    std::uint64_t frames{}, bytes{}, wqes{}, fillers{};
    std::uint64_t out_of_buffer{}, steering_miss{}, oversize{}, queue_error{};
};

/// Fills a zeroed CQE with all a receive CQE says of the packet, but counts, WQE index and opcode.
void describe_packet(void* cqe, const Rq& rq, const Arrival& arrival) noexcept;

/// Length in the receive buffer: without the tag a queue strips, with the FCS it scatters.
std::uint32_t received_bytes(const Rq& rq, const Arrival& arrival) noexcept;

/// Copies the frame as `rq` wants it (tag stripped, FCS appended) to contiguous memory of received_bytes.
void copy_frame(std::byte* to, const Rq& rq, const Arrival& arrival) noexcept;
/// ... or over several parts, from `offset` of their sum on.
void scatter_frame(std::span<const MemoryPart> parts, std::uint32_t offset, const Rq& rq,
                   const Arrival& arrival) noexcept;
/// Plain bytes, likewise.
void scatter_bytes(std::span<const MemoryPart> parts, std::uint32_t offset, const Segment& bytes) noexcept;

/// The queue broke a rule at its WQE `ci`: error CQE, queue to error, the rest is flushed.
void fail_receive(Rq& rq, Rule rule, prm::Syndrome syndrome) noexcept;

/// The CQ has no room for what the queue completes: CQ overrun, queue to error.
void lose_completion(Rq& rq) noexcept;

/// Delivers to a striding RQ by the exact rules of strides.
Placement place_in_strides(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept;
/// Delivers to a regular RQ: one WQE, one scatter list, one packet.
Placement place_in_wqe(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept;

/// Completes posted WQEs of a queue in error as flushed, as far as the CQ has room.
void drain(Rq& rq) noexcept;

/// FrameSink of one port.
class Receiver final : public FrameSink {
  public:
    explicit Receiver(Port& port) noexcept
        : port_{port} {}

    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override;
    bool listening() override;
    bool takes(const Frame& frame) override;
    std::uint64_t rule_changes() const override { return port_.flow_changes; }

  private:
    static constexpr unsigned batch_frames = 32;

    void classify(const Frame& frame, Arrival& arrival) noexcept;
    Placement place(const Arrival& arrival) noexcept;
    Placement place_in(Rq& rq, const Arrival& arrival) noexcept;
    void read_doorbell(Rq& rq) noexcept;
    void add_tally() noexcept;

    Port& port_;
    Steering steering_{};
    std::uint32_t batch_{};
    ReceiveTally tally_{};
    std::array<Arrival, batch_frames> arrivals_{};
};

} // namespace swhca
