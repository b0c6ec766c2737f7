// SPDX-License-Identifier: BSD-3-Clause
/// Receive side scaling: the Toeplitz hash (Microsoft, "RSS Hashing Functions") by tables.
#pragma once

#include "swhca/engine/parse.hpp"
#include "swhca/hca/objects.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace swhca {

/// Bits of RssHash::fields, as in the ABI (mlx5-abi.h, MLX5_RX_HASH_*).
enum class RssField : std::uint32_t {
    src_ipv4 = 1U << 0,
    dst_ipv4 = 1U << 1,
    src_ipv6 = 1U << 2,
    dst_ipv6 = 1U << 3,
    src_port_tcp = 1U << 4,
    dst_port_tcp = 1U << 5,
    src_port_udp = 1U << 6,
    dst_port_udp = 1U << 7,
};

/// Longest input: two IPv6 addresses and two ports.
constexpr std::size_t rss_input_bytes = 36;

/// One table for each byte of the input: what that byte adds to the hash. A bit-serial hash took half of a
/// packet's time (facts).
class ToeplitzTables {
  public:
    explicit ToeplitzTables(const std::array<std::uint8_t, 40>& key) noexcept;
    /// Hash of the first `length` bytes of `input`.
    std::uint32_t hash(const std::byte* input, std::size_t length) const noexcept {
        std::uint32_t result = 0;
        for (std::size_t i = 0; i < length; ++i)
            result ^= terms_[i][static_cast<std::uint8_t>(input[i])];
        return result;
    }

    /// What `Length` bytes add that stand at `at` of the input; unrolled.
    template <std::size_t Length>
    std::uint32_t part(std::size_t at, const std::byte* input) const noexcept {
        std::uint32_t result = 0;
        for (std::size_t i = 0; i < Length; ++i)
            result ^= terms_[at + i][static_cast<std::uint8_t>(input[i])];
        return result;
    }

  private:
    std::array<std::array<std::uint32_t, 256>, rss_input_bytes> terms_{};
};

/// A hash and what it was made of, as the CQE tells it.
struct RssResult {
    std::uint32_t hash{};
    std::uint8_t ip_source{}, ip_destination{}; ///< 0 none, 1 IPv4, 2 IPv6
    std::uint8_t l4_source{}, l4_destination{}; ///< 0 none, 1 TCP, 2 UDP
};

/// Hashes the fields of `fields` that the packet has; none: hash 0. `frame` is its first segment.
void rss_hash_into(const ToeplitzTables& tables, std::uint64_t fields, const std::byte* frame,
                   const PacketInfo& info, RssResult& result) noexcept;
inline RssResult rss_hash(const ToeplitzTables& tables, std::uint64_t fields, const std::byte* frame,
                          const PacketInfo& info) noexcept {
    RssResult result;
    rss_hash_into(tables, fields, frame, info, result);
    return result;
}

} // namespace swhca
