# SPDX-License-Identifier: BSD-3-Clause
"""Several queues by RSS, and bursts of every size."""

import unittest

from support import CAPTURES, SCOPE, Forwarding, pcap_diff

CAPTURE = CAPTURES / "exe_download.pcap"
BURSTS = [1, 2, 3, 4, 5, 8, 31, 32, 33, 63, 64, 65, 128, 256, 511, 512]


class Queues(unittest.TestCase):
    """Frames come out complete whatever the number of queues and the burst."""

    def forward(self, capture, **options):
        """Forwards and compares, order of different flows aside if there are several queues."""
        order = ["--any-order"] if options.get("queues", 1) > 1 else []
        with Forwarding(capture, **options) as forwarding:
            forwarding.run()
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(capture, forwarding.out, *order), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()
        return forwarding

    def test_several_queues(self):
        """2, 3 and 4 queues: every frame comes out once"""
        for queues in (2, 3, 4):
            with self.subTest(queues=queues):
                self.forward(CAPTURES / "coap_mqtt.pcap", queues=queues)

    def test_bursts(self):
        """bursts from 1 to 512"""
        for burst in BURSTS if SCOPE == "long" else BURSTS[::3] + [512]:
            with self.subTest(burst=burst):
                self.forward(CAPTURE, burst=burst)

    def test_looped_capture(self):
        """200 rounds of a capture: rings wrap, nothing is lost"""
        rounds = 200
        with Forwarding(CAPTURE, wire_in=f",loop={rounds}") as forwarding:
            forwarding.run(forwarding.expected * rounds)
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(CAPTURE, forwarding.out, "--repeats", str(rounds)), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()


class StartStop(unittest.TestCase):
    """Ports that are stopped and started again."""

    def test_restart(self):
        """ports stopped and started ten times in the middle of traffic go on, and every mbuf comes back"""
        with Forwarding(CAPTURE, wire_in=",loop=0,rate=20000") as forwarding:
            self.assertTrue(forwarding.restart_ports(10, 500))
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertEqual(forwarding.report["broken_rules"], {})
        self.assertEqual([port["contexts"] for port in forwarding.report["ports"]], [0, 0], "devices left open")
        forwarding.cleanup()

    def test_queue_restart(self):
        """single queues stopped and started in the middle of traffic: what the device received is handed over or counted as discarded"""
        with Forwarding(CAPTURES / "coap_mqtt.pcap", wire_in=",loop=0,rate=20000", queues=2) as forwarding:
            testpmd = forwarding.testpmd
            for queue in (0, 1) * 4:
                self.assertTrue(forwarding.start_and_stop(500))
                for command in ("stop", "start"):
                    for kind in ("rxq", "txq"):
                        answer = testpmd.command_output(f"port {1 if kind == 'txq' else 0} {kind} {queue} {command}")
                        self.assertNotIn("ail", answer)
            testpmd.command_output("port stop 0")
            counted = testpmd.xstats(0)
            self.assertEqual(forwarding.missing_mbufs(), 0)
        arrived = forwarding.report["ports"][0]["counters"]
        self.assertEqual(counted["rx_good_packets"] + counted["rx_discarded_at_stop"], arrived["rx_frames"])
        self.assertGreater(arrived["rx_queue_error"], 0, "no frame came for a stopped queue")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()
