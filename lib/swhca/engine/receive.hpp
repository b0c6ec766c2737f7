// SPDX-License-Identifier: BSD-3-Clause
/// The receive side of a port: from frames on the wire to strides, scatter lists and CQEs.
#pragma once

#include "swhca/engine/completion.hpp"
#include "swhca/engine/datagram.hpp"
#include "swhca/engine/parse.hpp"
#include "swhca/engine/rss.hpp"
#include "swhca/engine/steering.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <span>

namespace swhca {

/// The device's clock: nanoseconds of CLOCK_MONOTONIC.
std::uint64_t device_clock_ns() noexcept;

/// What the pipeline knows of a frame when it reaches its queue.
struct Arrival {
    const Frame* frame{};       ///< an Ethernet frame, or what an IPoIB packet would be as one
    const Frame* content{};     ///< what goes to memory: the frame, or GRH area and payload
    const Datagram* datagram{}; ///< null: an Ethernet frame
    PacketInfo info{};
    RssResult rss{};
    const Destination* destination{}; ///< null: no rule takes it
    Rq* rq{};                         ///< where `destination` leads; null: nowhere
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
    std::uint64_t bad_pkey{}, bad_qkey{}, no_qp{}, malformed{}, foreign{};
};

/// Fills a zeroed CQE with all a receive CQE says of the packet, but counts, WQE index and opcode.
void describe_packet(void* cqe, const Rq& rq, const Arrival& arrival) noexcept;

/// ... what it says of a datagram.
void describe_datagram(void* cqe, const Arrival& arrival) noexcept;

inline prm::CqeOpcode receive_opcode(const Arrival& arrival) noexcept {
    const bool immediate = arrival.datagram != nullptr && arrival.datagram->has_immediate;
    return immediate ? prm::CqeOpcode::responder_send_immediate : prm::CqeOpcode::responder_send;
}
inline bool is_solicited(const Arrival& arrival) noexcept {
    return arrival.datagram != nullptr && arrival.datagram->solicited;
}

/// Length in the receive buffer: without the tag a queue strips, with the FCS it scatters.
std::uint32_t received_bytes(const Rq& rq, const Arrival& arrival) noexcept;

/// Copies the frame as `rq` wants it (tag stripped, FCS appended) to contiguous memory of received_bytes.
void copy_frame(std::byte* to, const Rq& rq, const Arrival& arrival) noexcept;
/// ... or over several parts, from `offset` of their sum on.
void scatter_frame(std::span<const MemoryPart> parts, std::uint32_t offset, const Rq& rq,
                   const Arrival& arrival) noexcept;
/// Plain bytes, likewise.
void scatter_bytes(std::span<const MemoryPart> parts, std::uint32_t offset, const Segment& bytes) noexcept;

/// What an error CQE says of the queue and its WQE `ci`.
Failure failure_of(const Rq& rq, prm::Syndrome syndrome) noexcept;

/// The queue broke a rule at its WQE `ci`: error CQE, queue to error, the rest is flushed.
void fail_receive(Rq& rq, Rule rule, prm::Syndrome syndrome) noexcept;

/// Strides of WQE `ci` that hold no packet: `strides` of them at most (0: all that are left), as a filler
/// CQE. Nothing if the WQE is not begun.
void skip_strides(Rq& rq, std::uint32_t strides, ReceiveTally& tally) noexcept;

/// A WQE that is there completes in error without having broken a rule; the queue is in error.
void complete_in_error(Rq& rq, prm::Syndrome syndrome, std::uint8_t vendor_syndrome) noexcept;

/// The CQ has no room for what the queue completes: CQ overrun, queue to error.
void lose_completion(Rq& rq) noexcept;

/// Delivers to a striding RQ by the exact rules of strides.
Placement place_in_strides(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept;
/// Delivers to a regular RQ: one WQE, one scatter list, one packet.
Placement place_in_wqe(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept;

/// Delivers to an SRQ on behalf of a UD QP. On a broken WQE the QP is in error.
Placement place_in_srq(Qp& qp, const Arrival& arrival, ReceiveTally& tally) noexcept;

/// Completes posted WQEs of a queue in error as flushed, as far as the CQ has room.
void drain(Rq& rq) noexcept;

/// FrameSink of one port.
class Receiver final : public FrameSink {
  public:
    explicit Receiver(Port& port) noexcept
        : port_{port} {}

    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override;
    bool plugged() const override { return !port_.forced_down.load(std::memory_order_relaxed); }
    bool listening() override;
    bool takes(const Frame& frame) override;
    std::uint64_t rule_changes() const override { return port_.flow_changes; }
    /// A datagram the port sent to itself, or to a group.
    void deliver_own(const Frame& frame);

  private:
    static constexpr std::size_t max_content_segments = 256; ///< more than any sender's frame has
    /// What is made of a datagram while it is delivered.
    struct DatagramWork {
        std::array<Segment, max_content_segments> content_segments, view_segments;
        std::array<std::byte, header_bytes> view_header;
        Frame content, view;
        Datagram datagram;
        bool own; ///< sent by this port
    };

    unsigned deliver_ethernet(std::span<const Frame> frames, WhenFull when_full);
    unsigned deliver_mixed(std::span<const Frame> frames, WhenFull when_full);
    bool take_datagram(const Frame& frame, bool own) noexcept;
    void make_content(const Frame& frame) noexcept;
    void make_view(const Frame& frame) noexcept;
    void place_for_group(Arrival& arrival) noexcept;
    void place_for_qp(Qp& qp, Arrival& arrival) noexcept;
    void place_datagram(Qp& owner, Arrival& arrival) noexcept;
    static constexpr unsigned batch_frames = 32;

    void classify(const Frame& frame, Arrival& arrival) noexcept;
    void classify_batch(std::span<const Frame> frames) noexcept;
    Placement place(const Arrival& arrival) noexcept;
    Placement place_in(Rq& rq, const Arrival& arrival) noexcept;
    Placement look_and_place(Rq& rq, const Arrival& arrival) noexcept;
    Placement place_now(Rq& rq, const Arrival& arrival) noexcept;
    Placement place_under_faults(Rq& rq, const Arrival& arrival) noexcept;
    bool befalls(Rq& rq) noexcept;
    void add_tally() noexcept;

    Port& port_;
    Steering steering_{};
    ReceiveTally tally_{};
    DatagramWork work_{};
    std::array<Arrival, batch_frames> arrivals_{};
};

} // namespace swhca
