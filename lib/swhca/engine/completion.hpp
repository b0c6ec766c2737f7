// SPDX-License-Identifier: BSD-3-Clause
/// Completion queues: writing CQEs and waking those who wait for them.
#pragma once

#include "base/barrier.hpp"
#include "swhca/engine/dma.hpp"
#include "swhca/hca/objects.hpp"
#include "swhca/prm/cqe.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace swhca {

/// Reads the consumer index anew; a CQ is full if this is false too. Cold: once a round of the ring.
bool refresh_cq_room(Cq& cq) noexcept;

/// A CQE can be written without losing one the program has not read.
inline bool cq_has_room(Cq& cq) noexcept { return cq.pi - cq.ci < cq.size.entries() || refresh_cq_room(cq); }

/// A completion had nowhere to go: the CQ is dead, its owner is told. Idempotent.
void overrun_cq(Cq& cq) noexcept;

/// Sends the event an armed CQ owes for a completion. Cold.
void notify_cq(Cq& cq, bool solicited_or_error) noexcept;

/// Hands over what the CQ holds back (engine/compression.hpp).
void end_session(Cq& cq) noexcept;

/// The next CQE of a CQ, zeroed but for its last dword, to be filled where it lies: an image that is copied
/// would wait for its own stores. The caller has seen cq_has_room, and ends with publish_cqe.
inline void* begin_cqe(Cq& cq) noexcept {
    if (cq.session != nullptr) [[unlikely]]
        end_session(cq);
    std::byte* slot = cq_slot(cq, cq.pi);
    std::memset(slot, 0, prm::Cqe::last_dword_offset);
    return slot;
}

/// What the last dword of a CQE says.
struct CqeTail {
    std::uint32_t wqe_counter{};
    prm::CqeOpcode opcode{};
    bool solicited_or_error{};
};

/// Completes the CQE of begin_cqe and hands it over: owner bit last.
inline void publish_cqe(Cq& cq, const CqeTail& tail) noexcept {
    std::byte* slot = cq_slot(cq, cq.pi);
    const be32 dword = stride::make_dword<prm::Cqe::wqe_counter, prm::Cqe::opcode, prm::Cqe::owner>(
        tail.wqe_counter, tail.opcode, cq.size.round_parity(cq.pi));
    const auto last = std::bit_cast<std::array<std::byte, sizeof dword>>(dword);
    std::memcpy(slot + prm::Cqe::last_dword_offset, last.data(), last.size() - 1);
    // A store of exactly the byte that programs load: what was written before is ordered by it.
    stride::store_to_device(slot + prm::Cqe::owner_offset, last.back());
    ++cq.pi;
    if (cq.armed) [[unlikely]]
        notify_cq(cq, tail.solicited_or_error);
}

/// Looks at the arm word of a CQ with a channel: arms it, or fires at once if completions came meanwhile.
void poll_arm(Cq& cq) noexcept;

/// What an error CQE says.
struct Failure {
    prm::Syndrome syndrome{};
    std::uint8_t vendor_syndrome{}; ///< 1 + number of the broken rule; 0 for flushed work
    std::uint32_t qpn{};
    std::uint32_t user_index{};
    std::uint16_t wqe_counter{};
    std::uint16_t wqe_id{};
    std::uint8_t send_opcode{};
    bool requester{};
};

/// Writes an error CQE, or overruns the CQ.
void write_error_cqe(Cq& cq, const Failure& failure) noexcept;

} // namespace swhca
