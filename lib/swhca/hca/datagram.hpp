// SPDX-License-Identifier: BSD-3-Clause
/// Where datagrams go: address handles of Ethernet ports, and multicast groups. All functions: commands held;
/// 0 or an errno.
#pragma once

#include "swhca/hca/device.hpp"

#include <array>
#include <cstdint>

namespace swhca {

/// As CREATE_AH says it.
struct AhRequest {
    std::uint32_t pd_handle{};
    std::uint8_t port{};
    bool global{};
    std::uint8_t sgid_index{};
    Gid dgid{};
};

/// Makes a handle and finds the MAC that the GID leads to.
int create_ah(Context& context, const AhRequest& request, Ah*& ah, std::array<std::uint8_t, 6>& mac);
int destroy_ah(Context& context, std::uint32_t handle);

/// Attaches a UD QP to a group; it may be attached already.
int attach_group(Context& context, std::uint32_t qp_handle, const MulticastGroup& group);
/// EINVAL if the QP is not attached.
int detach_group(Context& context, std::uint32_t qp_handle, const MulticastGroup& group);

} // namespace swhca
