// SPDX-License-Identifier: BSD-3-Clause
/// Refusing a command: the rule it broke is recorded with what was wrong, the errno goes to the program.
#pragma once

#include "swhca/hca/rules.hpp"

#include <cerrno>

namespace swhca {

/// Records `rule` as broken with the formatted reason and returns `code` (a positive errno).
[[gnu::format(printf, 3, 4)]] int refuse(Rule rule, int code, const char* reason, ...) noexcept;

} // namespace swhca
