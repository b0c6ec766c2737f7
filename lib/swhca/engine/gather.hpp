// SPDX-License-Identifier: BSD-3-Clause
/// Reading send WQEs: from a ring of segments to a batch of frames.
#pragma once

#include "swhca/engine/dma.hpp"
#include "swhca/prm/cqe.hpp"
#include "swhca/prm/wqe.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace swhca {

/// A WQE whose frames are in the batch.
struct GatheredWqe {
    std::uint16_t index{}; ///< of its first WQEBB
    std::uint16_t wqebbs{};
    std::uint16_t first_frame{}; ///< in the batch
    std::uint16_t frames{};      ///< in the batch; 0 for NOP
    bool whole{};                ///< its last frame is in the batch
    bool completion{};           ///< asks for a CQE
    bool solicited{};
    std::uint8_t opcode{};
};

/// Why a WQE can't be executed.
struct GatherFault {
    Rule rule{};
    prm::Syndrome syndrome{prm::Syndrome::none}; ///< none: no fault
    explicit operator bool() const noexcept { return syndrome != prm::Syndrome::none; }
};

/// Storage of a batch: made once, used for every queue in turn.
struct GatherBatch {
    static constexpr unsigned max_frames = 64;
    static constexpr unsigned max_segments = 512;
    static constexpr unsigned max_wqes = 64;
    /// Headers rebuilt for a frame: header_bytes, an inserted tag, room to copy in DS.
    static constexpr unsigned scratch_bytes = header_bytes + 64;

    std::array<Frame, max_frames> frames;
    std::array<Segment, max_segments> segments;
    std::array<GatheredWqe, max_wqes> wqes;
    std::array<std::array<std::byte, scratch_bytes>, max_frames> scratch;
    unsigned frame_count{}, segment_count{}, wqe_count{};
    GatherFault fault{}; ///< of the WQE after the last gathered one

    void clear() noexcept {
        frame_count = segment_count = wqe_count = 0;
        fault = {};
    }
    /// Another frame of any shape fits.
    bool has_room() const noexcept {
        return frame_count < max_frames && segment_count + prm::max_ds * 2 < max_segments;
    }
};

/// Fills the batch from the QP's posted WQEs, from WQE ci and its frame `frames_done` on, with up to `budget`
/// frames. Stops before a WQE that breaks a rule and says so in `fault`.
void gather(const Qp& qp, unsigned budget, GatherBatch& batch) noexcept;

} // namespace swhca
