// SPDX-License-Identifier: BSD-3-Clause
/// Ethernet over a RAW_PACKET QP: what stands before the payload in the WQE.
///
/// The frame is the application's own. Bytes are inlined only where the device demands them, or where a VLAN
/// tag goes between the addresses and the EtherType.
#pragma once

#include "base/be.hpp"
#include "mbufqp/encap/header.hpp"
#include "mbufqp/tx_flags.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::mbufqp {

struct Ethernet {
    /// DS of address (datagram segment, pad) between control and Ethernet segment.
    static constexpr std::uint32_t address_ds = 0;
    static constexpr std::uint32_t min_frame_bytes = 14;
    /// Bytes of the frame that header() looks at.
    static constexpr std::uint32_t header_reads_bytes = 18;
    static constexpr std::uint32_t max_header_bytes = 18;
    static constexpr std::uint32_t usual_header_bytes =
        18; ///< of those that have one: tagged, or what devices demand
    static constexpr std::uint32_t max_trailer_bytes = 0;
    static constexpr bool may_refuse = false;
    /// Frames that need no header of their own may share a WQE.
    static constexpr std::uint32_t usual_wqebbs = 1;
    static constexpr bool shares_wqe = true;
    /// What a queue may be asked for.
    static constexpr TxFeatures offered = TxFeatures::from_bits((1U << tx_feature_bits) - 1);

    /// Whether a queue with these features has packets with a header at all; decided when the burst is built.
    static constexpr bool has_header(TxFeatures features) noexcept {
        return (features & TxFeatures{TxFeature::vlan_insert, TxFeature::inline_header}).any();
    }

    /// Writes the inlined header to `out` (max_header_bytes).
    static InlineHeader header(const HeaderRequest& request, std::byte* out) noexcept {
        if (request.tag) {
            constexpr std::uint32_t addresses_bytes = 12;
            const be32 tag{std::uint32_t{0x8100} << 16 | request.tci};
            std::memcpy(out, request.frame, addresses_bytes);
            std::memcpy(out + addresses_bytes, &tag, sizeof tag);
            std::memcpy(out + addresses_bytes + sizeof tag, request.frame + addresses_bytes, 2);
            return {18, 14};
        }
        const std::uint32_t bytes =
            request.frame_bytes < request.min_inline_bytes ? request.frame_bytes : request.min_inline_bytes;
        std::memcpy(out, request.frame, bytes);
        return {bytes, bytes};
    }
};

} // namespace stride::mbufqp
