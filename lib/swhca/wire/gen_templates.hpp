// SPDX-License-Identifier: BSD-3-Clause
/// The frames of the `gen` wire, prepared: headers in one array, payload behind them shared by all.
///
/// A stamp (sequence number and complement) sits behind the L4 header. As the two sum to 0 in ones'
/// complement, any stamp leaves the L4 checksum right.
#pragma once

#include "swhca/wire/gen_options.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace swhca {

class GenTemplates {
  public:
    explicit GenTemplates(const GenOptions& options);
    GenTemplates(const GenTemplates&) = delete;
    GenTemplates& operator=(const GenTemplates&) = delete;

    /// A power-of-two batch fits: at least 64 different frames, whatever the options.
    std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(frames_.size()); }
    /// Frames in the order they are sent; frame n of the stream is frames()[n % count()].
    std::span<const Frame> frames() const noexcept { return frames_; }
    /// Writes a sequence number into frame `index`. Engine's thread.
    void stamp(std::uint32_t index, std::uint32_t sequence) noexcept;
    /// Where the stamp is, from the start of a frame.
    std::uint32_t stamp_offset() const noexcept { return stamp_offset_; }

  private:
    std::byte* header(std::uint32_t index) noexcept {
        return headers_.front().bytes.data() + static_cast<std::size_t>(index) * pitch_bytes_;
    }
    void build(std::uint32_t index, std::uint32_t length_bytes, const GenOptions& options);

    struct alignas(64) CacheLine {
        std::array<std::byte, 64> bytes;
    };

    std::uint32_t stamp_offset_{};
    std::uint32_t pitch_bytes_{};      ///< from one header to the next
    std::vector<CacheLine> headers_{}; ///< first min(length, header_bytes) bytes of each frame
    std::vector<std::byte> payload_{}; ///< what follows them; same for all
    std::vector<Segment> segments_{};  ///< two for each frame
    std::vector<Frame> frames_{};
};

} // namespace swhca
