# SPDX-License-Identifier: BSD-3-Clause
"""Every capture goes in at one port and comes out of the other, byte for byte."""

import unittest

from support import CAPTURES, LONGEST_IP_FRAME, Forwarding, capture_names, capture_size, pcap_diff


class Captures(unittest.TestCase):
    """One test a capture, made below."""

    def forward(self, name, longest):
        """Forwards one capture; nothing may be lost, changed, left behind or against the rules."""
        capture = CAPTURES / name
        with Forwarding(capture, longest=longest) as forwarding:
            forwarding.run()
            self.assertEqual(forwarding.missing_mbufs(), 0, "mbufs that did not come back")
        self.assertRegex(pcap_diff(capture, forwarding.out), "^identical")
        self.assertEqual(forwarding.stats_in["RX-packets"], forwarding.expected)
        self.assertEqual(forwarding.report["broken_rules"], {})
        self.assertEqual([port["contexts"] for port in forwarding.report["ports"]], [0, 0], "devices left open")
        forwarding.cleanup()

    def test_frames_above_the_mtu_are_dropped_and_counted(self):
        """cassandra.pcap at MTU 1500: the long frames are dropped and counted, the others are untouched"""
        capture = CAPTURES / "cassandra.pcap"
        with Forwarding(capture) as forwarding:
            forwarding.testpmd.command_output("start")
            forwarding.testpmd.wait_until_quiet(lambda: forwarding.testpmd.stats(1)["TX-packets"])
            stats = forwarding.testpmd.stats(0)
            forwarding.testpmd.command_output("stop")
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(capture, forwarding.out, "--longest", str(LONGEST_IP_FRAME)), "^identical")
        dropped = forwarding.expected - stats["RX-packets"]
        self.assertGreater(dropped, 0)
        self.assertEqual(stats["RX-errors"] + stats["RX-missed"], dropped)
        forwarding.cleanup()


def add_capture(name):
    """Adds test_<capture> to the class."""
    longest = max(LONGEST_IP_FRAME, capture_size(CAPTURES / name)[2] + 4)

    def test(self):
        self.forward(name, longest)

    test.__doc__ = f"{name} comes out as it went in (frames up to {longest} bytes)"
    setattr(Captures, "test_" + name.split(".")[0].replace("-", "_"), test)


for capture_name in capture_names():
    add_capture(capture_name)
