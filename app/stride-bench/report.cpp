// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace bench {
namespace {

double minimum(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

std::uint64_t value_of(const Counters& counters, const std::string& name) {
    const auto found = counters.find(name);
    return found == counters.end() ? 0 : found->second;
}

/// WQEs and doorbells of the model per packet, and the driver's own counts of the same.
std::vector<std::pair<std::string, double>> per_packet(const Results& results) {
    std::vector<std::pair<std::string, double>> rates;
    if (results.packets == 0) return rates;
    for (const auto& [name, value] : results.model)
        if (name.ends_with("wqes") || name.ends_with("doorbells"))
            rates.emplace_back("hca " + name,
                               static_cast<double>(value) / static_cast<double>(results.packets));
    for (const auto& [name, value] : results.xstats)
        if (!name.starts_with("rx_q") && !name.starts_with("tx_q") &&
            (name.find("wqes") != name.npos || name.find("doorbell") != name.npos))
            rates.emplace_back(name, static_cast<double>(value) / static_cast<double>(results.packets));
    return rates;
}

} // namespace

void print(const Options& options, const Results& results) {
    fmt::print("{}: {}, {} queues of {} descriptors, {}\n",
               options.name.empty() ? results.driver : options.name, results.driver, results.queues,
               results.rx_descriptors, results.burst_modes);
    if (results.absorbed)
        fmt::print("absorbed {} of {} packets\n", *results.absorbed, options.absorb_packets);
    else
        fmt::print("{:<10}{:>9}{:>9}{:>8}{:>8}{:>14}\n", "cycles", "min", "median", "kept", "of",
                   "instructions");
    for (const SeriesResult& series : results.series) {
        const std::vector<double> kept = series.rounds.kept(results.best_calibration);
        fmt::print("{:<10}{:>9.2f}{:>9.2f}{:>8}{:>8}{:>14}\n", name_of(series.series), minimum(kept),
                   median(kept), kept.size(), series.rounds.total(),
                   series.instructions ? fmt::format("{:.1f}", *series.instructions) : "-");
    }
    for (const auto& [name, rate] : per_packet(results))
        fmt::print("per packet: {:.5f} {}\n", rate, name);
    const std::uint64_t queues = std::max<std::uint64_t>(1, results.queues);
    fmt::print("receive memory of a queue, bytes: {} in the application's mbufs, {} of the driver ({} in its "
               "mempools)\n",
               results.rx_memory.pool_mbufs / queues, results.rx_memory.heap / queues,
               results.rx_memory.driver_pools / queues);
    if (value_of(results.model, "out_of_buffer") != 0)
        fmt::print("out of buffer: {}\n", value_of(results.model, "out_of_buffer"));
}

void write_json(const Options& options, const Results& results) {
    nlohmann::json series = nlohmann::json::object();
    for (const SeriesResult& one : results.series) {
        const std::vector<double> kept = one.rounds.kept(results.best_calibration);
        nlohmann::json rounds = nlohmann::json::array();
        for (const Round& round : one.rounds.all())
            rounds.push_back({round.cycles_per_packet, round.calibration});
        series[name_of(one.series)] = {{"min", minimum(kept)},
                                       {"median", median(kept)},
                                       {"rounds", rounds},
                                       {"kept", kept.size()},
                                       {"total", one.rounds.total()}};
        if (one.instructions) series[name_of(one.series)]["instructions"] = *one.instructions;
    }
    nlohmann::json document = {{"name", options.name},
                               {"driver", results.driver},
                               {"burst_modes", results.burst_modes},
                               {"options",
                                {{"packets", options.packets},
                                 {"fills", options.fills},
                                 {"burst", options.burst},
                                 {"size", options.frame_bytes},
                                 {"hold_packets", options.hold_packets},
                                 {"hold_percent", options.hold_percent},
                                 {"touch", options.touch},
                                 {"cold", options.cold},
                                 {"fast_free", options.fast_free}}},
                               {"queues", results.queues},
                               {"rx_descriptors", results.rx_descriptors},
                               {"calibration_cycles", results.best_calibration},
                               {"cycles_per_packet", series},
                               {"rx_memory_bytes",
                                {{"mbufs", results.rx_memory.pool_mbufs},
                                 {"driver", results.rx_memory.heap},
                                 {"driver_pools", results.rx_memory.driver_pools}}},
                               {"per_packet", per_packet(results)},
                               {"packets", results.packets},
                               {"xstats", results.xstats},
                               {"hca", results.model}};
    if (results.absorbed) document["absorbed"] = *results.absorbed;
    std::ofstream file{options.json_path};
    file << document.dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error{fmt::format("{}: can't be written", options.json_path)};
}

} // namespace bench
