// SPDX-License-Identifier: BSD-3-Clause
/// Counters of a send queue.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stride::mbufqp {

/// Why put or prepare does not take an mbuf. X(name, what it says)
#define STRIDE_TX_REFUSALS(X)                                                                                \
    X(too_many_segments, "needs more than the 63 DS of a WQE")                                               \
    X(too_short, "shorter than a header")                                                                    \
    X(too_long, "longer than the port takes")                                                                \
    X(no_key, "memory cannot be registered")                                                                 \
    X(bad_tso, "asks for segmentation of something else than TCP over IP with short headers")                \
    X(offload, "asks for an offload that the queue does not have")                                           \
    X(no_address, "encapsulation has no destination for it")                                                 \
    X(not_forwarding, "the port drops all that is sent")

enum class TxRefusal : std::uint8_t {
#define STRIDE_TX_REFUSAL_ENUM(name, text) name,
    STRIDE_TX_REFUSALS(STRIDE_TX_REFUSAL_ENUM)
#undef STRIDE_TX_REFUSAL_ENUM
        count
};
inline constexpr std::size_t tx_refusals = static_cast<std::size_t>(TxRefusal::count);

inline constexpr const char* tx_refusal_names[tx_refusals] = {
#define STRIDE_TX_REFUSAL_NAME(name, text) #name,
    STRIDE_TX_REFUSALS(STRIDE_TX_REFUSAL_NAME)
#undef STRIDE_TX_REFUSAL_NAME
};

/// Since the queue was made or the counters were reset. Written by the queue's thread; readers on other
/// threads may see one counter ahead of another.
struct TxStats {
    std::uint64_t packets{};     ///< posted
    std::uint64_t bytes{};       ///< of those, without FCS and inserted tags
    std::uint64_t wqes{};        ///< posted, NOPs included
    std::uint64_t doorbells{};   ///< rung
    std::uint64_t completions{}; ///< CQEs consumed
    std::uint64_t full{};        ///< bursts cut short for want of room
    std::uint64_t inlined{};     ///< frames that went in the WQE
    std::uint64_t errors{};      ///< packets posted but lost to an error of the queue
    std::uint64_t error_cqes{};  ///< error CQEs, and CQEs that make no sense
    std::uint64_t recoveries{};  ///< times the queue was brought back
    std::uint64_t dropped{};     ///< packets discarded when the queue was reset with work in it
    std::uint64_t key_misses{};  ///< look-ups that left the queue's cache
    std::uint64_t refused[tx_refusals]{};

    /// What was counted after `earlier`.
    TxStats since(const TxStats& earlier) const noexcept {
        TxStats diff{.packets = packets - earlier.packets,
                     .bytes = bytes - earlier.bytes,
                     .wqes = wqes - earlier.wqes,
                     .doorbells = doorbells - earlier.doorbells,
                     .completions = completions - earlier.completions,
                     .full = full - earlier.full,
                     .inlined = inlined - earlier.inlined,
                     .errors = errors - earlier.errors,
                     .error_cqes = error_cqes - earlier.error_cqes,
                     .recoveries = recoveries - earlier.recoveries,
                     .dropped = dropped - earlier.dropped,
                     .key_misses = key_misses - earlier.key_misses};
        for (std::size_t i = 0; i < tx_refusals; ++i)
            diff.refused[i] = refused[i] - earlier.refused[i];
        return diff;
    }
};

} // namespace stride::mbufqp
