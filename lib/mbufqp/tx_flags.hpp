// SPDX-License-Identifier: BSD-3-Clause
/// What a send queue is asked to do: template flags of the burst, chosen once when the queue starts.
#pragma once

#include "base/flags.hpp"

#include <cstdint>

namespace stride::mbufqp {

enum class TxFeature : std::uint8_t {
    multi_segment = 1 << 0, ///< chains of mbufs
    checksum = 1 << 1,      ///< L3 and L4 checksums by the HCA
    vlan_insert = 1 << 2,   ///< tag of mbuf->vlan_tci
    fast_free = 1 << 3,     ///< one pool, reference count 1, direct: returned without a look at the mbuf
    multi_packet = 1 << 4,  ///< enhanced MPW: many frames in one WQE; the device must have it
    inline_frames = 1 << 5, ///< short frames are copied into the WQE; needs multi_packet
    inline_header =
        1 << 6,   ///< the device demands the first bytes of each frame inline; excludes multi_packet
    tso = 1 << 7, ///< TCP segmentation; implies multi_segment and checksum
};
using TxFeatures = Flags<TxFeature>;
inline constexpr unsigned tx_feature_bits = 8;

/// The flags a burst is really built with: what excludes or implies something else is resolved.
constexpr TxFeatures canonical(TxFeatures wanted) noexcept {
    TxFeatures features = wanted;
    if (features.has(TxFeature::tso)) features |= TxFeatures{TxFeature::multi_segment, TxFeature::checksum};
    // Chains must be taken apart, so their mbufs are looked at anyway.
    if (features.has(TxFeature::multi_segment)) features = features.without(TxFeature::fast_free);
    if (features.has(TxFeature::inline_header)) features = features.without(TxFeature::multi_packet);
    if (!features.has(TxFeature::multi_packet)) features = features.without(TxFeature::inline_frames);
    return features;
}

} // namespace stride::mbufqp
