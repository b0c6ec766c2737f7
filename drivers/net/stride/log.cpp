// SPDX-License-Identifier: BSD-3-Clause
#include "log.hpp"

#include <rte_log.h>

RTE_LOG_REGISTER(stride_logtype, pmd.net.stride, NOTICE)

namespace stride::pmd {

void log_to_rte(LogLevel level, const char* line) noexcept {
    static constexpr std::uint32_t levels[] = {RTE_LOG_ERR, RTE_LOG_WARNING, RTE_LOG_NOTICE, RTE_LOG_INFO,
                                               RTE_LOG_DEBUG};
    rte_log(levels[static_cast<unsigned>(level)], static_cast<std::uint32_t>(stride_logtype), "STRIDE: %s\n",
            line);
}

} // namespace stride::pmd
