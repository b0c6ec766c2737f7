# SPDX-License-Identifier: BSD-3-Clause
"""Ports of every encap between two processes over a fabric, with many send queues.

In each process testpmd joins a generator and a port on the fabric; both generators send, and check what came all the way
from the other. IPoIB takes a frame's way from its MAC address, so the generators write the peer's where the forwarding mode
will leave it as the destination.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import BUILD, SCOPE
from pmdrun.testpmd import Testpmd

FRAMES = 1000
QPN = 0x40  # of the first QP that a process makes on a port of the software HCA
FAULTS = ("sink_foreign", "sink_wrong_length", "sink_wrong_bytes", "sink_duplicates", "sink_missing")
LINK = {"ipoib": "link_layer=ib", "opa_vnic": "link_layer=opa", "ethernet": "link_layer=eth"}
RING = {1: 1024, 4: 512, 16: 256}
MATRIX = [(mode, queues) for mode in ("io", "macswap", "5tswap") for queues in (1, 4, 16)]


def peer_mac(lid):
    """The MAC of the IPoIB port with this LID: 02, QPN, LID."""
    return f"02:00:00:{QPN:02x}:00:{lid:02x}"


class Fabric:
    """Two testpmd, numbered by the LID of their ports on the fabric: 1 and 2."""

    def __init__(self, encap, mode, queues, folder, devargs=None):
        self.pcap = pathlib.Path(folder) / "fabric.pcap"
        self.queues = queues
        self.sides = {}
        self.reports = {}
        self.macs = {}
        self.used = {}
        name = f"test-{os.getpid()}-{encap}-{mode}-{queues}"
        for lid in (1, 2):
            address = "dst" if mode == "io" else "src"
            gen = f"wire=gen,size=60-1514,flows=64,count={FRAMES},check=on,{address}={peer_mac(3 - lid)}"
            port = f"wire=shm,fabric={name},pause=on,{LINK[encap]},mac=02:53:57:00:00:{lid:02x}"
            if encap == "ipoib":
                port += f",lid={lid}"
            if lid == 1:
                port += f",pcap={self.pcap}"
            own = f",encap={encap}" if devargs is None else devargs
            self.sides[lid] = Testpmd(
                BUILD, [f"mlx5_0,{gen}", f"mlx5_1,{port}"],
                ["net_stride0,ibdev=mlx5_0", f"net_stride1,ibdev=mlx5_1{own}"],
                [f"--forward-mode={mode}", f"--rxq={queues}", f"--txq={queues}", f"--rxd={RING[queues]}",
                 "--total-num-mbufs=32768", "--max-pkt-len=1540"],
                eal=("--file-prefix", f"stride{os.getpid()}-{lid}"), memory_mib=288)

    def run(self):
        """Forwards until all is through."""
        try:
            for lid, side in self.sides.items():
                info = side.command_output("show port info 1")
                self.macs[lid] = next(line.split()[-1].lower() for line in info.splitlines() if "MAC address:" in line)
                side.command_output("start")
            sent = lambda side: side.stats(0).get("TX-packets", 0)
            for side in self.sides.values():
                side.wait_for(lambda side=side: sent(side) >= FRAMES, timeout_s=30)
            for lid, side in self.sides.items():
                side.command_output("stop")
                xstats = side.xstats(1)
                self.used[lid] = sum(xstats.get(f"tx_q{queue}_packets", 0) > 0 for queue in range(self.queues))
        finally:
            for lid, side in self.sides.items():
                side.close()
                self.reports[lid] = side.report


class EveryEncap(unittest.TestCase):
    """Frames of both directions arrive as they were sent, over 1, 4 and 16 send queues."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="stride-test-")

    def tearDown(self):
        self.folder.cleanup()

    def forward(self, encap, mode, queues, devargs=None):
        """Runs, checks, and returns the two sides."""
        fabric = Fabric(encap, mode, queues, self.folder.name, devargs)
        fabric.run()
        for lid in (1, 2):
            report = fabric.reports[lid]
            wire = report["ports"][0]["wire"]
            self.assertEqual(wire["sink_frames"], FRAMES, f"side {lid}: {wire}")
            self.assertEqual({name: wire[name] for name in FAULTS if wire[name] != 0}, {}, f"side {lid}")
            self.assertEqual(report["broken_rules"], {}, f"side {lid}")
            self.assertEqual([port["contexts"] for port in report["ports"]], [0, 0], "devices left open")
            self.assertEqual(fabric.used[lid], queues, f"send queues in use on side {lid}")
            self.assertNotIn("resource busy", fabric.sides[lid].text())
        return fabric

    def every_mode(self, encap, normal, check=lambda fabric: None):
        """All of the matrix in the long scope, else those of `normal`. An InfiniBand port is IPoIB unasked."""
        for mode, queues in MATRIX if SCOPE == "long" else normal:
            with self.subTest(mode=mode, queues=queues):
                check(self.forward(encap, mode, queues, "" if (encap, mode) == ("ipoib", "io") else None))

    def one_source_qpn(self, fabric):
        """Whatever queue sent it, a packet on the wire bears the QPN that the port's MAC tells."""
        for lid in (1, 2):
            self.assertEqual(fabric.macs[lid], peer_mac(lid))
        if shutil.which("tshark") is None:
            self.skipTest("tshark is not installed: nobody reads the wire's capture")
        printed = subprocess.run(
            ["tshark", "-r", fabric.pcap, "-T", "fields", "-e", "infiniband.lrh.slid", "-e", "infiniband.deth.srcqp",
             "-e", "infiniband.bth.destqp"], capture_output=True, text=True, check=True).stdout.splitlines()
        packets = [tuple(int(word, 0) for word in line.split()) for line in printed]
        self.assertEqual({packet[1:] for packet in packets}, {(QPN, QPN)})
        self.assertEqual({lid: sum(packet[0] == lid for packet in packets) for lid in (1, 2)}, {1: FRAMES, 2: FRAMES})

    def test_ipoib(self):
        """IPoIB: io, macswap and 5tswap; one source QPN on the wire"""
        self.every_mode("ipoib", [("io", 4), ("5tswap", 16)], self.one_source_qpn)

    def test_opa_vnic(self):
        """OPA VNIC: io, macswap and 5tswap"""
        self.every_mode("opa_vnic", [("macswap", 16)])

    def test_ethernet(self):
        """Ethernet: io, macswap and 5tswap"""
        self.every_mode("ethernet", [("5tswap", 16)])


class LinkLayers(unittest.TestCase):
    """An encap that the port's link layer does not carry is refused by name."""

    def refusal(self, link, encap):
        """What testpmd says of such a port."""
        command = [f"{BUILD}/app/swhca/swhca", "run", "--port", f"mlx5_0,wire=loop,{link}", "--", "dpdk-testpmd", "--no-huge",
                   "-m", "64", "--no-pci", "--no-shconf", "-d", "librte_net_stride.so", "--vdev",
                   f"net_stride0,ibdev=mlx5_0,encap={encap}", "--", "--stats-period=1"]
        env = {**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/drivers/net/stride"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        return done.stdout + done.stderr

    def test_wrong_link_layer(self):
        """encap=ethernet and opa_vnic on InfiniBand, ipoib on Ethernet: refused, with what the port is"""
        for link, encap, port in (("link_layer=ib", "ethernet", "an InfiniBand port"), ("link_layer=ib", "opa_vnic", "an InfiniBand port"),
                                  ("link_layer=eth", "ipoib", "an Ethernet port")):
            with self.subTest(link=link, encap=encap):
                said = self.refusal(link, encap)
                self.assertIn(f"devarg encap={encap}", said)
                self.assertIn(port, said)
