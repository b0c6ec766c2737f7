// SPDX-License-Identifier: BSD-3-Clause
/// Completions in another order than their packets: the faults `disorder` and `tx_disorder`.
///
/// Of a packet that is chosen the CQEs are written aside, and come after those of the next packet for the
/// same CQ, or when nothing more comes; likewise that of a send WQE. All calls on the engine's thread or
/// quiesced.
#pragma once

#include "swhca/hca/faults.hpp"

namespace swhca {

/// Counts a packet for `rq`. True if its completions are to be held back: `rq` completes aside until
/// end_aside().
bool begin_aside(Disorder& disorder, Rq& rq) noexcept;
void end_aside(Disorder& disorder) noexcept;

/// Counts a completion of a send WQE. True if it is held back.
bool put_aside(SendDisorder& disorder, Qp& qp, const SendCompletion& completion) noexcept;

/// Writes what is held back.
void release_held(Disorder& disorder) noexcept;
void release_held(SendDisorder& disorder) noexcept;
void release_held(PortFaults& faults) noexcept;

/// Before a queue forgets what it has received or sent: so do its completions.
void drop_held(const Rq& rq) noexcept;
void drop_held(const Qp& qp) noexcept;

} // namespace swhca
