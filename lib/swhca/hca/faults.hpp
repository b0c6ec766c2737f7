// SPDX-License-Identifier: BSD-3-Clause
/// Faults that a user asked a port for (engine/faults.hpp has the words). Changed while the engine is
/// quiesced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swhca {

/// Something that happens once, after a number of other things.
struct OneFault {
    bool armed{};
    std::uint64_t after{};   ///< things that still go well
    std::uint8_t syndrome{}; ///< of an error CQE
    /// Counts one thing; true if it is the one to fail.
    bool strikes() noexcept {
        if (!armed) return false;
        if (after != 0) return --after, false;
        armed = false;
        return true;
    }
};

struct PortFaults {
    OneFault rx_error{}, tx_error{}, cq_overrun{};
    std::uint32_t filler_every{};   ///< packets between fillers; 0: none
    std::uint32_t filler_strides{}; ///< of one filler at most; 0: the rest of the WQE
    std::uint32_t filler_countdown{};
    std::uint32_t late_passes{}, late_every{}; ///< of so many passes the port sleeps through so many
    std::uint32_t pass{};
};

/// A command to refuse.
struct RefusedCommand {
    std::string name{}; ///< as the ABI has it: REG_MR, CREATE_CQ, ...; empty: any
    OneFault when{};
    int error{};
};

} // namespace swhca
