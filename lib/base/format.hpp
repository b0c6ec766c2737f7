// SPDX-License-Identifier: BSD-3-Clause
/// printf into a std::string, for the messages of the control path.
#pragma once

#include <string>

namespace stride {

/// `format` as printf's; the result has no length limit.
[[gnu::format(printf, 1, 2)]] std::string strprintf(const char* format, ...);

} // namespace stride
