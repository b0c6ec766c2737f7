// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/waiting_list.hpp"

namespace stride::mprq {

void WaitingList::add(WqeBuffer& buffer) noexcept {
    buffer.waits.store(true, std::memory_order_release);
    buffer.newer = nullptr;
    buffer.older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = &buffer;
    newest_ = &buffer;
    ++size_;
}

void WaitingList::remove(WqeBuffer& buffer) noexcept {
    (buffer.newer != nullptr ? buffer.newer->older : newest_) = buffer.older;
    (buffer.older != nullptr ? buffer.older->newer : oldest_) = buffer.newer;
    if (turn_ == &buffer) turn_ = buffer.older;
    buffer.waits.store(false, std::memory_order_relaxed);
    --size_;
}

void WaitingList::look_at(WqeBuffer& buffer, WqeBuffer*& found) noexcept {
    if (!buffer.is_home()) return;
    remove(buffer);
    buffer.newer = found;
    found = &buffer;
}

WqeBuffer* WaitingList::find_some_home() noexcept {
    WqeBuffer* found = nullptr;
    WqeBuffer* at = newest_;
    for (std::uint32_t n = 0; n < looks && at != nullptr; ++n) {
        WqeBuffer* const older = at->older;
        look_at(*at, found);
        at = older;
    }
    if (at == nullptr) return found; // these were all
    if (turn_ == nullptr) turn_ = at;
    for (std::uint32_t n = 0; n < looks && turn_ != nullptr; ++n) {
        WqeBuffer* const one = turn_;
        turn_ = one->older;
        look_at(*one, found);
    }
    at = oldest_;
    for (std::uint32_t n = 0; n < looks && at != nullptr; ++n) {
        WqeBuffer* const newer = at->newer;
        look_at(*at, found);
        at = newer;
    }
    return found;
}

WqeBuffer* WaitingList::find_all_home() noexcept {
    WqeBuffer* found = nullptr;
    for (WqeBuffer* at = newest_; at != nullptr;) {
        WqeBuffer* const older = at->older;
        look_at(*at, found);
        at = older;
    }
    if (found == nullptr) patience_ = size_ / (3 * looks);
    return found;
}

bool WaitingList::search_is_due() noexcept {
    if (patience_ == 0) return !empty();
    --patience_;
    return false;
}

} // namespace stride::mprq
