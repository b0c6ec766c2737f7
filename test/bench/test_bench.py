# SPDX-License-Identifier: BSD-3-Clause
"""stride-bench over net_stride and over the system's net/mlx5, with the generator checking every frame; stride-plan."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from benchtools.hca import DRIVERS, bench_command, missing

BUILD = os.environ["STRIDE_BUILD"]
CAPTURES = pathlib.Path(__file__).resolve().parents[1] / "data" / "captures"
SHORT = ["--fills", "8", "--rounds", "1", "--max-seconds", "5"]


def run_bench(driver, wire, arguments):
    """(exit code, output, JSON or None) of one stride-bench."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        command, environment = bench_command(BUILD, DRIVERS[driver], f"wire=gen,flows=256,{wire}",
                                             [*arguments, "--json", result.name], 512)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        text = result.read()
        return done.returncode, done.stdout + done.stderr, json.loads(text) if text else None


class Lockstep(unittest.TestCase):
    """stride-bench."""

    def bench(self, driver, wire, *arguments):
        """The JSON of a run that must succeed."""
        reason = missing(DRIVERS[driver])
        if reason:
            self.skipTest(reason)
        code, output, document = run_bench(driver, wire, [*arguments, *SHORT])
        self.assertEqual(code, 0, output)
        return document

    def assert_intact(self, document):
        """Every frame the port sent was one of the generator's, whole, once."""
        model = document["hca"]
        self.assertGreater(model["sink_frames"], 0)
        for name in ("sink_foreign", "sink_wrong_length", "sink_wrong_bytes", "sink_duplicates", "sink_too_old",
                     "broken_total"):
            self.assertEqual(model.get(name, 0), 0, name)

    def test_rounds_of_every_series(self):
        """stride-bench reports rounds, WQEs and memory of every series"""
        document = self.bench("stride", "size=64", "--mode", "rx,tx,fwd", "--size", "64")
        self.assertEqual(set(document["cycles_per_packet"]), {"rx+free", "rx", "free", "tx", "fwd"})
        for name, series in document["cycles_per_packet"].items():
            self.assertGreater(len(series["rounds"]), 0, name)
            self.assertGreater(series["rounds"][0][0], 0, name)
        self.assertLessEqual(dict(document["per_packet"])["hca rx_wqes"], 1 / 64)
        self.assertGreater(document["rx_memory_bytes"]["driver"], 0)

    def test_instructions(self):
        """stride-bench counts the same instructions twice"""
        first, second = (self.bench("stride", "size=64", "--mode", "rx", "--instructions", "--packets", "64") for _ in range(2))
        one, other = (d["cycles_per_packet"]["rx+free"]["instructions"] for d in (first, second))
        self.assertGreater(one, 20)
        self.assertAlmostEqual(one, other, delta=one / 50)

    def test_forwarding_by_net_stride(self):
        """net_stride forwards random lengths of four queues unchanged"""
        document = self.bench("stride", "size=64-1500,check=on", "--mode", "fwd", "--size", "1514", "--queues", "4")
        self.assert_intact(document)

    def test_forwarding_by_net_mlx5(self):
        """the system's net/mlx5 forwards on the model: single-packet, MPRQ copied, attached, scalar"""
        for driver in ("mlx5", "mlx5-mprq", "mlx5-mprq-attach", "mlx5-mprq-scalar"):
            with self.subTest(driver):
                document = self.bench(driver, "size=64-1500,check=on", "--mode", "fwd", "--size", "1514")
                multi = "MPRQ" in document["burst_modes"] or "Multi-Packet RQ" in document["burst_modes"]
                self.assertEqual(multi, "mprq" in driver, document["burst_modes"])
                self.assert_intact(document)

    def test_holding(self):
        """stride-bench holds a share of the packets, on a cold engine, and gives all back"""
        document = self.bench("stride", "size=256", "--mode", "rx", "--hold", "50%", "--touch")
        self.assertEqual(document["options"]["hold_percent"], 50)

    def test_absorbing(self):
        """a queue without a poll takes as many packets as it has descriptors, less what a begun WQE has used"""
        document = self.bench("stride", "size=64", "--absorb", "100000", "--rxd", "1024")
        descriptors = document["rx_descriptors"]
        self.assertLessEqual(document["absorbed"], descriptors)
        # The WQE that earlier packets have begun is used up in part; there are four at least.
        self.assertGreater(document["absorbed"], descriptors - descriptors // 4)

    def test_silence(self):
        """stride-bench says so when no packet comes"""
        code, output, document = run_bench("stride", "count=0", ["--mode", "rx", *SHORT])
        self.assertEqual(code, 1)
        self.assertIn("the wire delivers nothing", output)
        self.assertIsNone(document)


class Plan(unittest.TestCase):
    """stride-plan."""

    def plan(self, *arguments):
        """The finished process."""
        return subprocess.run([f"{BUILD}/app/stride-plan/stride-plan", *arguments], capture_output=True, text=True, check=False)

    def test_captures(self):
        """stride-plan recommends a shape for every capture of the tree and draws it"""
        for capture in sorted(CAPTURES.glob("*.pcap")):
            with self.subTest(capture.name), tempfile.NamedTemporaryFile(suffix=".svg") as chart:
                done = self.plan(str(capture), "--svg", chart.name)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("recommended:", done.stdout)
                self.assertIn(b"</svg>", chart.read())

    def test_sizes(self):
        """stride-plan's waste of 1500 bytes in strides of 256 is 36 bytes"""
        done = self.plan("--sizes", "1500", "--log-stride-min", "8", "--log-stride-max", "8", "--log-strides-min", "6",
                         "--log-strides-max", "6")
        row = next(line.split() for line in done.stdout.splitlines() if line.split()[:2] == ["256", "64"])
        self.assertEqual(row[3], "36.0")

    def test_mistakes(self):
        """stride-plan names what it cannot use"""
        self.assertIn("no packets", self.plan().stderr)
        self.assertIn("'x'", self.plan("--sizes", "x").stderr)
        self.assertEqual(self.plan("--sizes", "0").returncode, 2)
