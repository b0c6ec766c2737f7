// SPDX-License-Identifier: BSD-3-Clause
/// The shared memory behind `wire=shm`: a place for each port, with a ring of what others sent it.
///
/// A place belongs to whoever holds a file lock on its byte (F_OFD_SETLK), which the kernel takes back when a
/// process dies, however. A ring has many writers, one at a time under a robust mutex, and one reader.
#pragma once

#include "base/result.hpp"
#include "swhca/wire/frame_ring.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include <pthread.h>

namespace swhca {

struct ShmPlace {
    static constexpr std::uint32_t ring_bytes = 2U << 20;
    pthread_mutex_t writers;
    std::atomic<std::uint32_t> taken; ///< somebody reads here (or did, when it died)
    FrameRing<ring_bytes> ring;       ///< a frame's note is the place of the sender
};

struct ShmLayout {
    static constexpr std::uint32_t places = 8;
    static constexpr std::uint64_t magic = 0x31'6d'68'73'61'63'68'73; ///< "shcashm1"
    std::uint64_t ready;                                              ///< magic, when initialized
    std::uint32_t format;                                             ///< WireFormat of all ports
    alignas(64) std::array<ShmPlace, places> place;
};

/// A frame in the own ring.
struct ShmArrival {
    const std::byte* data{};
    std::uint32_t length_bytes{};
    std::uint32_t from{};     ///< place of the sender, as it says
    std::uint64_t position{}; ///< behind it
};

/// A process's hold on the segment and on one place of it.
class ShmSegment {
  public:
    /// Errors: no place left, another format, no shared memory.
    static stride::Result<ShmSegment> join(const std::string& fabric, WireFormat format);
    ShmSegment(ShmSegment&& other) noexcept;
    ShmSegment& operator=(ShmSegment&&) = delete;
    /// Leaves the place; the last one out removes the segment.
    ~ShmSegment();

    std::uint32_t own() const noexcept { return own_; }
    bool is_taken(std::uint32_t place) const noexcept {
        return layout_->place[place].taken.load(std::memory_order_relaxed) != 0;
    }
    /// False: the ring is full.
    bool write(std::uint32_t to, const Frame& frame) noexcept;
    /// The oldest frame of the own ring, valid until consume(); false: there is none.
    bool peek(ShmArrival& arrival) noexcept;
    void consume(const ShmArrival& arrival) noexcept { layout_->place[own_].ring.release(arrival.position); }
    /// Frees places of dead processes; returns how many others live.
    std::uint32_t bury_dead() noexcept;

  private:
    ShmSegment(std::string name, int fd, ShmLayout* layout, std::uint32_t own);

    std::string name_;
    int fd_{-1};
    ShmLayout* layout_{};
    std::uint32_t own_{};
};

} // namespace swhca
