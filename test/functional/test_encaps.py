# SPDX-License-Identifier: BSD-3-Clause
"""testpmd over ports whose frames travel in something else than Ethernet.

Four ports in a row: a generator, an encapsulating port, wired to another of its kind, a generator that checks what comes
out. testpmd joins the first two and the last two, so that a frame is put into a packet by the second port and taken out by
the third. Both generators send, so that all goes both ways.
"""

import unittest

from support import BUILD
from pmdrun.testpmd import Testpmd

FRAMES = 1000


class Chain:
    """The row of four ports."""

    def __init__(self, encap, mode, queues, size="60-1514", args=()):
        gen = f"wire=gen,size={size},flows=64,count={FRAMES},check=on"
        self.testpmd = Testpmd(
            BUILD, [f"mlx5_0,{gen}", "mlx5_1,wire=pair", "mlx5_2,wire=pair", f"mlx5_3,{gen}"],
            ["net_stride0,ibdev=mlx5_0", f"net_stride1,ibdev=mlx5_1,encap={encap}",
             f"net_stride2,ibdev=mlx5_2,encap={encap}", "net_stride3,ibdev=mlx5_3"],
            [f"--forward-mode={mode}", f"--rxq={queues}", f"--txq={queues}", "--total-num-mbufs=16384", "--rxd=1024", *args],
            memory_mib=768 if queues > 4 else 320)
        self.xstats = {}
        self.sent = {}
        self.bytes = {}

    def run(self):
        """Forwards until all is through; the counters of the ports are kept."""
        with self.testpmd as testpmd:
            testpmd.command_output("start")
            sent = lambda port: testpmd.stats(port).get("TX-packets", 0)
            testpmd.wait_for(lambda: sent(0) >= FRAMES and sent(3) >= FRAMES, timeout_s=30)
            testpmd.command_output("stop")
            self.xstats = {port: testpmd.xstats(port) for port in (1, 2)}
            self.sent = {port: sent(port) for port in range(4)}
            self.bytes = {port: (testpmd.stats(port)["RX-bytes"], testpmd.stats(port)["TX-bytes"]) for port in range(4)}
        return self.testpmd.report


