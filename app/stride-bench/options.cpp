// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <rte_ethdev.h>

#include <map>

namespace bench {
namespace {

const std::map<std::string, std::vector<Series>> modes{
    {"rx", {Series::rx_free, Series::rx, Series::free}}, {"tx", {Series::tx}}, {"fwd", {Series::forward}}};

const std::map<std::string, std::uint64_t> rx_offload_names{
    {"checksum", RTE_ETH_RX_OFFLOAD_CHECKSUM},   {"hash", RTE_ETH_RX_OFFLOAD_RSS_HASH},
    {"vlan", RTE_ETH_RX_OFFLOAD_VLAN_STRIP},     {"scatter", RTE_ETH_RX_OFFLOAD_SCATTER},
    {"timestamp", RTE_ETH_RX_OFFLOAD_TIMESTAMP}, {"keep_crc", RTE_ETH_RX_OFFLOAD_KEEP_CRC}};

const std::map<std::string, std::uint64_t> tx_offload_names{{"ipv4", RTE_ETH_TX_OFFLOAD_IPV4_CKSUM},
                                                            {"udp", RTE_ETH_TX_OFFLOAD_UDP_CKSUM},
                                                            {"tcp", RTE_ETH_TX_OFFLOAD_TCP_CKSUM},
                                                            {"vlan", RTE_ETH_TX_OFFLOAD_VLAN_INSERT},
                                                            {"multi", RTE_ETH_TX_OFFLOAD_MULTI_SEGS}};

std::uint64_t sum_of(const std::vector<std::uint64_t>& flags) {
    std::uint64_t sum = 0;
    for (const std::uint64_t flag : flags)
        sum |= flag;
    return sum;
}

/// `64` packets, or `50%`.
std::string read_hold(const std::string& text, Options& options) {
    try {
        std::size_t used = 0;
        const unsigned long value = std::stoul(text, &used);
        const bool percent = text.substr(used) == "%";
        if ((used == text.size() && value <= 1U << 20) || (percent && value <= 100)) {
            (percent ? options.hold_percent : options.hold_packets) = static_cast<std::uint32_t>(value);
            return {};
        }
    } catch (const std::exception&) {
    }
    return "--hold " + text + ": takes a number of packets, or a share such as 50%";
}

/// Arguments that are parsed to something else than what Options holds.
struct Raw {
    std::vector<std::string> modes{"rx"};
    std::vector<std::uint64_t> rx_offloads, tx_offloads;
    std::string hold{"0"};
};

void add_what(CLI::App& app, Options& options, Raw& raw) {
    app.add_option("--mode", raw.modes, "rx, tx, fwd; several with commas")
        ->delimiter(',')
        ->check(CLI::IsMember({"rx", "tx", "fwd"}));
    app.add_option("--packets", options.packets, "packets of a fill")->check(CLI::Range(1U, 65536U));
    app.add_option("--fills", options.fills, "fills of a round")->check(CLI::Range(1U, 1000000U));
    app.add_option("--rounds", options.rounds, "quiet rounds wanted")->check(CLI::Range(1U, 10000U));
    app.add_option("--max-seconds", options.max_seconds, "start no round after so long, quiet or not");
    app.add_option("--burst", options.burst, "packets of a burst")->check(CLI::Range(1U, 512U));
    app.add_option("--hold", raw.hold, "packets the application holds: a number, or a share as 50%");
    app.add_flag("--touch", options.touch, "read 8 bytes of each packet");
    app.add_flag("--cold", options.cold, "step the engine on another CPU: it wrote the lines last");
    app.add_flag("--instructions", options.instructions, "count instructions, by single-stepping");
    app.add_option("--absorb", options.absorb_packets,
                   "no timing: packets of a burst that arrives while nobody polls");
    app.add_option("--name", options.name, "name of this run in the output");
    app.add_option("--json", options.json_path, "file for the results");
}

void add_port(CLI::App& app, Options& options, Raw& raw) {
    app.add_option("--queues", options.queues, "queues of each direction")->check(CLI::Range(1, 64));
    app.add_option("--rxd", options.rx_descriptors, "receive descriptors of a queue");
    app.add_option("--txd", options.tx_descriptors, "send descriptors of a queue");
    app.add_option("--size", options.frame_bytes, "longest frame, and the length sent by --mode tx")
        ->check(CLI::Range(60U, 65000U));
    app.add_flag("--fast-free", options.fast_free, "ask for MBUF_FAST_FREE");
    app.add_option("--rx-offloads", raw.rx_offloads, "checksum, hash, vlan, scatter, timestamp, keep_crc")
        ->delimiter(',')
        ->transform(CLI::CheckedTransformer(rx_offload_names));
    app.add_option("--tx-offloads", raw.tx_offloads, "ipv4, udp, tcp, vlan, multi")
        ->delimiter(',')
        ->transform(CLI::CheckedTransformer(tx_offload_names));
    app.add_option("--mbufs", options.mbufs, "mbufs of the pool");
    app.add_option("--mbuf-bytes", options.mbuf_bytes, "data room of an mbuf, headroom included")
        ->check(CLI::Range(256U, 65535U));
    app.add_option("--cache", options.cache, "mbufs of an lcore's cache")
        ->check(CLI::Range(0U, static_cast<unsigned>(RTE_MEMPOOL_CACHE_MAX_SIZE)));
    app.add_option("--pool-ops", options.pool_ops, "mempool ops of the pool");
}

} // namespace

const char* name_of(Series series) noexcept {
    switch (series) {
    case Series::rx_free:
        return "rx+free";
    case Series::rx:
        return "rx";
    case Series::free:
        return "free";
    case Series::tx:
        return "tx";
    case Series::forward:
        return "fwd";
    }
    return "?";
}

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    int own = argc;
    for (int i = 1; i < argc && own == argc; ++i)
        if (std::string_view{argv[i]} == "--") own = i;
    CLI::App app{
        "Cycles per packet of any DPDK port over a software HCA that is stepped by hand.\n"
        "EAL arguments follow --, as: swhca run --port mlx5_0,wire=gen,flows=256 -- stride-bench --mode rx "
        "-- --no-huge -m 512 --no-pci -d librte_net_stride.so --vdev net_stride0,ibdev=mlx5_0"};
    Options options;
    Raw raw;
    add_what(app, options, raw);
    add_port(app, options, raw);
    try {
        app.parse(own, argv);
    } catch (const CLI::ParseError& error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
    if (const std::string wrong = read_hold(raw.hold, options); !wrong.empty()) {
        std::cerr << wrong << '\n';
        exit_code = 2;
        return std::nullopt;
    }
    options.series.clear();
    for (const std::string& mode : raw.modes)
        options.series.insert(options.series.end(), modes.at(mode).begin(), modes.at(mode).end());
    options.rx_offloads = sum_of(raw.rx_offloads);
    options.tx_offloads =
        sum_of(raw.tx_offloads) | (options.fast_free ? RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE : 0);
    options.eal_args.push_back(argv[0]);
    for (int i = own + 1; i < argc; ++i)
        options.eal_args.push_back(argv[i]);
    return options;
}

} // namespace bench
