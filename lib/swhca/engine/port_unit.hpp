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
        if (!port_.forced_down.load(std::memory_order_relaxed)) [[likely]] {
            if (!port_.senders.empty()) moved += transmitter_.run(budget);
            moved += port_.wire->poll(budget);
        }
        if (moved == 0 && port_.faults != nullptr && port_.faults->disorder) [[unlikely]]
            release_held(*port_.faults->disorder);
        for (Rq* rq : port_.draining)
            drain(*rq);
        for (Cq* cq : port_.notifying)
            poll_arm(*cq);
        return moved;
    }

    /// After a pass that was left in the middle, by a fault of the program's memory.
    void recover() noexcept {
        if (port_.faults != nullptr && port_.faults->disorder) end_aside(*port_.faults->disorder);
    }

  private:
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
