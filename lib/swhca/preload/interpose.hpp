// SPDX-License-Identifier: BSD-3-Clause
/// Taking a libc call: our function under libc's name, and libc's own behind it.
///
/// Names are given by assembler labels, so that neither libc's prototypes nor its fortified inline functions
/// get in the way. Variadic calls (open, fcntl, ioctl) are taken with their third argument fixed: on x86-64
/// it is in the same register either way.
#pragma once

#include <atomic>
#include <dlfcn.h>

/// Defines the function that answers for libc's `name`.
#define SWHCA_INTERPOSE(result, name, parameters)                                                            \
    extern "C" [[gnu::visibility("default"), gnu::used]] result swhca_##name parameters asm(#name);          \
    extern "C" result swhca_##name parameters

namespace swhca::preload {

/// The function of that name which would have been called without us. Looked up once; a cancellation point
/// stays one.
template <class Function>
class Real {
  public:
    constexpr explicit Real(const char* name)
        : name_{name} {}

    template <class... Args>
    auto operator()(Args... args) noexcept(false) {
        return get()(args...);
    }

  private:
    Function* get() {
        Function* known = function_.load(std::memory_order_relaxed);
        if (known != nullptr) return known;
        known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
        function_.store(known, std::memory_order_relaxed);
        return known;
    }
    const char* name_;
    std::atomic<Function*> function_{nullptr};
};

} // namespace swhca::preload
