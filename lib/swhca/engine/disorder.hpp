// SPDX-License-Identifier: BSD-3-Clause
/// Completions in another order than their packets: the fault `disorder`.
///
/// Of a packet that is chosen the CQEs are written aside, and come after those of the next packet for the
/// same CQ, or when nothing more comes. All calls on the engine's thread or quiesced.
#pragma once

#include "swhca/hca/faults.hpp"

namespace swhca {

/// Counts a packet for `rq`. True if its completions are to be held back: `rq` completes aside until
/// end_aside().
bool begin_aside(Disorder& disorder, Rq& rq) noexcept;
void end_aside(Disorder& disorder) noexcept;

/// Writes what is held back.
void release_held(Disorder& disorder) noexcept;

/// Before `rq` forgets what it has received: so do its completions.
void drop_held(Disorder& disorder, const Rq& rq) noexcept;

} // namespace swhca
