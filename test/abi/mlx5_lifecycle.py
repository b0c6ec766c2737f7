# SPDX-License-Identifier: BSD-3-Clause
"""The system's own net/mlx5 through starts and stops, long frames, and a second process."""

from frames import udp_frame
from mlx5_support import Mlx5Test
from pmdrun import machine, mlx5
from pmdrun.testpmd import Testpmd
from support import BUILD, CAPTURES, pcap_diff

CAPTURE = CAPTURES / "exe_download.pcap"


class StartStop(Mlx5Test):
    """Ports that are stopped and started again."""

    def restart(self, devargs):
        """20 times in the middle of traffic."""
        with self.forwarding(CAPTURE, devargs=devargs, wire_in=",loop=0,rate=20000") as forwarding:
            self.assertTrue(forwarding.restart_ports(20, 300))
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.check_report(forwarding.report)

    def test_restart_sprq(self):
        """net/mlx5, single-packet receive queues: ports go on after each of 20 stops and starts in traffic"""
        self.restart(mlx5.SPRQ)

    def test_restart_mprq(self):
        """net/mlx5, multi-packet receive queues: ports go on after each of 20 stops and starts in traffic"""
        self.restart(mlx5.MPRQ)


class LongFrames(Mlx5Test):
    """MTU 9000."""

    LONGEST = 9018

    def test_mtu_9000(self):
        """net/mlx5, MTU 9000: frames up to the longest, in one mbuf, over several, in strides"""
        lengths = [18, 1472, 1473, 2000, 2048, 4096, 8000, 8971, 8972] * 40
        capture = self.pcap("long", [udp_frame(4, length, n) for n, length in enumerate(lengths)])
        for devargs, mbuf_bytes in ((mlx5.SPRQ, 9600), (mlx5.SPRQ, 2176), (mlx5.MPRQ, 9600), (mlx5.MPRQ, 2176)):
            scatter = ["--enable-scatter"] if mbuf_bytes < self.LONGEST else []
            with self.subTest(devargs=devargs, mbuf_bytes=mbuf_bytes):
                self.forward(capture, *scatter, f"--mbuf-size={mbuf_bytes}", "--total-num-mbufs=16384", "--tx-offloads=0x8000",
                             devargs=devargs, longest=self.LONGEST)


class SecondProcess(Mlx5Test):
    """Queues of one port in two processes."""

    MEMORY_MIB = 400

    def share(self, devargs, memory_args):
        """Two processes with a queue each forward one capture."""
        queues = ["--num-procs=2", "--rxd=512", "--txd=512", "--rss-udp"]
        capture = self.pcap("flows", [udp_frame(4, 60 + n % 900, n, ports=(n, 9)) for n in range(1, 3000)])
        with self.forwarding(capture, *queues, "--proc-id=0", devargs=devargs, queues=2, memory_args=memory_args) as forwarding:
            primary = forwarding.testpmd
            secondary = Testpmd(
                BUILD, [f"mlx5_{n},netdev=swhca{n}" for n in (0, 1)], [], pci=mlx5.allow(devargs), memory_args=memory_args,
                args=["--forward-mode=io", "--rxq=2", "--txq=2", *queues, "--proc-id=1"], primary=primary)
            with secondary:
                primary.command_output("start")
                secondary.command_output("start")
                primary.wait_for(lambda: primary.stats(1)["TX-packets"] >= forwarding.expected, timeout_s=20)
                primary.command_output("stop")
                stopped = secondary.command_output("stop")
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(stopped, r"RX-packets: [1-9]", "the second process received nothing")
        self.assertRegex(pcap_diff(capture, forwarding.out, "--any-order"), "^identical")
        self.check_report(forwarding.report)

    def test_secondary(self):
        """net/mlx5: a second process receives, forwards and frees on its own queues"""
        with machine.hugepages(self.MEMORY_MIB) as memory_args:
            if memory_args is None:
                self.skipTest("no hugepages to share")
            # An attached packet's buffer is freed by a function whose address the primary wrote there (mlx5_rxq.c,
            # mlx5_mprq_buf_init): in the second process it is another's, on silicon too. Copied packets have none.
            for devargs in (mlx5.SPRQ, f"{mlx5.MPRQ},mprq_max_memcpy_len=1518"):
                with self.subTest(devargs=devargs):
                    self.share(devargs, memory_args)
