// SPDX-License-Identifier: BSD-3-Clause
/// What stride-bench measures, from its command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// One thing to time; each has its own rounds.
enum class Series : std::uint8_t {
    rx_free, ///< receive bursts, each freed at once (or held, see Options::hold)
    rx,      ///< receive bursts alone
    free,    ///< freeing what `rx` received
    tx,      ///< send bursts of prepared mbufs, with the freeing of those sent before
    forward  ///< receive bursts, each sent at once
};

const char* name_of(Series series) noexcept;

struct Options {
    std::vector<Series> series{Series::rx_free, Series::rx, Series::free};
    std::uint32_t packets{256}; ///< of one fill: moved by the engine, then timed
    std::uint32_t fills{64};    ///< of one round
    std::uint32_t rounds{15};   ///< quiet ones wanted
    double max_seconds{20};     ///< then no more rounds, quiet ones or not
    std::uint32_t burst{32};
    std::uint16_t queues{1};
    std::uint16_t rx_descriptors{512}, tx_descriptors{512};
    std::uint32_t frame_bytes{64};   ///< of `tx`, and what MTU and mbufs are made for
    std::uint32_t hold_packets{0};   ///< the application keeps this many before it frees the oldest
    std::uint32_t hold_percent{0};   ///< or: this share of each burst, until it has that share of the ring
    bool touch{};                    ///< read 8 bytes of each packet
    bool cold{};                     ///< the engine is stepped on another CPU
    bool fast_free{};                ///< RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE
    bool instructions{};             ///< count them also
    std::uint32_t absorb_packets{0}; ///< instead of timing: does the queue take such a burst without a poll?
    std::uint64_t rx_offloads{}, tx_offloads{};
    std::uint32_t mbufs{0};      ///< of the pool; 0: enough
    std::uint32_t mbuf_bytes{0}; ///< data room with headroom; 0: a frame and headroom, 2176 at least
    std::uint32_t cache{256};    ///< mbufs of an lcore's cache
    std::string pool_ops{};      ///< mempool ops; empty: the default ones
    std::string name{};          ///< printed and written into the JSON
    std::string json_path{};
    std::vector<char*> eal_args{}; ///< argv[0] and what follows `--`
};

/// Parses argv; prints help or what is wrong and returns nullopt with `exit_code` set, if there is nothing to
/// run.
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

} // namespace bench
