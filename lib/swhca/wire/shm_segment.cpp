// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/shm_segment.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swhca {
namespace {

using stride::Error;
using stride::Result;
using stride::strprintf;

constexpr off_t setup_byte = ShmLayout::places; ///< locked by whoever makes or removes the segment

flock lock_of(short type, off_t byte) noexcept {
    flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return lock;
}

bool try_lock(int fd, off_t byte) noexcept {
    flock lock = lock_of(F_WRLCK, byte);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void unlock(int fd, off_t byte) noexcept {
    flock lock = lock_of(F_UNLCK, byte);
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

/// Somebody else holds the byte.
bool is_held(int fd, off_t byte) noexcept {
    flock lock = lock_of(F_WRLCK, byte);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void initialize(ShmLayout& layout, WireFormat format) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (ShmPlace& place : layout.place)
        pthread_mutex_init(&place.writers, &attributes);
    pthread_mutexattr_destroy(&attributes);
    layout.format = static_cast<std::uint32_t>(format);
    layout.ready = ShmLayout::magic;
}

/// A writer's turn at a ring, also after another died in its own.
class Turn {
  public:
    explicit Turn(pthread_mutex_t& mutex) noexcept
        : mutex_{mutex} {
        if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    }
    ~Turn() { pthread_mutex_unlock(&mutex_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    pthread_mutex_t& mutex_;
};

/// Opens the segment and holds the setup lock of one that has not been removed meanwhile; -1 and errno.
int open_locked(const std::string& name) noexcept {
    for (;;) {
        const int fd = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0) return -1;
        flock lock = lock_of(F_WRLCK, setup_byte);
        struct stat status {};
        if (fcntl(fd, F_OFD_SETLKW, &lock) == 0 && fstat(fd, &status) == 0 && status.st_nlink != 0) return fd;
        close(fd);
    }
}

} // namespace

ShmSegment::ShmSegment(std::string name, int fd, ShmLayout* layout, std::uint32_t own)
    : name_{std::move(name)}
    , fd_{fd}
    , layout_{layout}
    , own_{own} {}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : name_{std::move(other.name_)}
    , fd_{std::exchange(other.fd_, -1)}
    , layout_{std::exchange(other.layout_, nullptr)}
    , own_{other.own_} {}

Result<ShmSegment> ShmSegment::join(const std::string& fabric, WireFormat format) {
    const std::string name = "/swhca-" + fabric;
    const int fd = open_locked(name);
    if (fd < 0) return Error{errno, strprintf("shared memory %s: %s", name.c_str(), std::strerror(errno))};
    const auto fail = [&](int code, const std::string& why) {
        close(fd); // and with it the locks
        return Error{code, strprintf("shared memory %s: %s", name.c_str(), why.c_str())};
    };
    if (ftruncate(fd, sizeof(ShmLayout)) != 0) return fail(errno, std::strerror(errno));
    void* memory = mmap(nullptr, sizeof(ShmLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return fail(errno, std::strerror(errno));
    auto* layout = static_cast<ShmLayout*>(memory);
    if (layout->ready != ShmLayout::magic) initialize(*layout, format);
    std::uint32_t own = 0;
    while (own < ShmLayout::places && !try_lock(fd, static_cast<off_t>(own)))
        ++own;
    if (own == ShmLayout::places || layout->format != static_cast<std::uint32_t>(format)) {
        munmap(memory, sizeof(ShmLayout));
        if (own == ShmLayout::places) return fail(EBUSY, strprintf("all %u places are taken", own));
        return fail(EINVAL, "the other ports of this fabric have another link layer");
    }
    ShmPlace& place = layout->place[own];
    {
        const Turn turn{place.writers};
        place.ring.release(place.ring.head.load()); // what a dead reader left is nobody's
        place.taken.store(1);
    }
    unlock(fd, setup_byte);
    return ShmSegment{name, fd, layout, own};
}

ShmSegment::~ShmSegment() {
    if (layout_ == nullptr) return;
    layout_->place[own_].taken.store(0);
    flock lock = lock_of(F_WRLCK, setup_byte);
    (void)fcntl(fd_, F_OFD_SETLKW, &lock);
    bool last = true;
    for (std::uint32_t i = 0; i < ShmLayout::places; ++i)
        last = last && (i == own_ || !is_held(fd_, static_cast<off_t>(i)));
    if (last) shm_unlink(name_.c_str());
    munmap(layout_, sizeof(ShmLayout));
    close(fd_);
}

bool ShmSegment::write(std::uint32_t to, const Frame& frame) noexcept {
    ShmPlace& place = layout_->place[to];
    const Turn turn{place.writers};
    return place.ring.write(frame, own_);
}

bool ShmSegment::peek(ShmArrival& arrival) noexcept {
    auto& ring = layout_->place[own_].ring;
    RingFrameHeader header{};
    arrival.position = ring.tail.load(std::memory_order_relaxed);
    arrival.data = ring.read(arrival.position, header);
    if (arrival.data == nullptr) {
        ring.release(arrival.position); // what made no sense
        return false;
    }
    arrival.length_bytes = header.length_bytes;
    arrival.from = header.note;
    return true;
}

std::uint32_t ShmSegment::bury_dead() noexcept {
    std::uint32_t living = 0;
    for (std::uint32_t i = 0; i < ShmLayout::places; ++i) {
        if (i == own_ || !is_taken(i)) continue;
        if (is_held(fd_, static_cast<off_t>(i)))
            ++living;
        else
            layout_->place[i].taken.store(0);
    }
    return living;
}

} // namespace swhca
