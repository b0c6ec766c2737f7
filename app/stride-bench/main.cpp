// SPDX-License-Identifier: BSD-3-Clause
// stride-bench: cycles and instructions per packet of any ethdev PMD over the software HCA, in lockstep: the
// engine moves a fill of packets, then only the PMD's part is timed. See doc/guides/bench.md.
#include "counters.hpp"
#include "lockstep.hpp"
#include "options.hpp"
#include "port.hpp"
#include "quiet.hpp"
#include "report.hpp"
#include "series.hpp"

#include <fmt/format.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <chrono>
#include <sched.h>
#include <stdexcept>

namespace bench {
namespace {

constexpr unsigned warm_fills = 3;        ///< before a round is timed: they bring back the caches
constexpr unsigned instruction_fills = 8; ///< single-stepped, after one that is not counted

/// A CPU of `allowed` other than the one this thread runs on; -1 if there is none.
int other_cpu(const cpu_set_t& allowed) {
    const int own = sched_getcpu();
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (cpu != own && CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) return cpu;
    return -1;
}

Round measure_round(Bench& bench, const Options& options, Series series, std::uint64_t& best) {
    bench.settle(series);
    const std::uint64_t before = calibrate();
    for (unsigned i = 0; i < warm_fills; ++i)
        bench.fill(series, false);
    Cost cost;
    for (unsigned i = 0; i < options.fills; ++i)
        cost += bench.fill(series, false);
    const std::uint64_t after = calibrate();
    best = std::min({best, before, after});
    return {static_cast<double>(cost.cycles) / static_cast<double>(cost.packets), std::max(before, after)};
}

bool enough(const Options& options, const Results& results) {
    return std::all_of(results.series.begin(), results.series.end(), [&](const SeriesResult& one) {
        return one.rounds.kept(results.best_calibration).size() >= options.rounds;
    });
}

void count_instructions(Bench& bench, SeriesResult& result) {
    bench.settle(result.series);
    bench.fill(result.series, false);
    Cost cost;
    for (unsigned i = 0; i < instruction_fills; ++i)
        cost += bench.fill(result.series, true);
    result.instructions = static_cast<double>(cost.instructions) / static_cast<double>(cost.packets);
}

/// Rounds of all series in turn, until each has enough quiet ones or the time is over.
void measure(Bench& bench, const Options& options, Results& results) {
    for (const Series series : options.series)
        results.series.push_back({series, {}, {}});
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(options.max_seconds);
    while (Clock::now() < end && !enough(options, results))
        for (SeriesResult& one : results.series)
            one.rounds.add(measure_round(bench, options, one.series, results.best_calibration));
    if (options.instructions)
        for (SeriesResult& one : results.series)
            count_instructions(bench, one);
}

/// Counters over rounds of their own, of the first series only: the others would blur them.
void count(Bench& bench, const Options& options, const Lockstep& engine, Results& results) {
    const Series series = options.series.front();
    bench.settle(series);
    bench.fill(series, false);
    const Counters xstats = read_xstats(0), model = read_model(engine);
    for (unsigned i = 0; i < 4 * options.fills; ++i)
        results.packets += bench.fill(series, false).packets;
    results.xstats = difference(xstats, read_xstats(0));
    results.model = difference(model, read_model(engine));
}

/// Lets packets in while nobody polls, then receives them.
std::uint64_t absorb(Bench& bench, const Options& options, Lockstep& engine) {
    bench.settle(Series::rx_free);
    std::uint64_t came = 0;
    while (came < options.absorb_packets) {
        const unsigned now =
            engine.fill(0, std::min<unsigned>(256, static_cast<unsigned>(options.absorb_packets - came)));
        if (now == 0) break;
        came += now;
    }
    bench.drain();
    return came;
}

/// The engine is stepped by hand while this lives; the port behind it can be stopped only with its thread
/// back.
class Held {
  public:
    explicit Held(Lockstep& engine)
        : engine_{engine} {
        engine_.hold();
    }
    ~Held() { engine_.release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

  private:
    Lockstep& engine_;
};

void run(const Options& options, const cpu_set_t& allowed) {
    const int helper_cpu = other_cpu(allowed);
    if (options.cold && helper_cpu < 0) throw std::runtime_error{"--cold needs a second CPU"};
    if (rte_eth_dev_count_avail() == 0) throw std::runtime_error{"no port: give one to EAL, after --"};
    Lockstep engine{options.cold, helper_cpu};
    Port port{0, options};
    const Held held{engine};
    Results results;
    results.driver = port.driver();
    results.burst_modes = port.burst_modes();
    results.rx_memory = port.rx_memory();
    results.queues = port.queues();
    results.rx_descriptors = port.rx_descriptors();
    {
        Bench bench{options, port, engine};
        if (options.absorb_packets != 0) {
            results.absorbed = absorb(bench, options, engine);
        } else {
            measure(bench, options, results);
            count(bench, options, engine, results);
        }
        bench.settle(Series::rx_free);
    }
    print(options, results);
    if (!options.json_path.empty()) write_json(options, results);
}

} // namespace
} // namespace bench

int main(int argc, char** argv) {
    int exit_code = 0;
    auto options = bench::parse_options(argc, argv, exit_code);
    if (!options) return exit_code;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (rte_eal_init(static_cast<int>(options->eal_args.size()), options->eal_args.data()) < 0) {
        fmt::print(stderr, "stride-bench: EAL: {}\n", rte_strerror(rte_errno));
        return 2;
    }
    try {
        bench::run(*options, allowed);
    } catch (const std::exception& error) {
        fmt::print(stderr, "stride-bench: {}\n", error.what());
        exit_code = 1;
    }
    rte_eal_cleanup();
    return exit_code;
}
