// SPDX-License-Identifier: BSD-3-Clause
/// Regular receive queues: one WQE, one packet.
#include "swhca/engine/compression.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/prm/wqe.hpp"

#include <array>

namespace swhca {
namespace {

using prm::Cqe;
using prm::DataSegment;

constexpr std::uint32_t max_wqe_parts = 64; ///< more than max_sge of any queue

/// The scatter list of a WQE.
struct ScatterList {
    std::array<MemoryPart, max_wqe_parts> parts;
    std::uint32_t count{};
    std::uint64_t room_bytes{};
    Rule broken{};
    bool ok{true};
};

void read_list(const Rq& rq, std::uint32_t need_bytes, ScatterList& list) noexcept {
    const MrTable& mrs = rq.context->device->mrs;
    const std::byte* wqe = rq_wqe(rq, rq.ci);
    const std::uint32_t segments = (1U << rq.log_wqe_bytes) / DataSegment::bytes;
    for (std::uint32_t i = 0; i < segments && i < max_wqe_parts && list.room_bytes < need_bytes; ++i) {
        const std::byte* segment = wqe + i * DataSegment::bytes;
        const Lkey lkey{DataSegment::lkey::get(segment)};
        if (lkey.value == prm::terminator_lkey) return;
        const std::uint32_t bytes = DataSegment::byte_count::get(segment);
        if (bytes == 0 || DataSegment::inlined::get(segment) != 0) {
            list.broken = Rule::rq_segment;
            list.ok = false;
            return;
        }
        const DmaAnswer answer =
            dma(mrs, rq.pd, {lkey, DataSegment::address::get(segment), bytes}, Access::write);
        if (answer.data == nullptr) {
            list.broken = answer.broken;
            list.ok = false;
            return;
        }
        list.parts[list.count++] = {answer.data, bytes, lkey.value};
        list.room_bytes += bytes;
    }
}

/// Lines the next packets will be written to: the WQE a few ahead is read and its buffer fetched.
void prefetch_ahead(const Rq& rq) noexcept {
    constexpr std::uint16_t ahead = 4;
    if (static_cast<std::uint16_t>(rq.pi - rq.ci) <= ahead) return;
    const std::byte* segment = rq_wqe(rq, static_cast<std::uint16_t>(rq.ci + ahead));
    const std::uint64_t address = DataSegment::address::get(segment);
    prefetch_write(reinterpret_cast<const void*>(address)); // NOLINT(performance-no-int-to-ptr): never read
    prefetch_read(rq_wqe(rq, static_cast<std::uint16_t>(rq.ci + 2 * ahead)));
}

} // namespace

Placement place_in_wqe(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept {
    if (rq.ci == rq.pi) return Placement::no_buffer;
    Cq& cq = *rq.cq;
    if (cq.overrun || !cq_has_room(cq)) [[unlikely]] {
        lose_completion(rq);
        ++tally.queue_error;
        return Placement::placed;
    }
    const std::uint32_t bytes = received_bytes(rq, arrival);
    ScatterList list;
    read_list(rq, bytes, list);
    if (!list.ok) [[unlikely]] {
        const bool malformed = list.broken == Rule::rq_segment;
        fail_receive(rq, list.broken,
                     malformed ? prm::Syndrome::local_qp_operation : prm::Syndrome::local_protection);
        ++tally.queue_error;
        return Placement::placed;
    }
    if (list.room_bytes < bytes) [[unlikely]] {
        // The WQE completes in error, the queue goes on.
        write_error_cqe(*rq.cq, failure_of(rq, prm::Syndrome::local_length));
        ++rq.ci;
        ++tally.oversize;
        ++tally.wqes;
        return Placement::placed;
    }
    prefetch_write(cq_slot(cq, cq.pi + 4));
    prefetch_ahead(rq);
    if (list.count == 1) {
        copy_frame(list.parts[0].data, rq, arrival);
    } else {
        scatter_frame({list.parts.data(), list.count}, 0, rq, arrival);
    }
    const bool plain = arrival.datagram == nullptr;
    void* cqe = plain ? begin_packet_cqe(cq) : begin_cqe(cq);
    describe_packet(cqe, rq, arrival);
    stride::set_dword<Cqe::byte_count>(cqe, bytes);
    const CqeTail tail{rq.ci, receive_opcode(arrival), is_solicited(arrival)};
    if (plain)
        publish_packet_cqe(cq, tail, false);
    else
        publish_cqe(cq, tail);
    ++rq.ci;
    ++tally.wqes;
    ++tally.frames;
    tally.bytes += bytes;
    return Placement::placed;
}

} // namespace swhca
