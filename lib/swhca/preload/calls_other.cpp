// SPDX-License-Identifier: BSD-3-Clause
// Calls that reach files by other ways than their name says: glob, whose own look-ups the C library binds to
// itself, and openat2, which has no wrapper.
#include "swhca/preload/descriptors.hpp"
#include "swhca/preload/interpose.hpp"
#include "swhca/preload/paths.hpp"

#include <cstring>
#include <glob.h>
#include <linux/openat2.h>
#include <string>
#include <sys/syscall.h>

namespace {

using swhca::preload::Path;
using swhca::preload::Real;
using swhca::preload::strip_root;

using GlobError = int(const char*, int);
constinit Real<int(const char*, int, GlobError*, glob_t*)> real_glob{"glob"};
constinit Real<int(const char*, int, GlobError*, glob64_t*)> real_glob64{"glob64"};
constinit Real<long(long, long, long, long, long, long, long)> real_syscall{"syscall"};

/// The part of a pattern before its first special character decides where it looks.
template <class Function, class Glob>
int glob_below(Function& real, const char* pattern, int flags, GlobError* on_error, Glob* found) {
    const Path ours(pattern);
    if (ours.model() == nullptr) return real(pattern, flags, on_error, found);
    std::string escaped;
    for (const char c : ours.model()->root) {
        if (std::strchr("*?[]{}\\~", c) != nullptr) escaped += '\\';
        escaped += c;
    }
    const std::size_t before = (flags & GLOB_APPEND) != 0 ? found->gl_pathc : 0;
    const int result = real((escaped + pattern).c_str(), flags, on_error, found);
    if (result != 0) return result;
    const std::size_t reserved = (flags & GLOB_DOOFFS) != 0 ? found->gl_offs : 0;
    for (std::size_t i = before; i < found->gl_pathc; ++i)
        strip_root(found->gl_pathv[reserved + i]);
    return 0;
}

} // namespace

SWHCA_INTERPOSE(int, glob, (const char* pattern, int flags, GlobError* on_error, glob_t* found)) {
    return glob_below(real_glob, pattern, flags, on_error, found);
}
SWHCA_INTERPOSE(int, glob64, (const char* pattern, int flags, GlobError* on_error, glob64_t* found)) {
    return glob_below(real_glob64, pattern, flags, on_error, found);
}

// Taken with all six arguments fixed: on x86-64 they are in the same registers, or where the caller left
// them.
SWHCA_INTERPOSE(long, syscall, (long number, long a, long b, long c, long d, long e, long f)) {
    if (number == SYS_openat2) {
        const auto* path = reinterpret_cast<const char*>(b);
        const auto* how = reinterpret_cast<const open_how*>(c);
        const Path ours(static_cast<int>(a), path, true);
        if (ours.uverbs() >= 0)
            return swhca::preload::open_uverbs(*ours.model(), ours.uverbs(), static_cast<int>(how->flags));
        return real_syscall(number, a, reinterpret_cast<long>(ours.get()), c, d, e, f);
    }
    if (number == SYS_close_range) {
        const auto files = (c & (1 << 2)) != 0 // CLOSE_RANGE_CLOEXEC closes nothing yet
                               ? std::vector<swhca::preload::Descriptors::File>{}
                               : swhca::preload::descriptors().forget_range(static_cast<unsigned>(a),
                                                                            static_cast<unsigned>(b));
        return real_syscall(number, a, b, c, d, e, f);
    }
    return real_syscall(number, a, b, c, d, e, f);
}
