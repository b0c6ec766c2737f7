// SPDX-License-Identifier: BSD-3-Clause
/// The encaps there are. A new one is a file beside this, a line in kind.hpp, and its test.
#pragma once

#include "mbufqp/encap/ethernet.hpp"
#include "mbufqp/encap/header.hpp"
#include "mbufqp/encap/ipoib.hpp"
#include "mbufqp/encap/kind.hpp"
#include "mbufqp/encap/opa_vnic.hpp"
#include "mbufqp/tx_flags.hpp"

#include <cstdint>

struct rte_mbuf;

namespace stride::mbufqp {

/// What a queue of this encap may be asked for.
constexpr TxFeatures encap_features(EncapKind kind) noexcept {
    switch (kind) {
#define STRIDE_ENCAP_FEATURES(name, type)                                                                    \
    case EncapKind::name:                                                                                    \
        return type::offered;
        STRIDE_ENCAPS(STRIDE_ENCAP_FEATURES)
#undef STRIDE_ENCAP_FEATURES
    }
    return {};
}
constexpr EncapShape encap_shape_of(EncapKind kind) noexcept {
    switch (kind) {
#define STRIDE_ENCAP_SHAPE(name, type)                                                                       \
    case EncapKind::name:                                                                                    \
        return encap_shape<type>();
        STRIDE_ENCAPS(STRIDE_ENCAP_SHAPE)
#undef STRIDE_ENCAP_SHAPE
    }
    return {};
}

/// The put of this encap for `features` (made canonical).
std::uint16_t (*encap_burst(EncapKind kind, TxFeatures features) noexcept)(void*, rte_mbuf**, std::uint16_t);

} // namespace stride::mbufqp
