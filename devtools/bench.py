# SPDX-License-Identifier: BSD-3-Clause
"""Drivers against each other in lockstep: runs app/stride-bench for each driver and case in turn, several times over, and
prints cycles per packet with ratios to the first driver named."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import building
from benchtools import chart, endtoend, memory
from benchtools.hca import DRIVERS, Driver, bench_command, missing

ROOT = building.ROOT
TARGETS = ["app/stride-bench/stride-bench", "app/swhca/swhca", "lib/swhca/preload/libswhca.so",
           "drivers/net/stride/librte_net_stride.so"]
WANTED_ROUNDS = 9
QUIET = 1.03  # rounds compare if the fixed loops around them differ by 3 % at most

# name: (options of the gen wire, options of stride-bench, series in the order of importance)
CASES = {
    "rx-64": ("size=64", ["--mode", "rx", "--size", "64"], ["rx+free", "rx", "free"]),
    "rx-256": ("size=256", ["--mode", "rx", "--size", "256"], ["rx+free", "rx", "free"]),
    "rx-1500": ("size=1500", ["--mode", "rx", "--size", "1500"], ["rx+free", "rx", "free"]),
    "rx-9000": ("size=9000", ["--mode", "rx", "--size", "9000"], ["rx+free", "rx", "free"]),
    "rx-imix": ("size=imix", ["--mode", "rx", "--size", "1514"], ["rx+free", "rx", "free"]),
    "cold-64": ("size=64", ["--mode", "rx", "--size", "64", "--cold", "--touch"], ["rx+free"]),
    "hold64-256": ("size=256", ["--mode", "rx", "--size", "256", "--hold", "64"], ["rx+free"]),
    "hold50-256": ("size=256", ["--mode", "rx", "--size", "256", "--hold", "50%"], ["rx+free"]),
    "tx-64": ("size=64", ["--mode", "tx", "--size", "64"], ["tx"]),
    "tx-64-fast-free": ("size=64", ["--mode", "tx", "--size", "64", "--fast-free"], ["tx"]),
    # Mbufs come back last in, first out: a driver that copies frames finds them in the cache, as a forwarder's are.
    "tx-64-hot": ("size=64", ["--mode", "tx", "--size", "64", "--fast-free", "--cache", "512"], ["tx"]),
    "tx-1500": ("size=1500", ["--mode", "tx", "--size", "1500"], ["tx"]),
    "fwd-64": ("size=64", ["--mode", "fwd", "--size", "64"], ["fwd"]),
    "fwd-64-fast-free": ("size=64", ["--mode", "fwd", "--size", "64", "--fast-free"], ["fwd"]),
    "fwd-imix": ("size=imix", ["--mode", "fwd", "--size", "1514"], ["fwd"]),
    "queues8-64": ("size=64", ["--mode", "rx", "--size", "64", "--queues", "8"], ["rx+free"]),
    "queues64-64": ("size=64", ["--mode", "rx", "--size", "64", "--queues", "64", "--rxd", "256", "--txd", "128",
                                "--packets", "2048"], ["rx+free"]),
}
QUICK = ["rx-64", "rx-256", "rx-1500", "fwd-64"]


def say(text=""):
    """One line, at once."""
    print(text, flush=True)


def build(folder):
    """Configures and builds what is measured."""
    if failure := building.build(folder, targets=TARGETS):
        sys.exit(f"{failure}\nbench: the build failed, see above")


class Runner:
    """Runs stride-bench and keeps what it says."""

    def __init__(self, options):
        self.options = options
        self.build = str(ROOT / options.build)
        self.failures = {}

    def run(self, driver, case, wire, arguments, memory_mib=512):
        """One process; its JSON, or None, with the reason kept under driver and case, if it fails."""
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            command, environment = bench_command(self.build, driver, f"wire=gen,flows=256,seed=1,{wire}",
                                                 [*arguments, "--json", result.name], memory_mib)
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
                self.failures[driver.name, case] = next((line for line in lines if "stride-bench:" in line), lines[-1])
                return None
            return json.load(result)


def measure(runner, options):
    """{case: {driver: [documents of its passes]}}; drivers in turn in every pass."""
    documents = {case: {driver.name: [] for driver in options.drivers} for case in options.cases}
    for number in range(options.passes):
        for case in options.cases:
            wire, arguments, _ = CASES[case]
            for driver in options.drivers:
                extra = ["--rounds", str(options.rounds), "--max-seconds", str(options.max_seconds)]
                if options.instructions and number == 0:
                    extra.append("--instructions")
                document = runner.run(driver, case, wire, [*arguments, *extra], 2048 if "queues64" in case else 512)
                if document is not None:
                    documents[case][driver.name].append(document)
            say(f"pass {number + 1} of {options.passes}: {case}")
    return documents


def rounds_of(passes, series):
    """All rounds of one driver, quiet or not: [(cycles per packet, cycles of the fixed loop around it)]."""
    return [tuple(pair) for document in passes for pair in document["cycles_per_packet"].get(series, {}).get("rounds", [])]


def quiet_speed(rounds_by_driver):
    """The machine has several speeds. The fastest (cycles of the fixed loop) at which every driver has enough rounds, or,
    if there is none, the one that leaves the poorest driver the most."""
    def poorest(speed):
        return min(sum(speed <= loop <= speed * QUIET for _, loop in rounds) for rounds in rounds_by_driver.values())

    speeds = sorted({loop for rounds in rounds_by_driver.values() for _, loop in rounds})
    for speed in speeds:
        if poorest(speed) >= WANTED_ROUNDS:
            return speed
    return max(speeds, key=poorest, default=0)


def summarize(rounds, speed, instructions):
    """Minimum and median of the rounds at one speed."""
    kept = [cycles for cycles, loop in rounds if speed <= loop <= speed * QUIET]
    return {"kept": len(kept), "total": len(rounds), "instructions": instructions, "min": min(kept, default=None),
            "median": statistics.median(kept) if kept else None, "speed": speed}


def results_of(documents):
    """{case: {driver: {"cycles": {series: summary}, "per_packet": {...}, "modes": text}}}."""
    results = {}
    for case, drivers in documents.items():
        drivers = {name: passes for name, passes in drivers.items() if passes}
        results[case] = {name: {"cycles": {}, "per_packet": dict(passes[-1]["per_packet"]),
                                "modes": passes[-1]["burst_modes"]} for name, passes in drivers.items()}
        for series in CASES[case][2]:
            rounds = {name: rounds_of(passes, series) for name, passes in drivers.items()}
            speed = quiet_speed(rounds)
            for name, passes in drivers.items():
                instructions = passes[0]["cycles_per_packet"][series].get("instructions")
                results[case][name]["cycles"][series] = summarize(rounds[name], speed, instructions)
    return results


def number(value, digits=1):
    """A number, or a dash if there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def print_case(case, drivers):
    """The tables of one case."""
    for series in CASES[case][2]:
        say(f"\n{case}: {series}, cycles per packet")
        say(f"  {'':<20}{'median':>8}{'min':>8}{'ratio':>8}{'kept':>6}{'of':>6}{'instructions':>14}")
        first = None
        for name, result in drivers.items():
            one = result["cycles"].get(series)
            if one is None:
                continue
            first = first or one["median"]
            ratio = one["median"] / first if one["median"] and first else None
            note = f"  {result['modes']}" if one["kept"] >= WANTED_ROUNDS else "  too few quiet rounds"
            say(f"  {name:<20}{number(one['median']):>8}{number(one['min']):>8}{number(ratio, 2):>8}{one['kept']:>6}"
                f"{one['total']:>6}{number(one['instructions']):>14}{note}")


