# SPDX-License-Identifier: BSD-3-Clause
"""Ports in two processes: testpmd as the primary and again as its secondary, and packets that change hands."""

import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from frames import udp_frame, write_pcap
from pmdrun import machine
from pmdrun.testpmd import Testpmd
from support import BUILD, Forwarding, pcap_diff

MEMORY_MIB = 400
QUEUES = ["--num-procs=2", "--rxd=512", "--txd=512", "--rss-udp"]
ATTACH, COPY = ",copy_threshold_bytes=0", ",copy_threshold_bytes=65535"
BIND = ["--mbuf-pool-ops-name=stride"]


def lcores(first):
    """EAL --lcores for a process: lcores of its own, on the CPUs there are."""
    cpus = machine.cpus()
    return f"{first}@{cpus[0]},{first + 1}@{cpus[-1]}"


class SharedMemory(unittest.TestCase):
    """A test that is skipped where processes can't share EAL's memory; it has a capture of many flows."""

    FRAMES = 3000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stride-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.capture = self.folder / "flows.pcap"
        write_pcap(self.capture, [udp_frame(4, 60 + n % 900, n, ports=(n, 9)) for n in range(1, self.FRAMES)])
        shared = machine.hugepages(MEMORY_MIB)
        self.memory_args = shared.__enter__()
        self.addCleanup(shared.__exit__, None, None, None)
        if self.memory_args is None:
            self.skipTest("no hugepages to share")


