# SPDX-License-Identifier: BSD-3-Clause
"""What the system's own net/mlx5 leaves to the model: checksums, segmentation, VLAN tags, the choice of a queue."""

from frames import pad, segments_of, tcp_frame, udp_frame
from mlx5_support import Mlx5Test
from pmdrun import mlx5
from support import CAPTURES

JUMBO = 9018
CAPTURE = CAPTURES / "coap_mqtt.pcap"
RINGS = ("--rxd=512", "--txd=512")  # the driver's own choice for several queues is 4096, more than the pool holds


def on_port(port, *commands):
    """testpmd commands for a port that has to be stopped meanwhile."""
    return [f"port stop {port}", *commands, f"port start {port}", "set promisc all on"]


class Checksums(Mlx5Test):
    """Sent packets get their checksums from the device."""

    def test_csum(self):
        """net/mlx5, csum: checksums made by the device are those testpmd makes itself, multi-packet WQEs on and off"""
        software = self.forwarding(CAPTURE, mode="csum")
        with software:
            software.run()
        for mpw in (0, 1):
            with self.subTest(txq_mpw_en=mpw):
                self.forward(CAPTURE, mode="csum", devargs=f"{mlx5.MPRQ},txq_mpw_en={mpw}", expected=software.out,
                             commands=on_port(1, "csum set ip hw 1", "csum set udp hw 1", "csum set tcp hw 1"))

    def test_received_checksums(self):
        """net/mlx5: packets with a wrong checksum are told from good ones, whatever the receive queue"""
        good = [udp_frame(4, 100 + n, n) for n in range(64)] + [tcp_frame(6, 100 + n, n) for n in range(64)]
        bad_l4 = [frame[:-1] + bytes([frame[-1] ^ 1]) for frame in good[:10] + good[64:70]]
        bad_ip = [frame[:24] + bytes([frame[24] ^ 1]) + frame[25:] for frame in good[:7]]
        capture = self.pcap("checksums", good + bad_l4 + bad_ip)
        for devargs in (mlx5.SPRQ, mlx5.MPRQ, f"{mlx5.SPRQ},rx_vec_en=0"):
            with self.subTest(devargs=devargs), \
                    self.forwarding(capture, "--enable-rx-cksum", mode="rxonly", devargs=devargs) as forwarding:
                forwarding.testpmd.command_output("set verbose 1")
                text = forwarding.testpmd.command_printing("start", "ol_flags", forwarding.expected)
                forwarding.testpmd.command_output("stop")
                self.assertEqual(forwarding.missing_mbufs(), 0)
            self.check_report(forwarding.report)
            frames = len(good) + len(bad_l4) + len(bad_ip)
            # The driver says good, or nothing.
            self.assertEqual(text.count("RX_IP_CKSUM_GOOD"), frames - len(bad_ip))
            self.assertEqual(text.count("RX_L4_CKSUM_GOOD"), frames - len(bad_l4))


class Segmentation(Mlx5Test):
    """Long TCP packets leave in pieces."""

    LENGTHS = (0, 1, 799, 800, 801, 1448, 1600, 2399, 4000, 8800)

    def segment(self, devargs, vlan=None):
        """IPv4 and IPv6, payloads around the segment size; every piece as plain arithmetic makes it."""
        wanted = [(version, length, seed) for seed, length in enumerate(self.LENGTHS * 3) for version in (4, 6)]
        sent = self.pcap("sent", [pad(tcp_frame(*frame, vlan=vlan)) for frame in wanted])
        pieces = [pad(piece) for version, length, seed in wanted for piece in segments_of(version, length, seed, 800, vlan)]
        self.forward(sent, mode="csum", devargs=devargs, longest=JUMBO, expected=self.pcap("expected", pieces),
                     diff=["--ignore-macs"], commands=on_port(1, "csum set ip hw 1", "csum set tcp hw 1", "tso set 800 1"))

    def test_tso(self):
        """net/mlx5, TSO of IPv4 and IPv6: every segment has its headers, lengths, numbers and checksums"""
        self.segment(mlx5.SPRQ)

    def test_tso_without_inline(self):
        """net/mlx5, TSO next to multi-packet WQEs and inlining"""
        self.segment(f"{mlx5.MPRQ},txq_mpw_en=1,txq_inline_max=290")

    def test_tso_vlan(self):
        """net/mlx5, TSO of tagged frames"""
        self.segment(mlx5.SPRQ, vlan=77)


class Vlan(Mlx5Test):
    """Tags taken off and put on."""

    def setUp(self):
        super().setUp()
        lengths = [18, 60, 64, 100, 1000, 1460] * 8
        self.tagged = self.pcap("tagged", [udp_frame(4, length, n, vlan=123) for n, length in enumerate(lengths)])
        self.plain = self.pcap("plain", [udp_frame(4, length, n) for n, length in enumerate(lengths)])

    def test_strip(self):
        """net/mlx5, VLAN strip: frames come out without their tag"""
        for devargs in (mlx5.SPRQ, mlx5.MPRQ):
            with self.subTest(devargs=devargs):
                self.forward(self.tagged, "--enable-hw-vlan-strip", devargs=devargs, expected=self.plain)

    def test_insert(self):
        """net/mlx5, VLAN insertion: frames come out with a tag"""
        for mpw in (0, 1):
            with self.subTest(txq_mpw_en=mpw):
                self.forward(self.plain, mode="mac", devargs=f"{mlx5.SPRQ},txq_mpw_en={mpw}", expected=self.tagged,
                             diff=["--ignore-macs"], commands=on_port(1, "tx_vlan set 1 123"))


class Queues(Mlx5Test):
    """RSS and flow rules choose the queue."""

    def test_rss(self):
        """net/mlx5, RSS over 4 queues: every frame comes out once, no queue stays empty"""
        for devargs in (mlx5.SPRQ, mlx5.MPRQ):
            with self.subTest(devargs=devargs):
                capture = self.pcap("flows", [udp_frame(4 + 2 * (n % 2), 60, n, ports=(n, 9)) for n in range(1, 600)])
                done = self.forward(capture, "--rss-udp", *RINGS, queues=4, devargs=devargs, diff=["--any-order"])
                self.assertEqual(len(done.queue_packets), 4)
                self.assertGreater(min(done.queue_packets), 0)

    def test_flow_rules(self):
        """net/mlx5, flow rules: a queue for one port, RSS over two queues for TCP, drop for another port"""
        marked = [udp_frame(4, 60, n, ports=(n, 1111)) for n in range(1, 101)]
        dropped = [udp_frame(4, 60, n, ports=(n, 2222)) for n in range(1, 51)]
        tcp = [tcp_frame(4, 80 + n, n) for n in range(70)]
        capture = self.pcap("rules", [*marked, *dropped, *tcp])
        rules = ["flow create 0 ingress priority 0 pattern eth / ipv4 / udp dst is 1111 / end actions queue index 3 / end",
                 "flow create 0 ingress priority 0 pattern eth / ipv4 / udp dst is 2222 / end actions drop / end",
                 "flow create 0 ingress priority 1 pattern eth / ipv4 / tcp / end "
                 "actions rss types ipv4-tcp end queues 1 2 end / end"]
        done = self.forward(capture, "--flow-isolate-all", *RINGS, queues=4, expected=self.pcap("expected", [*marked, *tcp]),
                            diff=["--any-order"], commands=rules)
        self.assertEqual(done.queue_packets[3], len(marked))
        self.assertEqual(done.queue_packets[1] + done.queue_packets[2], len(tcp))
        self.assertEqual(done.queue_packets[0], 0)
