// SPDX-License-Identifier: BSD-3-Clause
/// The send side of a port: from doorbells and WQEs to frames on the wire and CQEs.
#pragma once

#include "swhca/engine/completion.hpp"
#include "swhca/engine/gather.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/hca/port.hpp"
#include "swhca/wire/wire.hpp"

namespace swhca {

class Transmitter {
  public:
    /// `self`: the port's own receive side, for what it sends to itself.
    Transmitter(Port& port, Receiver& self)
        : port_{port}
        , self_{self} {}

    /// Serves every sender of the port once, up to `budget` frames in all. Returns frames that left.
    unsigned run(unsigned budget);

  private:
    unsigned attend(Sender& sender, unsigned budget);
    bool read_doorbell(Sender& sender) noexcept;
    void check_doorbell(Qp& qp, std::uint64_t value) noexcept;
    bool accept_producer_index(Qp& qp) noexcept;
    unsigned send_frames(const Qp& qp);
    unsigned send_datagrams(std::span<const Frame> frames);
    unsigned serve(Qp& qp, unsigned budget);
    void complete(Qp& qp, unsigned frames_gone);
    bool complete_wqe(Qp& qp, const GatheredWqe& wqe) noexcept;
    bool complete_under_faults(Qp& qp, const SendCompletion& completion) noexcept;

    Port& port_;
    Receiver& self_;
    GatherBatch batch_{};
    std::size_t first_sender_{}; ///< the round starts after the one that used the budget up
};

/// The QP broke a rule at its WQE ci: error CQE, send queue and QP to error.
void fail_send(Qp& qp, const GatherFault& fault) noexcept;

/// Writes the CQE of a send WQE; false if the CQ is full and the queue thereby dead.
bool write_send_cqe(Qp& qp, const SendCompletion& completion) noexcept;

/// A fault asked for it: likewise, but no rule is broken.
void complete_send_in_error(Qp& qp, prm::Syndrome syndrome, std::uint8_t vendor_syndrome) noexcept;

/// Completes posted WQEs of a send queue in error as flushed, as far as the CQ has room.
void flush_sends(Qp& qp) noexcept;

} // namespace swhca
