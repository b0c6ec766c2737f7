// SPDX-License-Identifier: BSD-3-Clause
/// Options of the `gen` wire.
#pragma once

#include "base/result.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace swhca {

/// Lengths are of frames without FCS.
struct GenOptions {
    enum class Sizes : std::uint8_t {
        fixed, ///< all of min_bytes
        range, ///< uniformly from min_bytes to max_bytes
        imix   ///< 7 of 64, 4 of 590 and 1 of 1514 bytes, mixed
    };
    Sizes sizes{Sizes::fixed};
    std::uint32_t min_bytes{64}, max_bytes{64};
    std::uint32_t flows{1};
    std::optional<std::uint16_t> vlan{}; ///< VLAN id of an 802.1Q tag
    bool tcp{};
    bool ipv6{};
    std::uint32_t bad_csum_period{}; ///< every so many frames one has a wrong checksum; 0: none
    std::array<std::uint8_t, 6> source{0x02, 0x67, 0x65, 0x6e, 0x00, 0x01};
    std::array<std::uint8_t, 6> destination{0x02, 0x67, 0x65, 0x6e, 0x00, 0x02};
    std::uint64_t seed{1};                ///< of the random choices and of the payload
    std::optional<std::uint64_t> count{}; ///< frames to send; nullopt: no end; 0: only a sink
    std::optional<std::uint64_t> rate{};  ///< frames a second, lossy; nullopt: as the receiver takes them
    bool check{};                         ///< compare what comes back, byte for byte

    /// Bytes in front of the sequence stamp: Ethernet, VLAN, IP and L4 headers.
    std::uint32_t header_length() const noexcept {
        return 14U + (vlan ? 4U : 0U) + (ipv6 ? 40U : 20U) + (tcp ? 20U : 8U);
    }
};

/// Most different frames a generator prepares, and most flows.
inline constexpr std::uint32_t gen_max_templates = 65536;
/// Bytes of the stamp: a 32-bit sequence number and its complement.
inline constexpr std::uint32_t gen_stamp_bytes = 8;
inline constexpr std::uint32_t gen_max_frame_bytes = 65000;

/// Reads the wire's keys; unknown ones, values that make no sense and frames too short for their headers are
/// errors that name port, key and value.
stride::Result<GenOptions> parse_gen_options(const PortOptions& options);

} // namespace swhca
