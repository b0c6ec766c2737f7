// SPDX-License-Identifier: BSD-3-Clause
/// What the engine keeps for one port.
#pragma once

#include "swhca/engine/disorder.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/engine/transmit.hpp"
#include "swhca/hca/port.hpp"

namespace swhca {

class PortUnit {
  public:
    explicit PortUnit(Port& port)
        : port_{port}
        , receiver_{port}
        , transmitter_{port, receiver_} {
        if (port.wire) port.wire->attach(receiver_);
    }

    /// One round: sends, receives, flushes queues in error, wakes who waits. Returns frames moved.
    unsigned pass(unsigned budget) {
        if (!port_.wire || (port_.faults != nullptr && sleeps(*port_.faults))) return 0;
        unsigned moved = 0;
        if (receiver_.plugged()) [[likely]] {
            if (!port_.senders.empty()) moved += transmitter_.run(budget);
            moved += port_.wire->poll(budget);
        } else {
            (void)port_.wire->poll(budget); // what still comes is lost (Receiver::deliver)
        }
        if (moved == 0 && port_.faults != nullptr) [[unlikely]]
            release_held(*port_.faults);
        for (Rq* rq : port_.draining)
            drain(*rq);
        for (Cq* cq : port_.notifying)
            poll_arm(*cq);
        return moved;
    }

    /// The plug was pulled: what was on its way is lost, even if it is put back before the next pass.
    void lose_arrivals() {
        constexpr unsigned most_polls = 1U << 16; // a kernel's interface may never fall silent
        for (unsigned polls = 0; polls < most_polls && port_.wire->poll(pass_frames) != 0; ++polls) {
        }
    }
    const Port& port() const noexcept { return port_; }

    /// After a pass that was left in the middle, by a fault of the program's memory.
    void recover() noexcept {
        if (port_.faults != nullptr && port_.faults->disorder) end_aside(*port_.faults->disorder);
    }

  private:
    static constexpr unsigned pass_frames = 64;

    static bool sleeps(PortFaults& faults) noexcept {
        if (faults.late_every == 0) return false;
        if (++faults.pass >= faults.late_every) faults.pass = 0;
        return faults.pass < faults.late_passes;
    }

    Port& port_;
    Receiver receiver_;
    Transmitter transmitter_;
};

} // namespace swhca
