// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/refuse.hpp"

#include <cstdarg>
#include <cstdio>

namespace swhca {

int refuse(Rule rule, int code, const char* reason, ...) noexcept {
    char text[256];
    va_list args;
    va_start(args, reason);
    std::vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    broken(rule, "%s", text);
    return code;
}

int check_claimed_state(const char* command, std::uint32_t object, StateClaim state) noexcept {
    if (state.is == state.claimed) return 0;
    return refuse(Rule::bad_argument, EINVAL, "%s: 0x%x is in state %u, not %u", command, object, state.is,
                  state.claimed);
}

} // namespace swhca
