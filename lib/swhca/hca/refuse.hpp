// SPDX-License-Identifier: BSD-3-Clause
/// Refusing a command: the rule it broke is recorded with what was wrong, the errno goes to the program.
#pragma once

#include "swhca/hca/rules.hpp"

#include <cerrno>
#include <cstdint>

namespace swhca {

/// Records `rule` as broken with the formatted reason and returns `code` (a positive errno).
[[gnu::format(printf, 3, 4)]] int refuse(Rule rule, int code, const char* reason, ...) noexcept;

/// States of an object, as numbers of the ABI.
struct StateClaim {
    unsigned is, claimed;
};
/// MODIFY commands may say which state the program believes the object to be in: EINVAL if it is in another.
/// `command` and `object` name what was tried.
int check_claimed_state(const char* command, std::uint32_t object, StateClaim state) noexcept;

} // namespace swhca
