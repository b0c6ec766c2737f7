// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/compression.hpp"

#include <algorithm>

namespace swhca {
namespace {

using prm::Cqe;
using prm::MiniCqe;

constexpr std::uint32_t minis_per_slot = Cqe::bytes / MiniCqe::bytes;

/// What the next packet of the queue will have for wqe_counter.
std::uint32_t counter_after(const void* cqe, std::uint32_t counter, bool striding) noexcept {
    return (counter + (striding ? Cqe::strides::get(cqe) : 1U)) & Cqe::wqe_counter::max;
}

/// A mini-CQE says all that is different. Hash types, packet types, VLAN, WQE of a striding RQ, queue and tag
/// are the title's; a hash is only where the format has one, and nobody's where it has not.
bool can_follow(const Cq& cq, const void* title, const void* cqe, bool striding) noexcept {
    const auto same = [&](auto field) { return decltype(field)::get(title) == decltype(field)::get(cqe); };
    using Types = stride::Field<0x1c, 31, 0>;
    using HashTypes = stride::Field<0x10, 31, 24>;
    if (!same(Types{}) || !same(Cqe::flow_tag{}) || !same(Cqe::user_index{})) return false;
    if (striding && !same(Cqe::wqe_id{})) return false;
    return cq.mini_cqe != MiniCqeFormat::hash || same(HashTypes{});
}

void add_mini(Cq& cq, const void* cqe, std::uint32_t counter) noexcept {
    MiniCqeSession& session = *cq.session;
    std::byte* mini = session.minis[session.count].data();
    if (cq.mini_cqe == MiniCqeFormat::hash) {
        stride::set_dword<MiniCqe::rx_hash_result>(mini, Cqe::rx_hash_result::get(cqe));
    } else {
        const bool indexed = cq.mini_cqe == MiniCqeFormat::csum_stridx;
        stride::set_dword<MiniCqe::checksum, MiniCqe::stride_index>(mini, Cqe::checksum::get(cqe),
                                                                    indexed ? counter : 0);
    }
    stride::set_dword<MiniCqe::byte_count>(mini, Cqe::byte_count::get(cqe));
    ++session.count;
    ++cq.pi;
}

void start_session(Cq& cq, const void* cqe, std::uint32_t counter, bool striding) noexcept {
    MiniCqeSession& session = *cq.session;
    std::byte* const slot = cq_slot(cq, cq.pi);
    session.first = cq.pi;
    session.count = 0;
    if (slot != cqe) std::memcpy(slot, cqe, Cqe::last_dword_offset);
    const be32 last = stride::make_dword<Cqe::wqe_counter>(counter);
    std::memcpy(slot + Cqe::last_dword_offset, &last, sizeof last - 1);
    session.next_counter = counter_after(slot, counter, striding);
    add_mini(cq, slot, counter);
}

/// The owner byte of the title hands the session over.
void publish_title(Cq& cq, bool compressed) noexcept {
    std::byte* const slot = cq_slot(cq, cq.session->first);
    const be32 last = stride::make_dword<Cqe::opcode, Cqe::format, Cqe::owner>(
        static_cast<std::uint32_t>(prm::CqeOpcode::responder_send),
        compressed ? prm::cqe_format_compressed : 0, cq.size.round_parity(cq.session->first));
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof last>>(last);
    stride::store_to_device(slot + Cqe::owner_offset, bytes.back());
}

} // namespace

void* begin_held_cqe(Cq& cq) noexcept {
    MiniCqeSession& session = *cq.session;
    const bool at_ring_start = cq.size.slot(cq.pi) == 0;
    if (session.count == MiniCqeSession::max_count || at_ring_start) end_session(cq);
    std::byte* const place = session.count == 0 ? cq_slot(cq, cq.pi) : session.candidate.data();
    std::memset(place, 0, Cqe::last_dword_offset);
    return place;
}

void publish_held_cqe(Cq& cq, const CqeTail& tail, bool striding) noexcept {
    MiniCqeSession& session = *cq.session;
    const std::uint32_t counter = tail.wqe_counter & Cqe::wqe_counter::max;
    if (session.count == 0) return start_session(cq, cq_slot(cq, cq.pi), counter, striding);
    const void* cqe = session.candidate.data();
    if (counter == session.next_counter && can_follow(cq, cq_slot(cq, session.first), cqe, striding)) {
        session.next_counter = counter_after(cqe, counter, striding);
        return add_mini(cq, cqe, counter);
    }
    end_session(cq);
    start_session(cq, cqe, counter, striding);
}

void end_session(Cq& cq) noexcept {
    MiniCqeSession& session = *cq.session;
    if (session.count == 0) return;
    if (session.count > 1) {
        stride::set_dword<Cqe::byte_count>(cq_slot(cq, session.first), session.count);
        for (std::uint32_t done = 0; done < session.count; done += minis_per_slot) {
            std::byte* const slot = cq_slot(cq, session.first + std::max(done, 1U));
            const std::uint32_t some = std::min(session.count - done, minis_per_slot);
            std::memcpy(slot, &session.minis[done], std::size_t{some} * MiniCqe::bytes);
        }
    }
    publish_title(cq, session.count > 1);
    session.count = 0;
    if (cq.armed) notify_cq(cq, false);
}

} // namespace swhca
