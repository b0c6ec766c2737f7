// SPDX-License-Identifier: BSD-3-Clause
/// An lcore id for a thread that EAL did not start.
#pragma once

#include <rte_lcore.h>

#include <mutex>

namespace stride::mprq::test {

/// EAL's own lock of its lcores is one that ThreadSanitizer does not see.
inline std::mutex lcore_registration;

/// The calling thread has an lcore id while this lives; if not `wanted`, it stays without.
class LcoreOfThread {
  public:
    explicit LcoreOfThread(bool wanted = true)
        : wanted_{wanted} {
        const std::scoped_lock guard{lcore_registration};
        if (wanted_) rte_thread_register();
    }
    ~LcoreOfThread() {
        const std::scoped_lock guard{lcore_registration};
        if (wanted_) rte_thread_unregister();
    }
    LcoreOfThread(const LcoreOfThread&) = delete;
    LcoreOfThread& operator=(const LcoreOfThread&) = delete;

  private:
    bool wanted_;
};

} // namespace stride::mprq::test
