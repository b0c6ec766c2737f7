// SPDX-License-Identifier: BSD-3-Clause
/// Faults that a user asked a port for (engine/faults.hpp has the words). Changed while the engine is
/// quiesced.
#pragma once

#include "swhca/hca/objects.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
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

/// Completions of a packet that are held back until those of the next one are written (engine/disorder.hpp).
struct Disorder {
    static constexpr std::uint32_t log_room = 6; ///< CQEs of one packet: its own and fillers
    struct alignas(64) Line {
        std::array<std::byte, 64> bytes;
    };
    std::uint32_t every{}; ///< of so many packets one
    std::uint32_t countdown{};
    Rq* held{};     ///< queue whose completions wait in `aside`; null: none do
    Rq* borrower{}; ///< queue that completes to `aside` for the moment, instead of to `borrowed`
    Cq* borrowed{};
    Cq aside{};
    std::array<Line, 1U << log_room> ring{};
    std::array<be32, 2> record{};
};

/// What the CQE of a send WQE says beside what its queue does.
struct SendCompletion {
    std::uint16_t index{}; ///< of its first WQEBB
    std::uint8_t opcode{};
    bool solicited{};
};

/// The same of send WQEs: one completion waits for the next one of its CQ.
struct SendDisorder {
    std::uint32_t every{}; ///< of so many completions one; 0: none
    std::uint32_t countdown{};
    Qp* held{}; ///< whose completion waits; null: nobody's
    SendCompletion completion{};
};

struct PortFaults {
    OneFault rx_error{}, tx_error{}, cq_overrun{};
    std::unique_ptr<Disorder> disorder{};
    SendDisorder tx_disorder{};
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
