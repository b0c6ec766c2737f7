// SPDX-License-Identifier: BSD-3-Clause
/// Flow rules: what a port does with a frame. All functions: commands held; 0 or an errno.
#pragma once

#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

struct FlowRequest {
    std::uint32_t qp_handle{};
    FlowKind kind{FlowKind::normal};
    std::uint16_t priority{}; ///< lower wins
    std::uint8_t port{};
    FlowMatch match{};
};

/// Priorities the device keeps apart (the kernel's driver has 16).
constexpr std::uint16_t flow_priorities = 16;

int create_flow(Context& context, const FlowRequest& request, Flow*& flow);
int destroy_flow(Context& context, std::uint32_t handle);

} // namespace swhca
