# SPDX-License-Identifier: BSD-3-Clause
"""Ports of every encap between two processes over a fabric, with many send queues.

In each process testpmd joins a generator and a port on the fabric; both generators send, and check what came all the way
from the other. IPoIB takes a frame's way from its MAC address, so the generators write the peer's where the forwarding mode
will leave it as the destination.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import frames
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

    def __init__(self, encap, mode, queues, folder, devargs=None, frame_bytes=1514):
        self.pcap = pathlib.Path(folder) / "fabric.pcap"
        self.queues = queues
        self.sides = {}
        self.reports = {}
        self.macs = {}
        self.used = {}
        name = f"test-{os.getpid()}-{encap}-{mode}-{queues}"
        for lid in (1, 2):
            address = "dst" if mode == "io" else "src"
            gen = f"wire=gen,size=60-{frame_bytes},flows=64,count={FRAMES},check=on,{address}={peer_mac(3 - lid)}"
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
                 "--total-num-mbufs=32768" if frame_bytes < 2000 else "--total-num-mbufs=8192",
                 "--max-pkt-len=1540" if frame_bytes < 2000 else f"--max-pkt-len={frame_bytes + 4}",
                 *(["--mbuf-size=4480"] if frame_bytes > 2000 else [])],
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

    def forward(self, encap, mode, queues, devargs=None, **more):
        """Runs, checks, and returns the two sides."""
        fabric = Fabric(encap, mode, queues, self.folder.name, devargs, **more)
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

    def test_largest_datagrams(self):
        """IPoIB, MTU 4092: frames of every length up to it, none too long for a fabric of 4096"""
        self.forward("ipoib", "io", 1, frame_bytes=4092 + 14)

    def test_opa_vnic(self):
        """OPA VNIC: io, macswap and 5tswap"""
        self.every_mode("opa_vnic", [("macswap", 16)])

    def test_ethernet(self):
        """Ethernet: io, macswap and 5tswap"""
        self.every_mode("ethernet", [("5tswap", 16)])


def mac_bytes(text):
    """The six bytes of a MAC address."""
    return bytes.fromhex(text.replace(":", ""))


def arp_frame(operation, source, target, destination):
    """ARP for IPv4 from the port `source` (a LID) about `target`; what is not known of the target is 0."""
    known = mac_bytes(peer_mac(target)) if operation == 2 else bytes(6)
    return (mac_bytes(destination) + mac_bytes(peer_mac(source)) + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, operation) +
            mac_bytes(peer_mac(source)) + bytes([10, 0, 0, source]) + known + bytes([10, 0, 0, target]))


def neighbour_frame(kind, source, target, destination, options):
    """An ICMPv6 message of neighbour discovery between link-local addresses of two ports, about `target`."""
    address = lambda lid: bytes([0xFE, 0x80] + [0] * 13 + [lid])
    group = bytes.fromhex("ff0200000000000000000001ff0000") + bytes([target])
    to = group if destination.startswith("33:33") else address(target)
    message = struct.pack(">BBHI", kind, 0, 0, 0) + (address(target) if kind == 135 else address(source)) + options
    pseudo = address(source) + to + struct.pack(">II", len(message), 58)
    message = message[:2] + struct.pack(">H", frames.checksum(pseudo + message)) + message[4:]
    ip = struct.pack(">IHBB", 6 << 28, len(message), 58, 255) + address(source) + to
    return mac_bytes(destination) + mac_bytes(peer_mac(source)) + b"\x86\xdd" + ip + message


class Resolution(unittest.TestCase):
    """ARP and neighbour discovery carry 20-byte addresses on an InfiniBand fabric and 6-byte ones in what applications see."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="stride-test-")

    def tearDown(self):
        self.folder.cleanup()

    @staticmethod
    def frames_of(own):
        """What the port with the LID `own` asks and answers."""
        peer = 3 - own
        link = lambda option: bytes([option, 1]) + mac_bytes(peer_mac(own))
        unknown_option = bytes([14, 1]) + bytes(6)
        return [arp_frame(1, own, peer, "ff:ff:ff:ff:ff:ff"), arp_frame(2, own, peer, peer_mac(peer)),
                neighbour_frame(135, own, peer, f"33:33:ff:00:00:{peer:02x}", link(1)),
                neighbour_frame(135, own, peer, peer_mac(peer), unknown_option + link(1)),
                neighbour_frame(136, own, peer, peer_mac(peer), link(2)),
                neighbour_frame(136, own, peer, peer_mac(peer), b"")]

    def run_sides(self):
        """Both processes forward their captures to each other; returns (captures that came out, wire's capture)."""
        folder = pathlib.Path(self.folder.name)
        sides = {}
        for lid in (1, 2):
            frames.write_pcap(folder / f"in{lid}.pcap", self.frames_of(lid))
            port = f"wire=shm,fabric=test-{os.getpid()}-resolution,pause=on,link_layer=ib,lid={lid},mac=02:53:57:00:00:{lid:02x}"
            port += f",pcap={folder}/fabric.pcap" if lid == 1 else ""
            sides[lid] = Testpmd(BUILD, [f"mlx5_0,wire=pcap,in={folder}/in{lid}.pcap,out={folder}/out{lid}.pcap", f"mlx5_1,{port}"],
                                 ["net_stride0,ibdev=mlx5_0", "net_stride1,ibdev=mlx5_1"],
                                 ["--forward-mode=io", "--total-num-mbufs=8192", "--max-pkt-len=1540"],
                                 eal=("--file-prefix", f"stride{os.getpid()}-{lid}"))
        try:
            for side in sides.values():
                side.command_output("start")
            for lid, side in sides.items():
                came = side.wait_for(lambda side=side: side.stats(0).get("TX-packets", 0) >= len(self.frames_of(1)), timeout_s=20)
                self.assertTrue(came, f"side {lid}: {side.stats(0)} {side.xstats(1)}")
                side.command_output("stop")
        finally:
            for side in sides.values():
                side.close()
        return {lid: frames.read_pcap(folder / f"out{lid}.pcap") for lid in (1, 2)}, folder / "fabric.pcap"

    def test_resolution(self):
        """ARP and neighbour discovery arrive byte for byte as they were sent, and are those of InfiniBand between"""
        came, capture = self.run_sides()
        for lid in (1, 2):
            sent = self.frames_of(3 - lid)
            self.assertEqual([frame[:len(one)].hex() for frame, one in zip(came[lid], sent)], [one.hex() for one in sent],
                             f"at side {lid}")
            self.assertEqual([any(frame[len(one):]) for frame, one in zip(came[lid], sent)], [False] * len(sent), "only padding")
        wire = frames.read_pcap(capture)
        self.assertEqual(len(wire), 2 * len(self.frames_of(1)))
        arps = [packet for packet in wire if bytes.fromhex("0806 0000 0020 0800 1404") in packet]
        self.assertEqual(len(arps), 4, "ARP of hardware type 32 with addresses of 20 bytes")


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
