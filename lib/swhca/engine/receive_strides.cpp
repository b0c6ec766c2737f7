// SPDX-License-Identifier: BSD-3-Clause
/// Striding receive queues: WQEs of many strides, one CQE per packet.
#include "swhca/engine/compression.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/prm/wqe.hpp"

namespace swhca {
namespace {

using prm::Cqe;
using prm::DataSegment;

constexpr std::uint32_t max_filler_strides = Cqe::strides::max;
constexpr std::uint32_t prefetch_strides = 6; ///< how far ahead of the packet being written

std::uint32_t strides_per_wqe(const Rq& rq) noexcept { return 1U << rq.log_strides; }
std::uint64_t wqe_memory_bytes(const Rq& rq) noexcept {
    return std::uint64_t{1} << (rq.log_strides + rq.log_stride_bytes);
}

/// Reads the data segments of WQE ci and checks them: together exactly the WQE's strides, in memory that may
/// be written. On failure the queue is in error.
[[gnu::noinline]] bool load_wqe(Rq& rq) noexcept {
    const MrTable& mrs = rq.context->device->mrs;
    const std::byte* wqe = rq_wqe(rq, rq.ci);
    const std::uint32_t segments = ((1U << rq.log_wqe_bytes) - prm::NextSegment::bytes) / DataSegment::bytes;
    std::uint64_t total = 0;
    rq.parts.clear();
    for (std::uint32_t i = 0; i < segments && total < wqe_memory_bytes(rq); ++i) {
        const std::byte* segment = wqe + prm::NextSegment::bytes + i * DataSegment::bytes;
        const Lkey lkey{DataSegment::lkey::get(segment)};
        const std::uint32_t bytes = DataSegment::byte_count::get(segment);
        if (lkey.value == prm::terminator_lkey || DataSegment::inlined::get(segment) != 0 || bytes == 0)
            break;
        const DmaAnswer answer =
            dma(mrs, rq.pd, {lkey, DataSegment::address::get(segment), bytes}, Access::write);
        if (answer.data == nullptr) {
            fail_receive(rq, answer.broken, prm::Syndrome::local_protection);
            return false;
        }
        rq.parts.push_back({answer.data, bytes, lkey.value});
        total += bytes;
    }
    if (total != wqe_memory_bytes(rq)) {
        fail_receive(rq, Rule::rq_segment, prm::Syndrome::local_qp_operation);
        return false;
    }
    rq.strides = rq.parts.front().data;
    rq.in_parts = rq.parts.size() != 1;
    rq.key_changes = mrs.changes();
    return true;
}

/// What the WQE was looked up by is as it was.
bool is_loaded(const Rq& rq) noexcept {
    return rq.strides != nullptr && rq.key_changes == rq.context->device->mrs.changes();
}

void advance(Rq& rq, std::uint32_t strides, ReceiveTally& tally) noexcept {
    rq.next_stride += strides;
    if (rq.next_stride != strides_per_wqe(rq)) return;
    rq.next_stride = 0;
    rq.strides = nullptr;
    ++rq.ci;
    ++tally.wqes;
}

/// The rest of the WQE has no packet: one CQE says so (several if its stride count doesn't fit the field).
bool write_fillers(Rq& rq, std::uint32_t rest, ReceiveTally& tally) noexcept {
    while (rest != 0) {
        if (!cq_has_room(*rq.cq)) return false;
        const std::uint32_t strides = rest < max_filler_strides ? rest : max_filler_strides;
        void* cqe = begin_cqe(*rq.cq);
        stride::set_dword<Cqe::wqe_id>(cqe, rq.ci);
        stride::set_dword<Cqe::user_index>(cqe, rq.user_index);
        stride::set_dword<Cqe::filler, Cqe::strides>(cqe, 1, strides);
        publish_cqe(*rq.cq, {rq.next_stride, prm::CqeOpcode::responder_send, false});
        ++tally.fillers;
        rest -= strides;
        advance(rq, strides, tally);
    }
    return true;
}

enum class Fit : std::uint8_t { fits, no_buffer, failed };

/// Finds room for `need` strides: in the WQE at ci, or at the start of the next one.
Fit make_room(Rq& rq, std::uint32_t need, ReceiveTally& tally) noexcept {
    for (;;) {
        if (rq.ci == rq.pi) return Fit::no_buffer;
        if (!is_loaded(rq) && !load_wqe(rq)) [[unlikely]]
            return Fit::failed;
        if (rq.next_stride + need <= strides_per_wqe(rq)) return Fit::fits;
        if (!write_fillers(rq, strides_per_wqe(rq) - rq.next_stride, tally)) {
            lose_completion(rq);
            return Fit::failed;
        }
    }
}

void write_packet(Rq& rq, const Arrival& arrival) noexcept {
    static constexpr std::byte zeros[2]{};
    const std::uint32_t shift = rq.two_byte_shift ? sizeof zeros : 0;
    const std::uint32_t offset = rq.next_stride << rq.log_stride_bytes;
    if (!rq.in_parts) [[likely]] {
        std::byte* to = rq.strides + offset;
        const std::uint32_t ahead = rq.next_stride + prefetch_strides;
        if (ahead < strides_per_wqe(rq)) prefetch_write(rq.strides + (ahead << rq.log_stride_bytes));
        if (shift != 0) std::memcpy(to, zeros, sizeof zeros);
        copy_frame(to + shift, rq, arrival);
        return;
    }
    scatter_bytes(rq.parts, offset, {zeros, shift});
    scatter_frame(rq.parts, offset + shift, rq, arrival);
}

} // namespace

void skip_strides(Rq& rq, std::uint32_t strides, ReceiveTally& tally) noexcept {
    const std::uint32_t rest = strides_per_wqe(rq) - rq.next_stride;
    if (rq.next_stride == 0) return;
    if (!write_fillers(rq, strides == 0 || strides > rest ? rest : strides, tally)) lose_completion(rq);
}

Placement place_in_strides(Rq& rq, const Arrival& arrival, ReceiveTally& tally) noexcept {
    const std::uint32_t bytes = received_bytes(rq, arrival);
    const std::uint32_t shifted = bytes + (rq.two_byte_shift ? 2U : 0U);
    const std::uint32_t need = (shifted + (1U << rq.log_stride_bytes) - 1) >> rq.log_stride_bytes;
    if (need > strides_per_wqe(rq) || bytes > Cqe::stride_bytes::max) [[unlikely]] {
        ++tally.oversize;
        return Placement::placed;
    }
    const Fit fit = make_room(rq, need, tally);
    if (fit == Fit::no_buffer) return Placement::no_buffer;
    Cq& cq = *rq.cq;
    if (fit == Fit::failed || cq.overrun || !cq_has_room(cq)) [[unlikely]] {
        if (fit == Fit::fits) lose_completion(rq);
        ++tally.queue_error;
        return Placement::placed;
    }
    prefetch_write(cq_slot(cq, cq.pi + 4));
    write_packet(rq, arrival);
    void* cqe = begin_packet_cqe(cq);
    describe_packet(cqe, rq, arrival);
    stride::set_dword<Cqe::wqe_id>(cqe, rq.ci);
    stride::set_dword<Cqe::strides, Cqe::stride_bytes>(cqe, need, bytes);
    publish_packet_cqe(cq, {rq.next_stride, prm::CqeOpcode::responder_send, false}, true);
    advance(rq, need, tally);
    ++tally.frames;
    tally.bytes += bytes;
    return Placement::placed;
}

} // namespace swhca
