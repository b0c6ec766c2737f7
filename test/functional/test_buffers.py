# SPDX-License-Identifier: BSD-3-Clause
"""Packets left in the buffers where the device wrote them, in the hands of other drivers and other kinds of pools."""

import pathlib
import tempfile
import unittest

from support import BUILD, CAPTURES, Forwarding, capture_size, missing_mbufs, pcap_diff
from pmdrun import machine
from pmdrun.testpmd import Testpmd

CAPTURE = CAPTURES / "coap_mqtt.pcap"


class OtherDrivers(unittest.TestCase):
    """What net_stride received is sent by a driver that knows nothing of it."""

    def send_by(self, vdev, devargs=""):
        """From the capture to a capture that net_pcap writes."""
        with tempfile.TemporaryDirectory(prefix="stride-test-") as folder:
            out = pathlib.Path(folder) / "out.pcap"
            wanted = capture_size(CAPTURE)[0]
            with Testpmd(BUILD, [f"mlx5_0,wire=pcap,in={CAPTURE},patience=20000"],
                         [f"net_stride0,ibdev=mlx5_0{devargs}", vdev.format(out=out)],
                         ["--forward-mode=io", "--total-num-mbufs=8192"]) as testpmd:
                testpmd.command_output("start")
                testpmd.wait_for(lambda: testpmd.stats(1)["TX-packets"] >= wanted)
                testpmd.command_output("stop")
                testpmd.command_output("port stop all")
                testpmd.command_output("port close all")
                self.assertEqual(missing_mbufs(testpmd), 0)
            self.assertRegex(pcap_diff(CAPTURE, out), "^identical")

    def test_pcap_attached(self):
        """net_pcap sends packets attached to strides as they came"""
        self.send_by("net_pcap0,tx_pcap={out}", ",copy_threshold_bytes=0")

    def test_pcap_copied(self):
        """net_pcap sends packets copied to mbufs as they came"""
        self.send_by("net_pcap0,tx_pcap={out}", ",copy_threshold_bytes=65535")


class Hugepages(unittest.TestCase):
    """Memory whose pages lie anywhere for a device without an IOMMU (IOVA as PA)."""

    def forward(self, policy, *eal, driver_args=""):
        """Forwards CAPTURE; the receive queue must have the policy, and hand packets over where they were written."""
        with machine.hugepages(256) as memory_args:
            if memory_args is None:
                self.skipTest("no hugepages to be had")
            with Forwarding(CAPTURE, driver_args=driver_args, eal=["--iova-mode=pa", *eal],
                            memory_args=memory_args) as forwarding:
                self.assertIn(policy, forwarding.testpmd.command_output("show rxq info 0 0"))
                forwarding.run()
                received = forwarding.testpmd.xstats(0)
        self.assertRegex(pcap_diff(CAPTURE, forwarding.out), "^identical")
        self.assertEqual(received["rx_copied_asked"], 0)
        self.assertGreater(received["rx_attached"], 0)

    def test_attached(self):
        """hugepages, IOVA as PA: no buffer lies across pages, so that packets are attached as without"""
        self.forward("attach", driver_args=",copy_threshold_bytes=0")

    def test_bound(self):
        """hugepages, IOVA as PA: a pool of strides is made, and packets are bound"""
        self.forward("bind", "--mbuf-pool-ops-name=stride")


class OtherPools(unittest.TestCase):
    """testpmd's other ways to allocate mbufs."""

    def test_external_buffers(self):
        """a pool of pinned external buffers (--mp-alloc=xbuf): frames come out as they went in, every mbuf comes back"""
        self.forward("--mp-alloc=xbuf")

    def test_anonymous_memory(self):
        """a pool in memory that EAL does not know (--mp-alloc=anon): the same, and nothing is logged of keys"""
        self.assertNotIn("memory key", self.forward("--mp-alloc=anon").testpmd.text())

    def forward(self, *args):
        """Forwards CAPTURE."""
        with Forwarding(CAPTURE, *args) as forwarding:
            forwarding.run()
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(CAPTURE, forwarding.out), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()
        return forwarding


class Compression(unittest.TestCase):
    """cqe_compression=1: completions come as mini-CQEs."""

    def test_compression(self):
        """compressed completions, without and with the RSS hash: frames come out as they went in"""
        for queues in (1, 2):  # testpmd asks for the hash where there are several
            with self.subTest(queues=queues), Forwarding(CAPTURE, driver_args=",cqe_compression=1", queues=queues) as forwarding:
                forwarding.run()
                compressed = forwarding.testpmd.xstats(0)["rx_compressed_cqes"]
                self.assertEqual(forwarding.missing_mbufs(), 0)
            self.assertGreater(compressed, forwarding.expected // 4)
            self.assertRegex(pcap_diff(CAPTURE, forwarding.out, *(["--any-order"] if queues > 1 else [])), "^identical")
            self.assertEqual(forwarding.report["broken_rules"], {})
            forwarding.cleanup()


class ChangedDevices(unittest.TestCase):
    """The driver takes what the device offers today."""

    def test_caps(self):
        """devices that offer less: no striding, small strides only, few strides, no multi-packet send, inline headers demanded"""
        for caps in ("striding=off", "max_log_stride=9", "max_log_strides=6,min_log_strides=6", "mpw=off", "min_inline=l2",
                     "compression=off", "max_sge=4", "max_qp_wr=512,max_cqe=65535"):
            with self.subTest(caps=caps), Forwarding(CAPTURE, wire_in=f",{caps}") as forwarding:
                forwarding.run()
                self.assertEqual(forwarding.missing_mbufs(), 0)
                self.assertRegex(pcap_diff(CAPTURE, forwarding.out), "^identical")
            self.assertEqual(forwarding.report["broken_rules"], {})
            forwarding.cleanup()