class TwoProcesses(SharedMemory):
    """Each process polls one of two queues of each port, and sends on its own."""

    def primary(self, *args, **options):
        """The primary, which forwards the capture."""
        made = Forwarding(self.capture, *QUEUES, "--proc-id=0", *args, queues=2, memory_args=self.memory_args, **options)
        self.addCleanup(made.cleanup)
        return made

    def secondary(self, forwarding, *args):
        """Its secondary."""
        return Testpmd(BUILD, [], [], memory_args=self.memory_args, lcores=lcores(2), primary=forwarding.testpmd,
                       args=["--forward-mode=io", "--rxq=2", "--txq=2", *QUEUES, "--proc-id=1", *args])

    def wait_for_frames(self, forwarding, secondary, count):
        """Until so many were sent by both."""
        primary = forwarding.testpmd
        sent = primary.wait_for(lambda: primary.stats(1)["TX-packets"] >= count, timeout_s=20)
        self.assertTrue(sent, f"{primary.stats(0)} {primary.stats(1)}\n{secondary.text()[-2000:]}")

    def forward(self, policy, *args, **options):
        """Both forward; every frame comes out once, and every mbuf is back."""
        with self.primary(*args, **options) as forwarding:
            primary = forwarding.testpmd
            self.assertIn(policy, primary.command_output("show rxq info 0 1"))
            with self.secondary(forwarding) as secondary:
                secondary.command_output("start")
                primary.command_output("start")
                self.wait_for_frames(forwarding, secondary, forwarding.expected)
                self.assertEqual(secondary.stats(1)["TX-packets"], primary.stats(1)["TX-packets"])
                primary.command_output("stop")
                stopped = secondary.command_output("stop")
            self.assertRegex(stopped, r"RX-packets: [1-9]", "the second process received nothing")
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertRegex(pcap_diff(self.capture, forwarding.out, "--any-order"), "^identical")
        self.assertEqual(forwarding.report["broken_rules"], {})

    def test_bind(self):
        """a second process receives bound packets, forwards them and frees them"""
        self.forward("bind", eal=BIND)

    def test_attach(self):
        """a second process receives attached packets, forwards them and frees them"""
        self.forward("attach", driver_args=ATTACH)

    def test_copy(self):
        """a second process receives copied packets"""
        self.forward("copy", driver_args=COPY)

    def test_single_packet(self):
        """a second process receives from queues with an mbuf per WQE, and finds their memory keys"""
        self.forward("single-packet", wire_in=",striding=off")

    def test_inlined(self):
        """a second process sends inlined frames"""
        self.forward("attach", driver_args=",inline_threshold_bytes=200")

    def test_restart(self):
        """the primary stops and starts ports that a second process polls all the time"""
        for options in ({"eal": BIND}, {"driver_args": ATTACH}):
            with self.subTest(**options), self.primary(wire_in=",loop=0,rate=20000", **options) as forwarding:
                primary = forwarding.testpmd
                with self.secondary(forwarding) as secondary:
                    secondary.command_output("start")
                    for _ in range(10):
                        before = primary.stats(1)["TX-packets"]
                        primary.command_output("start")
                        self.wait_for_frames(forwarding, secondary, before + 500)
                        primary.command_output("stop")
                        primary.command_output("port stop all")
                        primary.command_output("port start all")
                    before = primary.stats(1)["TX-packets"]  # the primary forwards no more
                    self.wait_for_frames(forwarding, secondary, before + 200)
                    stopped = secondary.command_output("stop")
                self.assertRegex(stopped, r"RX-packets: [1-9]")
                self.assertEqual(forwarding.missing_mbufs(), 0)
            self.assertEqual(forwarding.report["broken_rules"], {})

    def test_queue_restart(self):
        """the primary stops and starts single queues that a second process polls and sends on"""
        with self.primary(wire_in=",loop=0,rate=20000", driver_args=ATTACH) as forwarding:
            primary = forwarding.testpmd
            with self.secondary(forwarding) as secondary:
                secondary.command_output("start")
                for queue in ("0 rxq 1", "1 txq 1") * 3:
                    self.wait_for_frames(forwarding, secondary, primary.stats(1)["TX-packets"] + 300)
                    primary.command_output(f"port {queue} stop")
                    time.sleep(0.05)  # what was received last is sent yet
                    stopped = primary.stats(1)["TX-packets"]
                    time.sleep(0.05)
                    self.assertEqual(primary.stats(1)["TX-packets"], stopped, f"{queue} goes on")
                    primary.command_output(f"port {queue} start")
                self.wait_for_frames(forwarding, secondary, primary.stats(1)["TX-packets"] + 300)
                secondary.command_output("stop")
            self.assertEqual(forwarding.missing_mbufs(), 0)
        self.assertEqual(forwarding.report["broken_rules"], {})

    def test_recovery(self):
        """queues that fail under a second process recover, by the primary's hand"""
        control = str(self.folder / "control")
        with self.primary(wire_in=",loop=0,rate=20000", driver_args=ATTACH, control=control) as forwarding:
            primary = forwarding.testpmd
            with self.secondary(forwarding) as secondary:
                secondary.command_output("start")
                # The primary polls nothing: its queue is full by now, and what fails is the other's.
                self.wait_for_frames(forwarding, secondary, 1500)
                for device, kind, counter in (("mlx5_0", "rx_error", "rx_q1_recoveries"), ("mlx5_1", "tx_error", "tx_q1_recoveries")):
                    port = int(device[-1])
                    subprocess.run([f"{BUILD}/app/swhca/swhca", "fault", control, device, kind], check=True,
                                   capture_output=True)
                    recovered = primary.wait_for(lambda p=port, c=counter: primary.xstats(p).get(c, 0) > 0)
                    self.assertTrue(recovered, f"{kind}: {primary.xstats(port)}\n{secondary.text()[-2000:]}")
                    self.wait_for_frames(forwarding, secondary, primary.stats(1)["TX-packets"] + 300)
                secondary.command_output("stop")
            self.assertEqual(forwarding.missing_mbufs(), 0)

    def test_secondary_is_killed(self):
        """a primary whose second process was killed in the middle goes on, and stops and starts"""
        with self.primary(wire_in=",loop=0,rate=20000", driver_args=ATTACH) as forwarding:
            primary = forwarding.testpmd
            secondary = self.secondary(forwarding)
            secondary.command_output("start")
            self.wait_for_frames(forwarding, secondary, 500)
            secondary.kill()
            for _ in range(3):
                primary.command_output("port stop all")
                primary.command_output("port start all")
                before = primary.stats(1)["TX-packets"]
                primary.command_output("start")
                self.wait_for_frames(forwarding, secondary, before + 500)
                primary.command_output("stop")
        self.assertEqual(forwarding.report["broken_rules"], {})

    def test_plugged_in_and_out(self):
        """ports that come and go in the primary come and go in a second process, which polls what is there"""
        hca = [f"mlx5_0,wire=pcap,in={self.capture},loop=0,rate=20000", f"mlx5_1,wire=pcap,out={self.folder}/out.pcap"]
        args = ["--forward-mode=rxonly", "--rxq=2", "--txq=2", "--total-num-mbufs=8192", *QUEUES]
        with Testpmd(BUILD, hca, ["net_stride0,ibdev=mlx5_0"], [*args, "--proc-id=0"], memory_args=self.memory_args) as primary, \
                Testpmd(BUILD, [], [], [*args, "--proc-id=1"], memory_args=self.memory_args, lcores=lcores(2), primary=primary) as second:
            second.command_output("start")
            for _ in range(3):
                primary.command_output("port attach net_stride1,ibdev=mlx5_1")
                self.assertIn("net_stride1", second.command_output("show port info 1"))
                primary.command_output("port stop 1")
                primary.command_output("port close 1")
                primary.command_output("device detach net_stride1")
                self.assertNotIn("net_stride1", second.command_output("show port info 1"))
            before = second.stats(0)["RX-packets"]
            self.assertTrue(second.wait_for(lambda: second.stats(0)["RX-packets"] > before + 200), second.text()[-2000:])
            primary.command_output("port stop 0")
            primary.command_output("port close 0")
            time.sleep(0.1)  # it polls what is not there any more
            second.command_output("stop")

    def test_encaps_are_refused(self):
        """a port whose frames travel in an encap is refused to a second process, with the reason"""
        vdevs = ["net_stride0,ibdev=mlx5_0,encap=opa_vnic:7"]
        with Testpmd(BUILD, ["mlx5_0,wire=pair,peer=mlx5_1", "mlx5_1,wire=pair,peer=mlx5_0"], vdevs,
                     ["--total-num-mbufs=4096"], memory_args=self.memory_args) as primary:
            command = [f"{BUILD}/app/swhca/swhca", "run", "--", "dpdk-testpmd", "--lcores", lcores(2), "--file-prefix", f"stride{os.getpid()}", "--proc-type=secondary",
                       *self.memory_args, "--no-pci", "-d", "librte_net_stride.so", "--", "--auto-start"]
            tried = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                                   env={**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/drivers/net/stride"})
            self.assertIn("the port is for the primary process alone: its frames travel in an encap", tried.stdout + tried.stderr)
            self.assertIsNotNone(primary.pid)


class Handover(SharedMemory):
    """handover.cpp, twice."""

    PROGRAM = f"{BUILD}/test/functional/handover"

    def arguments(self, lcore):
        """The program's, up to those of a role."""
        cpus = machine.cpus()
        return [self.PROGRAM, "--lcores", f"{lcore}@{cpus[lcore % len(cpus)]}", "--file-prefix", f"handover{os.getpid()}",
                *self.memory_args, "--no-pci", "-d", "librte_net_stride.so"]

    def start(self, hca, arguments):
        """The program, under a software HCA with these ports, and what it printed until it was about to go on."""
        command = [f"{BUILD}/app/swhca/swhca", "run", "--idle", *hca, "--", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/drivers/net/stride"})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        printed = [process.stdout.readline()]
        while printed[-1] and "handover: " not in printed[-1]:
            printed.append(process.stdout.readline())
        return process, "".join(printed)

    def primary(self, ops, devargs=""):
        """Receives, hands over, closes the port and removes it."""
        process, text = self.start(["--port", f"mlx5_0,wire=pcap,in={self.capture},loop=0,rate=20000"],
                                   [*self.arguments(1), "--vdev", f"net_stride0,ibdev=mlx5_0{devargs}", "--", ops])
        self.assertIn("handover: ready", text)  # EAL of a secondary waits for ever for a primary that did not start
        return process, text


class ChangingHands(Handover):
    """Received by the primary, freed by a second process after the port is stopped, closed and gone."""

    def hand_over(self, *options):
        """Both processes end well."""
        primary, text = self.primary(*options)
        secondary, more = self.start([], [*self.arguments(2), "--proc-type=secondary"])
        for process in (secondary, primary):
            more += process.communicate(timeout=100)[0]
        self.assertEqual((primary.returncode, secondary.returncode), (0, 0), text + more)

    def test_bound(self):
        """bound packets are freed by a second process after the port is gone"""
        self.hand_over("stride")

    def test_attached(self):
        """attached packets are freed by a second process after the port is gone"""
        self.hand_over("ring_mp_mc", ATTACH)


class Outliving(Handover):
    """The primary is killed while a second process polls its port and sends on it."""

    def outlive(self, *options):
        """The second process polls on, receives nothing, and ends as if nothing had been."""
        primary, text = self.primary(*options)
        secondary, more = self.start([], [*self.arguments(2), "--proc-type=secondary", "--", "outlive"])
        self.assertIn("handover: polling", more, text)
        primary.kill()
        more += secondary.communicate(timeout=60)[0]
        self.assertEqual(secondary.returncode, 0, text + more)

    def test_bound(self):
        """a second process that receives bound packets outlives its primary"""
        self.outlive("stride")

    def test_attached(self):
        """a second process that receives attached packets outlives its primary"""
        self.outlive("ring_mp_mc", ATTACH)