def print_per_packet(results):
    """WQEs and doorbells per packet of the first receive and send case."""
    for case in [name for name in results if name in ("rx-64", "fwd-64")]:
        say(f"\n{case}: WQEs and doorbells per packet (hca: as the model counts them)")
        for name, result in results[case].items():
            rates = ", ".join(f"{key} 1/{1 / value:.0f}" if value else f"{key} 0"
                              for key, value in result["per_packet"].items())
            say(f"  {name:<20}{rates}")


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(prog="devtools/bench", description=__doc__)
    parser.add_argument("--drivers", default=",".join(DRIVERS), metavar="NAME,...",
                        help="in order; ratios are to the first (%(default)s)")
    parser.add_argument("--driver", action="append", default=[], metavar="NAME=BASE:DEVARGS",
                        help="one more driver: BASE of the list above with more devargs")
    parser.add_argument("--cases", default=",".join(CASES), metavar="CASE,...", help="%(default)s; or none")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}, one pass")
    parser.add_argument("--passes", type=int, default=3, help="processes of each driver and case (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="quiet rounds of each process (%(default)s)")
    parser.add_argument("--max-seconds", type=float, default=8, help="of one process (%(default)s)")
    parser.add_argument("--instructions", action="store_true", help="count them too (slow)")
    parser.add_argument("--burst-memory", type=int, default=0, metavar="PACKETS",
                        help="also: receive memory that takes so many IMIX packets without a poll")
    parser.add_argument("--end-to-end", action="store_true", help="also: rates with the engine on one CPU, testpmd on another; "
                        "net_memif, vhost and af_xdp beside")
    parser.add_argument("--build", default="build", help="build folder (%(default)s)")
    parser.add_argument("--no-build", action="store_true", help="take it as it is")
    parser.add_argument("--json", help="file for all results")
    parser.add_argument("--svg", help="file for a chart")
    options = parser.parse_args()
    known = dict(DRIVERS)
    for text in options.driver:
        name, _, rest = text.partition("=")
        base, _, devargs = rest.partition(":")
        if base not in DRIVERS:
            parser.error(f"--driver {text}: {base} is none of {', '.join(DRIVERS)}")
        known[name] = Driver(name, DRIVERS[base].kind, ",".join(filter(None, [DRIVERS[base].devargs, devargs])),
                             DRIVERS[base].arguments)
    names = options.drivers.split(",") + [text.partition("=")[0] for text in options.driver]
    options.cases = QUICK if options.quick else [case for case in options.cases.split(",") if case != "none"]
    options.passes = 1 if options.quick else options.passes
    for kind, given, all_names in (("driver", names, known), ("case", options.cases, CASES)):
        for name in given:
            if name not in all_names:
                parser.error(f"{kind} {name} is none of {', '.join(all_names)}")
    options.drivers = [known[name] for name in names]
    return options


def main():
    """The whole run."""
    options = parse()
    if not options.no_build:
        build(options.build)
    for driver in list(options.drivers):
        reason = missing(driver)
        if reason:
            say(f"left out: {driver.name}: {reason}")
            options.drivers.remove(driver)
    runner = Runner(options)
    results = results_of(measure(runner, options))
    for case, drivers in results.items():
        print_case(case, drivers)
    print_per_packet(results)
    document = {"cases": results}
    if options.burst_memory:
        document["burst_memory"] = memory.measure(runner, options.drivers, options.burst_memory)
        memory.show(document["burst_memory"], options.burst_memory, say)
    if options.end_to_end:
        document["end_to_end"] = endtoend.measure(runner.build, endtoend.drivers_here())
        endtoend.show(document["end_to_end"], say)
    for (name, case), reason in runner.failures.items():
        say(f"failed: {name}, {case}: {reason}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if options.svg:
        pathlib.Path(options.svg).write_text(chart.draw(results, {case: CASES[case][2][0] for case in results}),
                                             encoding="utf-8")
    return 1 if runner.failures else 0


sys.exit(main())
