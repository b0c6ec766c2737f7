// SPDX-License-Identifier: BSD-3-Clause
/// The encaps there are, by name.
#pragma once

#include <cstdint>

namespace stride::mbufqp {

/// X(name, type)
#define STRIDE_ENCAPS(X)                                                                                     \
    X(ethernet, Ethernet)                                                                                    \
    X(ipoib, Ipoib)                                                                                          \
    X(opa_vnic, OpaVnic)

enum class EncapKind : std::uint8_t {
#define STRIDE_ENCAP_ENUM(name, type) name,
    STRIDE_ENCAPS(STRIDE_ENCAP_ENUM)
#undef STRIDE_ENCAP_ENUM
};

} // namespace stride::mbufqp
