// SPDX-License-Identifier: BSD-3-Clause
/// Device arguments of a port: `--vdev=net_stride0,ibdev=mlx5_0,...`. No DPDK here.
#pragma once

#include "base/result.hpp"
#include "mbufqp/encap/kind.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stride::pmd {

struct Args {
    /// Of copy_threshold_bytes: every frame, for applications that do not know external buffers.
    static constexpr std::uint32_t copy_all = 65535;

    std::string ibdev{};                             ///< verbs device name; required
    std::uint8_t port{1};                            ///< port of the device
    mbufqp::EncapKind encap{};                       ///< what frames travel in
    bool encap_given{};                              ///< else it is what the link layer asks for
    std::uint16_t vesw_id{1};                        ///< encap=opa_vnic:ID, the virtual Ethernet switch
    std::optional<std::uint32_t> log_stride_bytes{}; ///< else from MTU and device
    std::optional<std::uint32_t> log_strides{};      ///< strides per WQE; else from MTU and device
    std::optional<std::uint32_t>
        copy_threshold_bytes{}; ///< frames up to this length are copied on receive; copy_all
    bool cqe_compression{}; ///< mini-CQEs, where device and offloads allow: 4 cycles a packet for less PCIe
                            ///< traffic
    std::optional<std::uint32_t> inline_threshold_bytes{}; ///< frames up to this length are inlined on send
};

/// Parses `key=value,...`. Each key at most once; unknown keys, junk, and values out of range are errors that
/// name the key and what is allowed.
Result<Args> parse_args(std::string_view text);

/// The keys with their ranges, for dpdk-pmdinfo and for messages.
#define STRIDE_ARGS_HELP                                                                                     \
    "ibdev=<string> port=<1-255> encap=<ethernet|ipoib|opa_vnic> log_stride_bytes=<6-13> "                   \
    "log_strides=<1-16> "                                                                                    \
    "copy_threshold_bytes=<0-65535> "                                                                        \
    "cqe_compression=<0|1> inline_threshold_bytes=<0-1024>"

} // namespace stride::pmd
