// SPDX-License-Identifier: BSD-3-Clause
/// The table of bursts: one entry per set of features, instantiated per canonical set.
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/tx_burst.hpp"
#include "mbufqp/tx_queue.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace stride::mbufqp {

namespace {

constexpr std::size_t feature_sets = std::size_t{1} << tx_feature_bits;
using BurstTable = std::array<TxBurst, feature_sets>;

template <class Encap>
constexpr TxFeatures possible(TxFeatures wanted) noexcept {
    return canonical(wanted & Encap::offered);
}

template <class Encap, std::size_t... sets>
constexpr BurstTable make_table(std::index_sequence<sets...>) noexcept {
    return {
        &Burst<Encap,
               possible<Encap>(TxFeatures::from_bits(static_cast<TxFeatures::Bits>(sets))).bits()>::put...};
}

template <class Encap>
constexpr BurstTable burst_table = make_table<Encap>(std::make_index_sequence<feature_sets>{});

} // namespace

TxBurst ethernet_burst(TxFeatures features) noexcept {
    return burst_table<Ethernet>[canonical(features).bits()];
}

TxBurst encap_burst(EncapKind kind, TxFeatures features) noexcept {
    switch (kind) {
#define STRIDE_ENCAP_BURST(name, type)                                                                       \
    case EncapKind::name:                                                                                    \
        return burst_table<type>[features.bits()];
        STRIDE_ENCAPS(STRIDE_ENCAP_BURST)
#undef STRIDE_ENCAP_BURST
    }
    return nullptr;
}

} // namespace stride::mbufqp
