# SPDX-License-Identifier: BSD-3-Clause
"""testpmd's forwarding modes over pcap and pair wires."""

import unittest

from support import BUILD, CAPTURES, Forwarding, missing_mbufs, pcap_diff
from pmdrun.testpmd import Testpmd

CAPTURE = CAPTURES / "coap_mqtt.pcap"


class PcapModes(unittest.TestCase):
    """From a capture to a capture."""

    def forward(self, mode, *diff_options, driver_args=""):
        """Forwards CAPTURE in `mode` and compares."""
        with Forwarding(CAPTURE, mode=mode, driver_args=driver_args) as forwarding:
            forwarding.run()
            if driver_args:
                self.assertGreater(forwarding.testpmd.xstats(0)["rx_attached"], 0)
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(CAPTURE, forwarding.out, *diff_options), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()

    def test_io(self):
        """io: frames come out as they went in"""
        self.forward("io")

    def test_mac(self):
        """mac: only the addresses differ"""
        self.forward("mac", "--ignore-macs")

    def test_macswap(self):
        """macswap: only the addresses differ"""
        self.forward("macswap", "--ignore-macs")

    def test_csum(self):
        """csum: checksums made by the device are those testpmd makes itself"""
        # Not those of the capture: it was taken on the sender, before its NIC had made them.
        with Forwarding(CAPTURE, mode="csum") as software:
            software.run()
        with Forwarding(CAPTURE, mode="csum") as device:
            for command in ("port stop 1", "csum set ip hw 1", "csum set udp hw 1", "csum set tcp hw 1", "port start 1",
                            "set promisc all on"):
                device.testpmd.command_output(command)
            device.run()
            self.assertEqual(device.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(software.out, device.out), "^identical")
        self.assertEqual(device.report["broken_rules"], {})
        software.cleanup()
        device.cleanup()

    def test_attached(self):
        """modes that change frames in place (macswap, 5tswap, csum, mac): attached packets keep their flag, every buffer comes home"""
        for mode, options in (("macswap", ["--ignore-macs"]), ("mac", ["--ignore-macs"]), ("io", [])):
            with self.subTest(mode=mode):
                self.forward(mode, *options, driver_args=",copy_threshold_bytes=0")
        for mode in ("5tswap", "csum"):
            with self.subTest(mode=mode), Forwarding(CAPTURE, mode=mode, driver_args=",copy_threshold_bytes=0") as attached:
                attached.run()
                self.assertGreater(attached.testpmd.xstats(0)["rx_attached"], 0)
                attached.testpmd.command_output("port stop 1")  # frees what it has sent
                self.assertEqual(attached.testpmd.xstats(0)["rx_buffers_held"], 0)
                self.assertEqual(attached.missing_mbufs(), 0)
            with Forwarding(CAPTURE, mode=mode, driver_args=",copy_threshold_bytes=65535") as copied:
                copied.run()
            self.assertRegex(pcap_diff(attached.out, copied.out), "^identical")
            self.assertEqual(attached.report["broken_rules"], {})
            attached.cleanup()
            copied.cleanup()

    def test_rxonly(self):
        """rxonly: every frame is received and freed"""
        with Forwarding(CAPTURE, mode="rxonly") as forwarding:
            forwarding.testpmd.command_output("start")
            received = lambda: forwarding.testpmd.stats(0)["RX-packets"]
            forwarding.testpmd.wait_for(lambda: received() >= forwarding.expected, timeout_s=20)
            self.assertEqual(received(), forwarding.expected)
            forwarding.testpmd.command_output("stop")
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertEqual(forwarding.report["broken_rules"], {})
        forwarding.cleanup()


class PairModes(unittest.TestCase):
    """Two ports back to back: what one sends the other receives, or the wire counts it lost."""

    def setUp(self):
        self.testpmd = None

    def start(self, mode, *args):
        """A testpmd whose two ports are joined."""
        self.testpmd = Testpmd(BUILD, ["mlx5_0,wire=pair", "mlx5_1,wire=pair"],
                               ["net_stride0,ibdev=mlx5_0", "net_stride1,ibdev=mlx5_1"],
                               [f"--forward-mode={mode}", "--total-num-mbufs=8192", *args])
        return self.testpmd

    def check_balance(self, testpmd):
        """After stop: received + missed + not taken == sent, in both directions."""
        testpmd.command_output("stop")
        first, second = testpmd.wait_until_quiet(lambda: (testpmd.stats(0), testpmd.stats(1)))
        for sender, receiver in ((first, second), (second, first)):
            came = receiver["RX-packets"] + receiver["RX-missed"] + receiver["RX-errors"]
            waiting = sender["TX-packets"] - came  # in the receive ring, not polled any more
            self.assertGreaterEqual(waiting, 0)
            self.assertLess(waiting, 8192)

    def finish(self, testpmd):
        """Everything came home, no rule was broken."""
        testpmd.command_output("port stop all")
        testpmd.command_output("port close all")
        self.assertEqual(missing_mbufs(testpmd), 0)
        testpmd.close()
        self.assertEqual(testpmd.report["broken_rules"], {})

    def bounce(self, mode):
        """Frames sent first bounce between the ports."""
        with self.start(mode) as testpmd:
            testpmd.command_output("start tx_first 4")
            self.assertTrue(testpmd.wait_for(lambda: testpmd.stats(0)["RX-packets"] > 20000))
            self.check_balance(testpmd)
            self.finish(testpmd)

    def test_io(self):
        """io over a pair: frames bounce for ever, none is lost uncounted"""
        self.bounce("io")

    def test_macswap(self):
        """macswap over a pair"""
        self.bounce("macswap")

    def test_txonly(self):
        """txonly over a pair: both ports send, what is not polled is counted as missed"""
        with self.start("txonly") as testpmd:
            testpmd.command_output("start")
            self.assertTrue(testpmd.wait_for(lambda: testpmd.stats(0)["TX-packets"] > 50000))
            testpmd.command_output("stop")
            first, second = testpmd.wait_until_quiet(lambda: (testpmd.stats(0), testpmd.stats(1)))
            self.assertGreater(first["RX-missed"], 0)
            self.assertLessEqual(first["RX-missed"], second["TX-packets"])
            self.finish(testpmd)
