# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow from testpmd's command line."""

import pathlib
import tempfile
import unittest

from frames import udp_frame, write_pcap
from support import Forwarding, pcap_diff

MARKED_PORT = 1005


class FlowRules(unittest.TestCase):
    """Rules on a port that receives by rules only."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stride-test-")
        self.addCleanup(folder.cleanup)
        self.capture = pathlib.Path(folder.name) / "flows.pcap"
        # The first frame is nobody's until the last rule is made: the wire waits with it, and with the rest.
        ports = [1000] + [1000 + n % 10 for n in range(1, 60)]
        self.marked = ports.count(MARKED_PORT)
        write_pcap(self.capture, [udp_frame(4, 60 + 20 * n, n, ports=(port, 9)) for n, port in enumerate(ports)])

    def create(self, testpmd, rule):
        """Makes a rule on port 0."""
        self.assertRegex(testpmd.command_output(f"flow create 0 {rule} / end"), r"Flow rule #\d+ created")

    def test_mark_and_queue(self):
        """flow create ... actions mark / queue: the rule's frames have its mark and come to its queue, the others to the other"""
        for driver_args in ("", ",cqe_compression=1", ",copy_threshold_bytes=0"):
            with self.subTest(driver_args=driver_args):
                self.mark_and_queue(driver_args)

    def mark_and_queue(self, driver_args):
        """One run."""
        with Forwarding(self.capture, "--flow-isolate-all", queues=2, driver_args=driver_args) as forwarding:
            testpmd = forwarding.testpmd
            self.create(testpmd, f"ingress pattern eth / ipv4 / udp src is {MARKED_PORT} / end actions mark id 0x1234 / queue index 1")
            self.create(testpmd, "priority 1 ingress pattern eth / end actions queue index 0")
            testpmd.command_output("set verbose 1")
            printed = testpmd.command_printing("start", "FDIR matched ID=0x1234", self.marked)
            testpmd.wait_for(lambda: testpmd.stats(1)["TX-packets"] >= forwarding.expected)
            testpmd.command_output("stop")
            counted = testpmd.xstats(0)
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertEqual(printed.count("FDIR matched ID=0x1234"), self.marked)
        self.assertEqual(counted["rx_q1_packets"], self.marked)
        self.assertEqual(counted["rx_q0_packets"], forwarding.expected - self.marked)
        self.assertRegex(pcap_diff(self.capture, forwarding.out, "--any-order"), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()

    def test_refused(self):
        """what verbs can't do is refused, and named"""
        with Forwarding(self.capture, "--flow-isolate-all") as forwarding:
            for rule, name in (("ingress pattern eth / ipv4 / udp / vxlan / end actions queue index 0", "VXLAN"),
                               ("ingress pattern eth / end actions count / queue index 0", "COUNT"),
                               ("egress pattern eth / end actions queue index 0", "ingress")):
                self.assertIn(name, forwarding.testpmd.command_output(f"flow create 0 {rule} / end"))
            self.assertEqual(forwarding.missing_mbufs(), 0)
        forwarding.cleanup()
