// SPDX-License-Identifier: BSD-3-Clause
/// Pointers to code in memory that several processes share.
///
/// Where code is loaded differs from process to process, so that the address of a function means nothing to
/// another. These pointers lead to stubs instead, which lie at one address in all processes; each jumps to
/// where a table says, and every process fills a table of its own.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>

namespace stride {

/// What is called through shared memory: the free callback of attached packets, then what queues ask of their
/// owner.
enum class SharedCall : std::uint8_t {
    packet_freed,
    lkey_of,
    reset_wq,
    ready_wq,
    spare_low,
    find_key,
    recover_qp,
    has_header,
    count
};

class SharedCalls {
  public:
    static constexpr std::size_t page_bytes = 4096;
    static constexpr std::size_t bytes = 2 * page_bytes; ///< stubs, then the table

    /// Lays stubs and table at `place`: two pages of the process's own, writable, which it keeps for good.
    /// Once a process, before the first of(); control thread. EPERM or the like: the system refuses pages
    /// with code.
    static Status lay(std::byte* place);
    /// What to write into shared memory so that any process calls what it has entered itself; `own` is this
    /// one's. Where there are no stubs it is `own`, for this process alone.
    template <class Function>
    static Function* of(SharedCall call, Function* own) noexcept {
        return reinterpret_cast<Function*>(enter(call, reinterpret_cast<void (*)()>(own)));
    }

  private:
    using Code = void (*)();
    static Code enter(SharedCall call, Code own) noexcept;
};

} // namespace stride
