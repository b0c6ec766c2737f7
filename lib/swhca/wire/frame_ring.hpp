// SPDX-License-Identifier: BSD-3-Clause
/// A byte ring of frames between two threads or processes: one writer, one reader, no lock.
///
/// A writer publishes a frame by moving `head` after the copy: one that dies, or meets memory that is gone,
/// in between leaves nothing behind. The reader frees what it has used by moving `tail`. Zeroed memory is an
/// empty ring.
#pragma once

#include "swhca/wire/wire.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>

namespace swhca {

/// What stands before a frame; both are padded to 8 bytes.
struct RingFrameHeader {
    std::uint32_t length_bytes; ///< wrap_mark: the rest of the ring is not used
    std::uint32_t note;         ///< the writer's own
    static constexpr std::uint32_t wrap_mark = 0xffffffff;
};

template <std::uint32_t ring_bytes>
struct FrameRing {
    static_assert(ring_bytes % 8 == 0);

    /// Longest frame that is taken; a frame may need as much again at the end of the ring.
    static constexpr std::uint64_t max_frame_bytes = ring_bytes / 2 - sizeof(RingFrameHeader);

    alignas(64) std::atomic<std::uint64_t> head; ///< bytes written, free running
    alignas(64) std::atomic<std::uint64_t> tail; ///< bytes read
    alignas(64) std::byte bytes[ring_bytes];

    /// Writer. False: no room, or the frame is too long for the ring.
    bool write(const Frame& frame, std::uint32_t note) noexcept {
        if (frame.length_bytes > max_frame_bytes) return false;
        const std::uint64_t need = sizeof(RingFrameHeader) + padded(frame.length_bytes);
        std::uint64_t position = head.load(std::memory_order_relaxed);
        const std::uint64_t used = position - tail.load(std::memory_order_acquire);
        std::uint64_t at = position % ring_bytes;
        const std::uint64_t skipped = ring_bytes - at < need ? ring_bytes - at : 0;
        if (used > ring_bytes || ring_bytes - used < need + skipped) return false;
        if (skipped != 0) {
            put_header(at, {RingFrameHeader::wrap_mark, note});
            position += skipped;
            at = 0;
        }
        put_header(at, {frame.length_bytes, note});
        std::byte* out = bytes + at + sizeof(RingFrameHeader);
        for (const Segment& segment : frame.segments) {
            std::memcpy(out, segment.data, segment.length_bytes);
            out += segment.length_bytes;
        }
        head.store(position + need, std::memory_order_release);
        return true;
    }

    /// Reader: the frame at `position`, which moves behind it; null: there is none. Begins at `tail`. The
    /// writer may be another process: nothing in a header is believed that the ring does not bear out; what
    /// makes no sense is skipped.
    const std::byte* read(std::uint64_t& position, RingFrameHeader& header) const noexcept {
        const std::uint64_t end = head.load(std::memory_order_acquire);
        while (position != end) {
            const std::uint64_t at = position % ring_bytes;
            std::memcpy(&header, bytes + at, sizeof header);
            if (header.length_bytes == RingFrameHeader::wrap_mark) {
                position += ring_bytes - at;
                if (end - position > ring_bytes) break;
                continue;
            }
            const std::uint64_t used = sizeof header + padded(header.length_bytes);
            if (used > end - position || at + used > ring_bytes) break;
            position += used;
            return bytes + at + sizeof header;
        }
        position = end;
        return nullptr;
    }

    /// Reader: what lies before `position` is used.
    void release(std::uint64_t position) noexcept { tail.store(position, std::memory_order_release); }

  private:
    static constexpr std::uint64_t padded(std::uint64_t length) noexcept {
        return (length + 7) & ~std::uint64_t{7};
    }
    void put_header(std::uint64_t at, const RingFrameHeader& header) noexcept {
        std::memcpy(bytes + at, &header, sizeof header);
    }
};

} // namespace swhca
