# SPDX-License-Identifier: BSD-3-Clause
"""Pools whose memory is the WQE buffers: testpmd with --mbuf-pool-ops-name=stride and nothing else changed."""

import unittest

from support import CAPTURES, Forwarding, pcap_diff

BIND = ["--mbuf-pool-ops-name=stride"]


class Bound(unittest.TestCase):
    """Frames come out of the strides they were received into."""

    def forward(self, name, *args, policy="bind", diff=(), **options):
        """Forwards a capture; the receive queue must have the policy."""
        with Forwarding(CAPTURES / name, *args, eal=BIND, **options) as forwarding:
            self.assertIn(policy, forwarding.testpmd.command_output("show rxq info 0 0"))
            forwarding.run()
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(CAPTURES / name, forwarding.out, *diff), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()

    def test_captures(self):
        """captures of small, large and odd frames are bound and come out as they went in"""
        for name in ("exe_download.pcap", "coap_mqtt.pcap", "ip_fragmented_garbage.pcap", "mongodb.pcap"):
            with self.subTest(capture=name):
                self.forward(name)

    def test_macswap(self):
        """bound frames may be changed in place (macswap)"""
        self.forward("coap_mqtt.pcap", mode="macswap", diff=["--ignore-macs"])

    def test_queues(self):
        """four queues share one bound pool"""
        self.forward("coap_mqtt.pcap", queues=4, diff=["--any-order"])

    def test_long_frames(self):
        """frames longer than an mbuf fall back to attach"""
        self.forward("cassandra.pcap", "--mbuf-size=2176", policy="attach", longest=26000)
