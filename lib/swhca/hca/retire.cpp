// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/retire.hpp"

#include "swhca/engine/queues.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/hca/user_memory.hpp"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <deque>

namespace swhca {
namespace {

constexpr std::uint64_t page_bytes = 4096;

class Retirement {
  public:
    explicit Retirement(std::uint64_t address)
        : page_{address & ~(page_bytes - 1)} {}

    void context(Context& context);
    unsigned retired() const noexcept { return retired_; }

  private:
    bool lies_in(std::uint64_t start, std::uint64_t length_bytes) const noexcept {
        return start < page_ + page_bytes && start + length_bytes > page_;
    }
    bool lies_in(const void* start, std::uint64_t length_bytes) const noexcept {
        return start != nullptr && lies_in(std::bit_cast<std::uint64_t>(start), length_bytes);
    }
    static std::byte* stand_in(Context& context, std::size_t length_bytes);
    void region(Context& context, const Mr& mr);
    void completion_queue(Context& context, Cq& cq);
    bool receive_queue(Context& context, Rq& rq);
    bool send_queue(Context& context, Qp& qp);
    void shared_queue(Context& context, Srq& srq);
    void queue_pair(Context& context, Qp& qp);

    std::uint64_t page_;
    unsigned retired_{};
};

/// Zeroed memory for as long as the context lives.
std::byte* Retirement::stand_in(Context& context, std::size_t length_bytes) {
    constexpr std::size_t alignment = 64;
    const std::size_t bytes = (length_bytes + alignment - 1) / alignment * alignment;
    auto& made = context.stand_ins.emplace_back(new (std::align_val_t{alignment}) std::byte[bytes]{});
    return made.get();
}

void Retirement::region(Context& context, const Mr& mr) {
    if (!lies_in(mr.start, mr.length_bytes) || !context.device->mrs.remove(mr.lkey)) return;
    broken(Rule::ring_memory, "memory region 0x%x at 0x%llx", mr.lkey.value,
           static_cast<unsigned long long>(mr.start));
    ++retired_;
}

void Retirement::completion_queue(Context& context, Cq& cq) {
    const std::size_t ring_bytes = std::size_t{cq.size.entries()} * cq.cqe_bytes;
    if (!lies_in(cq.ring, ring_bytes) && !lies_in(cq.dbrec, 2 * sizeof(be32))) return;
    broken(Rule::ring_memory, "CQ 0x%x", cq.cqn.value);
    cq.ring = stand_in(context, ring_bytes);
    cq.dbrec = reinterpret_cast<be32*>(stand_in(context, 2 * sizeof(be32)));
    cq.dbrec[1] = be32{cq.armed_dbrec};
    cq.armed = false;
    cq.overrun = true;
    if (send_async_event(context, AsyncEvent::cq_error, cq.user_handle)) ++cq.async_events;
    ++retired_;
}

/// Nothing is posted there any more.
bool Retirement::receive_queue(Context& context, Rq& rq) {
    const std::size_t ring_bytes = std::size_t{rq.size.entries()} << rq.log_wqe_bytes;
    rq.strides = nullptr; // the region under them may be the one that went
    if (!lies_in(rq.ring, ring_bytes) && !lies_in(rq.dbrec, sizeof(be32))) return false;
    broken(Rule::ring_memory, "RQ 0x%x", rq.wqn.value);
    rq.ring = stand_in(context, ring_bytes);
    rq.dbrec = reinterpret_cast<be32*>(stand_in(context, sizeof(be32)));
    rq.dbrec[0] = be32{rq.ci};
    rq.pi = rq.ci;
    ++retired_;
    return true;
}

bool Retirement::send_queue(Context& context, Qp& qp) {
    Sq& sq = qp.sq;
    const std::size_t ring_bytes = std::size_t{sq.size.entries()} * 64;
    if (!lies_in(sq.ring, ring_bytes) && !lies_in(sq.dbrec, sizeof(be32))) return false;
    broken(Rule::ring_memory, "send queue of QP 0x%x", qp.qpn.value);
    sq.ring = stand_in(context, ring_bytes);
    sq.dbrec = reinterpret_cast<be32*>(stand_in(context, sizeof(be32)));
    sq.dbrec[0] = be32{sq.ci};
    sq.pi = sq.ci;
    sq.frames_done = 0;
    ++retired_;
    return true;
}

void Retirement::shared_queue(Context& context, Srq& srq) {
    const std::size_t ring_bytes = std::size_t{srq.size.entries()} << srq.log_wqe_bytes;
    if (!lies_in(srq.ring, ring_bytes) && !lies_in(srq.dbrec, sizeof(be32))) return;
    broken(Rule::ring_memory, "SRQ 0x%x", srq.srqn);
    srq.ring = stand_in(context, ring_bytes);
    srq.dbrec = reinterpret_cast<be32*>(stand_in(context, sizeof(be32)));
    srq.dbrec[0] = be32{srq.ci};
    srq.pi = srq.ci;
    if (send_async_event(context, AsyncEvent::srq_error, srq.user_handle)) ++srq.async_events;
    ++retired_;
}

void Retirement::queue_pair(Context& context, Qp& qp) {
    bool dead = qp.sq.ring != nullptr && send_queue(context, qp);
    if (qp.rq && receive_queue(context, *qp.rq)) dead = true;
    if (!dead) return;
    set_qp_state(qp, QueueState::error);
    if (send_async_event(context, AsyncEvent::qp_fatal, qp.user_handle)) ++qp.async_events;
}

void Retirement::context(Context& context) {
    for (const auto& [handle, mr] : context.mrs)
        region(context, *mr);
    for (const auto& [handle, cq] : context.cqs)
        completion_queue(context, *cq);
    for (const auto& [handle, srq] : context.srqs)
        shared_queue(context, *srq);
    for (const auto& [handle, qp] : context.qps)
        queue_pair(context, *qp);
    for (const auto& [handle, wq] : context.wqs) {
        if (!receive_queue(context, *wq)) continue;
        set_rq_state(*wq, QueueState::error, context.device->port);
        if (send_async_event(context, AsyncEvent::wq_fatal, wq->user_handle)) ++wq->async_events;
    }
}

} // namespace

bool retire_memory(Hca& hca, const Engine& own, const void* address) {
    // Of two engines that fault at the same time one gets the lock, and the other, trying again, is paused.
    const std::unique_lock lock{hca.commands, std::try_to_lock};
    if (!lock.owns_lock()) return false;
    std::deque<Engine::Quiesced> others;
    for (const auto& engine : hca.engines)
        if (engine.get() != &own) others.emplace_back(*engine);
    const auto number = std::bit_cast<std::uint64_t>(address);
    Retirement retirement{number};
    for (const auto& device : hca.devices)
        for (const auto& context : device->contexts)
            retirement.context(*context);
    if (retirement.retired() != 0 || is_mapped(number, 1, true)) return true;
    std::fprintf(stderr, "swhca: the engine faulted at %p, where no object of the program lies\n", address);
    std::abort();
}

} // namespace swhca
