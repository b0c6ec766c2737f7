// SPDX-License-Identifier: BSD-3-Clause
/// What the control plane asks of the engine about a queue: its state machine's effect on packets.
///
/// All calls under Engine::Quiesced. None of them touches the program's rings; what has to be written there
/// (flush CQEs) is written by the engine's next pass.
#pragma once

#include "swhca/hca/objects.hpp"
#include "swhca/hca/port.hpp"

namespace swhca {

/// A CQ was created: indices to 0, and the arm word (dbrec[1]) poisoned, because the first value a program
/// arms with is the one the record starts with. Events need `cq.channel`.
void open_cq(Cq& cq, Port& port);
/// Before a CQ is destroyed.
void close_cq(Cq& cq, Port& port);

/// Moves a receive queue to `to`: `reset` forgets WQEs and indices, `ready` receives, `error` flushes what is
/// posted now and later. Sets rq.state and rq.port.
void set_rq_state(Rq& rq, QueueState to, Port& port);
/// Before a receive queue is destroyed.
void close_rq(Rq& rq, Port& port);

/// Moves a QP with both its halves to `to`, and in or out of port.senders: receives from `rtr` on, sends in
/// `ready` (RTS), flushes both halves in `error`. Sets qp.state, qp.sq.state and qp.rq->state; needs qp.port.
void set_qp_state(Qp& qp, QueueState to);
/// Before an SRQ is used: forgets what was posted.
void open_srq(Srq& srq);
/// Before a QP is destroyed.
void close_qp(Qp& qp);

/// Number of the asynchronous events the engine sends (enum ib_event_type of the kernel's uapi).
enum class AsyncEvent : std::uint32_t {
    cq_error = 0,
    qp_fatal = 1,
    device_fatal = 8,
    port_active = 9,
    port_error = 10,
    srq_error = 14,
    srq_limit = 15,
    last_wqe = 16,
    wq_fatal = 19
};

/// Writes an asynchronous event to the context's channel; `element` is the object's user handle. Returns
/// whether it was written (then the object's async_events counts it). Engine's thread or quiesced.
bool send_async_event(Context& context, AsyncEvent event, std::uint64_t element);

} // namespace swhca
