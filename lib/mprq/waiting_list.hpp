// SPDX-License-Identifier: BSD-3-Clause
/// Buffers whose WQE is finished and whose packets are out.
#pragma once

#include "mprq/wqe_buffer.hpp"

#include <cstdint>

namespace stride::mprq {

/// Nobody tells of a buffer that its last packet was freed: it has to be looked at. Receiving thread.
class WaitingList {
  public:
    bool empty() const noexcept { return newest_ == nullptr; }
    /// A buffer that packets were handed over in; it becomes the newest.
    void add(WqeBuffer& buffer) noexcept;
    /// Takes out buffers that are home and returns them as a chain (by `newer`, the newest last; nullptr:
    /// none). It looks at few of them: the newest, which an application that frees at once empties, the
    /// oldest, which one that keeps a queue of packets empties first, and a few of the others in turn.
    WqeBuffer* find_some_home() noexcept;
    /// The same, looking at all.
    WqeBuffer* find_all_home() noexcept;
    /// Whether it is time to look at all: again only when as many were looked at by other calls as nothing
    /// was found among. So a list of thousands, none of them home, costs a call no more than a list of few.
    bool search_is_due() noexcept;

  private:
    static constexpr std::uint32_t looks = 2; ///< at the newest, at the oldest and at others

    void look_at(WqeBuffer& buffer, WqeBuffer*& found) noexcept;
    void remove(WqeBuffer& buffer) noexcept;

    WqeBuffer *newest_{}, *oldest_{};
    WqeBuffer* turn_{}; ///< looked at next of the others; nullptr: begin with the newest
    std::uint32_t size_{};
    std::uint32_t patience_{}; ///< calls until all are looked at again
};

} // namespace stride::mprq
