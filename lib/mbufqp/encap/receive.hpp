// SPDX-License-Identifier: BSD-3-Clause
/// What the receive side asks of an encap: the Ethernet frame in what came from the wire.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stride::mbufqp {

/// Why a received packet is not handed over. X(name, what it says). The names of the OPA VNIC ones are the
/// kernel's (drivers/infiniband/ulp/opa_vnic/opa_vnic_encap.h).
#define STRIDE_RX_DROPS(X)                                                                                   \
    X(rx_runt, "shorter than the smallest frame")                                                            \
    X(rx_oversize, "longer than the MTU")                                                                    \
    X(rx_bad_veswid, "of a virtual Ethernet switch that is not this port's")                                 \
    X(rx_drop_state, "the port is not forwarding")                                                           \
    X(rx_logic, "malformed")                                                                                 \
    X(rx_own_multicast, "the port's own multicast, looped back")                                             \
    X(rx_foreign_address, "tells a link address whose LID cannot be known")                                  \
    X(rx_other_port, "of another port of the device, which gets it, too")

enum class RxDrop : std::uint8_t {
#define STRIDE_RX_DROP_ENUM(name, text) name,
    STRIDE_RX_DROPS(STRIDE_RX_DROP_ENUM)
#undef STRIDE_RX_DROP_ENUM
        count,
    none = count
};
inline constexpr std::size_t rx_drops = static_cast<std::size_t>(RxDrop::count);

/// Drops that are as they should be.
constexpr bool is_no_error(RxDrop drop) noexcept {
    return drop == RxDrop::rx_own_multicast || drop == RxDrop::rx_other_port;
}

inline constexpr const char* rx_drop_names[rx_drops] = {
#define STRIDE_RX_DROP_NAME(name, text) #name,
    STRIDE_RX_DROPS(STRIDE_RX_DROP_NAME)
#undef STRIDE_RX_DROP_NAME
};

/// A packet as the HCA scattered it: its first buffer, and how much is in others.
struct ReceiveRequest {
    std::byte* data{};
    std::uint32_t bytes{};        ///< at `data`, writable
    std::uint32_t behind_bytes{}; ///< in further buffers
    std::byte last_byte{};        ///< of those
    // Of the CQE of a UD QP:
    std::uint32_t source_qpn{}; ///< 24 bits
    std::uint16_t source_lid{};
    bool grh{}; ///< the 40 bytes in front hold a GRH

    std::uint32_t total_bytes() const noexcept { return bytes + behind_bytes; }
    std::byte last() const noexcept { return behind_bytes != 0 ? last_byte : data[bytes - 1]; }
};

/// The Ethernet frame at data + offset, its first 14 bytes in one piece, or why there is none.
struct Decapsulated {
    std::uint32_t offset{}, bytes{};
    RxDrop drop{RxDrop::none};

    static constexpr Decapsulated dropped(RxDrop reason) noexcept { return {0, 0, reason}; }
    bool ok() const noexcept { return drop == RxDrop::none; }
};

} // namespace stride::mbufqp
