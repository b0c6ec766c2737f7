# SPDX-License-Identifier: BSD-3-Clause
"""What the functional tests share: captures, a testpmd between two pcap wires, the checks at its end."""

import os
import pathlib
import subprocess
import tempfile

from pmdrun import mlx5
from pmdrun.testpmd import Testpmd

BUILD = os.environ["STRIDE_BUILD"]
SCOPE = os.environ.get("STRIDE_TEST_SCOPE", "normal")
CAPTURES = pathlib.Path(__file__).resolve().parents[1] / "data" / "captures"
LONGEST_IP_FRAME = 1518


def capture_names():
    """The captures of the tree, by name."""
    return sorted(path.name for path in CAPTURES.glob("*.pcap"))


def capture_size(path):
    """(frames, bytes, longest frame in bytes) of a capture."""
    printed = subprocess.run([f"{BUILD}/app/pcap-diff/pcap-diff", "--count", str(path)], capture_output=True, text=True,
                             check=True).stdout
    frames, length, longest = (int(word) for word in printed.split())
    return frames, length, longest


def pcap_diff(sent, got, *options):
    """One line that says whether two captures hold the same frames."""
    done = subprocess.run([f"{BUILD}/app/pcap-diff/pcap-diff", str(sent), str(got), *options], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


class Forwarding:
    """testpmd from port 0 (a capture comes in) to port 1 (a capture comes out), on net_stride; on net/mlx5 with
    mlx5_args, its devargs.

    After the with block: .out is the capture that came out, .report the HCA's report, .pools what each pool lacks.
    """

    def __init__(self, capture, *args, mode="io", queues=1, burst=32, longest=LONGEST_IP_FRAME, wire_in="", wire_out="",
                 driver_args="", eal=(), mlx5_args=None, memory_args=None, control=None):
        self._folder = tempfile.TemporaryDirectory(prefix="stride-test-")
        self.out = pathlib.Path(self._folder.name) / "out.pcap"
        self.expected = capture_size(capture)[0]
        mbuf_bytes = 2176 if longest <= 2048 - 128 else longest + 256
        vdevs = [f"net_stride{n},ibdev=mlx5_{n}{driver_args}" for n in (0, 1)]
        self.testpmd = Testpmd(
            BUILD,
            [f"mlx5_0,wire=pcap,in={capture},patience=20000{wire_in}", f"mlx5_1,wire=pcap,out={self.out}{wire_out}"],
            vdevs if mlx5_args is None else [], pci=[] if mlx5_args is None else mlx5.allow(mlx5_args),
            memory_args=memory_args, control=control, args=
            [f"--forward-mode={mode}", f"--rxq={queues}", f"--txq={queues}", f"--burst={burst}", "--total-num-mbufs=8192",
             f"--max-pkt-len={longest}", f"--mbuf-size={mbuf_bytes}", *args],
            eal=eal, memory_mib=160 if mbuf_bytes <= 4096 else 640)
        self.report = {}
        self.stats_in = self.stats_out = {}

    def __enter__(self):
        return self

    def run(self, expected=None):
        """Starts forwarding and waits until the frames are through."""
        wanted = self.expected if expected is None else expected
        self.testpmd.command_output("start")
        self.testpmd.wait_for(lambda: self.testpmd.stats(1).get("TX-packets", 0) >= wanted, timeout_s=20)
        self.testpmd.command_output("stop")
        self.stats_in, self.stats_out = self.testpmd.stats(0), self.testpmd.stats(1)

    def start_and_stop(self, frames):
        """Forwards until so many more frames have left, then stops; whether they did."""
        before = self.testpmd.stats(1)["TX-packets"]
        self.testpmd.command_output("start")
        forwarded = self.testpmd.wait_for(lambda: self.testpmd.stats(1)["TX-packets"] > before + frames)
        self.testpmd.command_output("stop")
        return forwarded

    def restart_ports(self, times, frames):
        """Stops and starts the ports in the middle of traffic, `frames` in between; whether all of them left."""
        for _ in range(times):
            if not self.start_and_stop(frames):
                return False
            self.testpmd.command_output("port stop all")
            self.testpmd.command_output("port start all")
        return True

    def missing_mbufs(self):
        """Mbufs of the pools that are not back after the ports were stopped: must be 0."""
        self.testpmd.command_output("port stop all")
        self.testpmd.command_output("port close all")
        return missing_mbufs(self.testpmd)

    def __exit__(self, kind, *_):
        self.testpmd.close()
        self.report = self.testpmd.report

    def cleanup(self):
        """Removes the capture that came out."""
        self._folder.cleanup()


def missing_mbufs(testpmd):
    """populated - available over all mbuf pools, from `dump_mempool`."""
    missing = 0
    for block in testpmd.command_output("dump_mempool").split("mempool <")[1:]:
        name = block.split(">")[0]
        if not name.startswith("mb_pool"):
            continue
        fields = dict(line.strip().split("=", 1) for line in block.splitlines() if line.count("=") == 1)
        available = int(fields["common_pool_count"]) + int(fields.get("total_cache_count", 0))
        missing += int(fields["populated_size"]) - available
    return missing