class OpaVnic(unittest.TestCase):
    """encap=opa_vnic"""

    def forward(self, mode, queues, **more):
        """All frames come out as they went in, whichever way."""
        chain = Chain("opa_vnic", mode, queues, **more)
        report = chain.run()
        self.assertEqual([chain.sent[port] for port in (0, 3)], [FRAMES, FRAMES])
        self.assertEqual(report["broken_rules"], {})
        # What a port has sent to the generator beside it is what came out of the packets, byte for byte.
        self.assertEqual([chain.bytes[port][0] for port in (1, 2)], [chain.bytes[port][1] for port in (0, 3)])
        for port in (0, 3):
            wire = report["ports"][port]["wire"]
            wrong = {name: wire[name] for name in ("sink_foreign", "sink_wrong_length", "sink_wrong_bytes",
                                                   "sink_duplicates", "sink_missing") if wire[name] != 0}
            self.assertEqual(wrong, {}, f"port {port}")
        for port in (1, 2):
            for name in ("rx_runt", "rx_oversize", "rx_bad_veswid", "rx_drop_state", "rx_logic", "tx_dlid_zero"):
                self.assertEqual(chain.xstats[port][name], 0, f"port {port}: {name}")
        return report

    def test_io(self):
        """io: through 16B packets and back, 1 queue"""
        self.forward("io", 1)

    def test_macswap(self):
        """macswap, 4 queues"""
        self.forward("macswap", 4)

    def test_5tswap(self):
        """5tswap, 16 queues: swapped twice on the way"""
        self.forward("5tswap", 16)

    def test_foreign_switch(self):
        """packets of another virtual Ethernet switch are counted by the kernel's name and dropped"""
        gen = f"wire=gen,size=100,count={FRAMES}"
        with Testpmd(BUILD, [f"mlx5_0,{gen}", "mlx5_1,wire=pair", "mlx5_2,wire=pair"],
                     ["net_stride0,ibdev=mlx5_0", "net_stride1,ibdev=mlx5_1,encap=opa_vnic:5",
                      "net_stride2,ibdev=mlx5_2,encap=opa_vnic:6"],
                     ["--forward-mode=io", "--port-topology=chained", "--total-num-mbufs=8192"]) as testpmd:
            testpmd.command_output("start")
            dropped = lambda: testpmd.xstats(2).get("rx_bad_veswid", 0)
            self.assertTrue(testpmd.wait_for(lambda: dropped() >= FRAMES, timeout_s=20), dropped())
            stats = testpmd.stats(2)
            self.assertEqual([stats[name] for name in ("RX-packets", "RX-bytes", "RX-errors")], [0, 0, FRAMES])
            testpmd.command_output("stop")
        self.assertEqual(testpmd.report["broken_rules"], {})

    def test_two_switches_on_a_device(self):
        """two ports of a device, on switches of their own: each gets its frames alone; nobody's are counted once"""
        count = 300  # of three senders, so that all fits the queue of a port that gets copies
        gen = lambda seed: f"wire=gen,size=60-1514,flows=64,count={count},check=on,seed={seed}"
        vnic = lambda number, device, switch: f"net_stride{number},ibdev=mlx5_{device},encap=opa_vnic:{switch}"
        generators = {0: "mlx5_2", 2: "mlx5_3", 5: "mlx5_4", 7: "mlx5_5", 8: "mlx5_6"}
        seeds = {0: 1, 2: 2, 5: 1, 7: 2, 8: 3}
        vnics = {1: (0, 5), 3: (0, 6), 4: (1, 5), 6: (1, 6), 9: (0, 7)}
        vdevs = [f"net_stride{port},ibdev={generators[port]}" if port in generators else vnic(port, *vnics[port])
                 for port in range(10)]
        with Testpmd(BUILD, ["mlx5_0,wire=pair", "mlx5_1,wire=pair", *(f"{generators[port]},{gen(seeds[port])}" for port in generators)],
                     vdevs, ["--forward-mode=io", "--total-num-mbufs=16384", "--max-pkt-len=1540", "--rxd=1024"], memory_mib=512) as testpmd:
            testpmd.command_output("start")
            sent = lambda port: testpmd.stats(port).get("TX-packets", 0)
            testpmd.wait_for(lambda: all(sent(port) >= count for port in (0, 2, 5, 7, 9)), timeout_s=30)
            nobodys = lambda port: testpmd.xstats(port)["rx_bad_veswid"]
            testpmd.wait_for(lambda: nobodys(4) >= count, timeout_s=10)
            testpmd.command_output("stop")
            self.assertEqual({port: nobodys(port) for port in vnics}, {1: 0, 3: 0, 4: count, 6: 0, 9: 0})
            self.assertEqual({port: testpmd.stats(port)["RX-packets"] for port in vnics},
                             {1: count, 3: count, 4: count, 6: count, 9: 0})
            self.assertEqual(testpmd.xstats(6)["rx_other_port"], 2 * count)
        self.assertEqual(testpmd.report["broken_rules"], {})
        wires = [port["wire"] for port in testpmd.report["ports"]]
        for port in (0, 2, 5, 7):
            wire = wires[int(generators[port][-1])]
            wrong = {name: wire[name] for name in ("sink_foreign", "sink_wrong_length", "sink_wrong_bytes",
                                                   "sink_duplicates", "sink_missing") if wire[name] != 0}
            self.assertEqual(wrong, {}, f"port {port}")

    def test_mtu(self):
        """MTU 9000: frames of every length up to it"""
        self.forward("io", 1, size="60-9000", args=("--max-pkt-len=9018", "--mbuf-size=9600", "--total-num-mbufs=4096", "--rxd=2048"))
