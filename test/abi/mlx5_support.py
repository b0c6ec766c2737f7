# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the system's own net/mlx5 share."""

import pathlib
import tempfile
import unittest

from frames import write_pcap
from pmdrun import mlx5
from support import Forwarding, capture_size, pcap_diff

MODES = {
    "SPRQ, scalar": f"{mlx5.SPRQ},rx_vec_en=0",
    "MPRQ, every packet attached": f"{mlx5.MPRQ},mprq_max_memcpy_len=0",
    "MPRQ, scalar": f"{mlx5.MPRQ},rx_vec_en=0",
}


class Mlx5Test(unittest.TestCase):
    """A test that is skipped, with the reason, where net/mlx5 can't run."""

    def setUp(self):
        reason = mlx5.missing()
        if reason:
            self.skipTest(reason)
        folder = tempfile.TemporaryDirectory(prefix="stride-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pcap(self, name, frames):
        """A capture of `frames`."""
        path = self.folder / f"{name}.pcap"
        write_pcap(path, frames)
        return path

    def forwarding(self, capture, *args, devargs=mlx5.SPRQ, **options):
        """Forwarding on net/mlx5."""
        made = Forwarding(capture, *args, mlx5_args=devargs, **options)
        self.addCleanup(made.cleanup)
        return made

    def check_report(self, report):
        """No rule was broken, no context is open."""
        self.assertEqual(report["broken_rules"], {})
        self.assertEqual([port["contexts"] for port in report["ports"]], [0] * len(report["ports"]), "devices left open")

    def forward(self, capture, *args, expected=None, diff=(), commands=(), **options):
        """Forwards a capture; what comes out is `expected` (a capture; default: the same). Returns the Forwarding."""
        with self.forwarding(capture, *args, **options) as forwarding:
            for command in commands:
                forwarding.testpmd.command_output(command)
            forwarding.run(self.frames_in(expected) if expected else None)
            forwarding.queue_packets = queue_packets(forwarding.testpmd, 0)
            self.assertEqual(forwarding.missing_mbufs(), 0, "mbufs that did not come back")
        self.assertRegex(pcap_diff(expected or capture, forwarding.out, *diff), "^identical")
        self.check_report(forwarding.report)
        return forwarding

    @staticmethod
    def frames_in(capture):
        """Number of frames of a capture."""
        return capture_size(capture)[0]


def queue_packets(testpmd, port):
    """Packets received by each queue, from the extended statistics."""
    numbers = testpmd.xstats(port)
    return [value for name, value in sorted(numbers.items()) if name.startswith("rx_q") and name.endswith("_packets")]
