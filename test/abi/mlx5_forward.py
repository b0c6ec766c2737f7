# SPDX-License-Identifier: BSD-3-Clause
"""The system's own net/mlx5 forwards every capture, in every receive and send mode, byte for byte."""

import unittest

from frames import read_pcap
from mlx5_support import MODES, Mlx5Test
from pmdrun import mlx5
from support import CAPTURES, LONGEST_IP_FRAME, SCOPE, capture_names, capture_size

CAPTURE = CAPTURES / "coap_mqtt.pcap"


class ReceiveModes(Mlx5Test):
    """Every capture through single-packet and multi-packet receive queues."""

    def all_captures(self, longest):
        """One capture of all frames of all captures that are not longer than `longest`."""
        frames = [frame for name in capture_names() for frame in read_pcap(CAPTURES / name) if len(frame) <= longest]
        return self.pcap(f"all-{longest}", frames)

    def forward_all(self, devargs):
        """All captures in a row, with mbufs of 2 KiB and with mbufs that hold the longest frame; --long: each alone too."""
        longest = max(capture_size(CAPTURES / name)[2] for name in capture_names())
        self.forward(self.all_captures(LONGEST_IP_FRAME), devargs=devargs)
        self.forward(self.all_captures(longest), devargs=devargs, longest=longest + 4)
        for name in capture_names() if SCOPE == "long" else ():
            with self.subTest(capture=name):
                limit = max(LONGEST_IP_FRAME, capture_size(CAPTURES / name)[2] + 4)
                self.forward(CAPTURES / name, devargs=devargs, longest=limit)

    def test_sprq(self):
        """net/mlx5, single-packet receive queues: all captures come out as they went in"""
        self.forward_all(mlx5.SPRQ)

    def test_mprq(self):
        """net/mlx5, multi-packet receive queues: all captures come out as they went in"""
        self.forward_all(mlx5.MPRQ)

    def test_bursts(self):
        """net/mlx5, scalar bursts, packets attached, odd bursts: frames come out as they went in"""
        for name, devargs in MODES.items():
            # The vector bursts look at CQEs four by four: asked for fewer packets they return none, on silicon too
            # (mlx5_rxtx_vec.c, rxq_burst_v and rxq_burst_mprq_v).
            fewest = 1 if "rx_vec_en=0" in devargs else 4
            for burst in (fewest, 31, 64, 512) if SCOPE == "long" else (31,):
                with self.subTest(mode=name, burst=burst):
                    self.forward(CAPTURE, devargs=devargs, burst=burst)

    def test_looped_capture(self):
        """net/mlx5, 50 rounds of a capture: rings wrap, nothing is lost"""
        rounds = 50
        for devargs in (mlx5.SPRQ, mlx5.MPRQ):
            with self.subTest(devargs=devargs), self.forwarding(CAPTURE, devargs=devargs, wire_in=f",loop={rounds}") as forwarding:
                forwarding.run(forwarding.expected * rounds)
                self.assertEqual(forwarding.missing_mbufs(), 0)
            self.assertEqual(forwarding.stats_out["TX-packets"], forwarding.expected * rounds)
            self.check_report(forwarding.report)


class Compression(Mlx5Test):
    """net/mlx5 asks for compressed CQEs unless told otherwise: the same without them (0), and in each of their formats."""

    def test_compression(self):
        """net/mlx5, CQE compression off and in every format: frames come out as they went in"""
        for receive in (mlx5.SPRQ, mlx5.MPRQ):
            for format_code in range(5) if SCOPE == "long" else (0, 1, 3):
                with self.subTest(receive=receive, rxq_cqe_comp_en=format_code):
                    self.forward(CAPTURE, devargs=f"{receive},rxq_cqe_comp_en={format_code}")


class SendModes(Mlx5Test):
    """Multi-packet send WQEs, inlined and pointed to; a device that demands inlined headers."""

    def test_min_inline(self):
        """net/mlx5, a device that demands L2 headers inline: frames come out as they went in"""
        done = self.forward(CAPTURE, wire_out=",min_inline=l2,mpw=off")
        self.assertGreater(done.report["ports"][1]["counters"]["tx_frames"], 0)

    def test_mpw(self):
        """net/mlx5, multi-packet send WQEs on and off: frames come out as they went in"""
        for mpw, inline in ((0, 290), (0, 0), (1, 512), (1, 0)):
            with self.subTest(txq_mpw_en=mpw, inline=inline):
                args = f"txq_mpw_en={mpw},txq_inline_max={inline},txq_inline_mpw={inline}"
                done = self.forward(CAPTURE, devargs=f"{mlx5.SPRQ},{args}")
                counters = done.report["ports"][1]["counters"]
                if mpw == 0:
                    self.assertEqual(counters["tx_wqes"], counters["tx_frames"])
                else:
                    self.assertLess(counters["tx_wqes"], counters["tx_frames"])
