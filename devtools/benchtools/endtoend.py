# SPDX-License-Identifier: BSD-3-Clause
"""End-to-end rates, engine or sender on one CPU, a receiving testpmd on the other: what lockstep leaves out."""

import os
import re
import shutil
import subprocess
import tempfile
import time

from pmdrun import machine, mlx5

from .hca import DRIVERS, missing

SECONDS = 5
NAMESPACE = """set -e
ip link set lo up
ip link add bench0 type veth peer name bench1
ip link set bench0 up
ip link set bench1 up
exec "$@"
"""


class Side:
    """One dpdk-testpmd that prints its rates once a second."""

    def __init__(self, command, environment=None):
        self._out = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=self._out,
                                         stderr=subprocess.STDOUT)

    def stop(self):
        """Ends it; everything it printed."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.seek(0)
        return self._out.read().decode(errors="replace")


def testpmd(name, cpu, eal, mode, *args):
    """The command of a testpmd that forwards on `cpu`."""
    control = machine.cpus()[0]
    return ["dpdk-testpmd", "--lcores", f"0@{control},1@{cpu}", "--file-prefix", f"{name}{os.getpid()}", "--no-telemetry",
            *eal, "--", f"--forward-mode={mode}", "--stats-period=1", "--total-num-mbufs=8192", *args]


def rate_of(text):
    """Median of the received packets a second, or None with the last line said."""
    rates = sorted(int(rate) for rate in re.findall(r"Rx-pps:\s+(\d+)", text) if int(rate) > 0)
    if rates:
        return rates[len(rates) // 2], ""
    lines = [line for line in text.splitlines() if line.strip()]
    return None, lines[-1] if lines else "no output"


def over_hca(build, driver, size):
    """testpmd receives what the generator sends; the engine has the first CPU."""
    cpus = machine.cpus()
    memory = machine.memory_args(512)
    hca = [f"{build}/app/swhca/swhca", "run", "--engine", f"cpu={cpus[0]}", "--port"]
    wire = f"wire=gen,size={size},flows=256"
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{build}/drivers/net/stride"}
    if driver.kind == "stride":
        vdev = ",".join(filter(None, ["net_stride0,ibdev=mlx5_0", driver.devargs]))
        eal = [*memory, "--no-pci", "-d", "librte_net_stride.so", "--vdev", vdev]
        command = [*hca, f"mlx5_0,{wire}", "--", *testpmd("hca", cpus[-1], eal, "rxonly")]
    else:
        eal = [*memory, "-a", f"{mlx5.pci_address(0)},{driver.devargs}"]
        command = [*hca, f"mlx5_0,{wire}", "--netdev", "--", *testpmd("hca", cpus[-1], eal, "rxonly")]
    side = Side(command, environment)
    time.sleep(SECONDS + 3)
    return rate_of(side.stop())


def pair(receiver_eal, sender_eal, size, memory):
    """One testpmd sends, another receives."""
    cpus = machine.cpus()
    receiver = Side(testpmd("rx", cpus[-1], [*memory, "--no-pci", *receiver_eal], "rxonly"))
    time.sleep(2)
    sender = Side(testpmd("tx", cpus[0], [*memory, "--no-pci", *sender_eal], "txonly", f"--txpkts={size}"))
    time.sleep(SECONDS + 2)
    sender.stop()
    return rate_of(receiver.stop())


def memif(_build, size):
    """net_memif, copying."""
    with tempfile.TemporaryDirectory() as folder:
        base = f"socket-abstract=no,socket={folder}/memif"
        return pair(["--vdev", f"net_memif0,role=server,{base}"], ["--vdev", f"net_memif0,role=client,{base}"], size,
                    machine.memory_args(256))


def vhost(_build, size):
    """vhost-user and virtio-user. What virtio-user shares with vhost may be small pages: EAL keeps them in one memfd."""
    with tempfile.TemporaryDirectory() as folder:
        return pair(["--vdev", f"net_vhost0,iface={folder}/vhost"],
                    ["--vdev", f"net_virtio_user0,path={folder}/vhost,queues=1"], size, ["--no-huge", "-m", "256"])


def af_xdp(_build, size):
    """af_packet sends into one end of a veth pair, af_xdp receives at the other."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return None, "needs root and the command ip"
    script = ("import sys; sys.path.insert(0, sys.argv[1]); from benchtools import endtoend; "
              "print(endtoend.af_xdp_inside(int(sys.argv[2])))")
    done = subprocess.run(["unshare", "--net", "sh", "-c", NAMESPACE, "sh", "/usr/bin/python3", "-c", script,
                           os.path.dirname(os.path.dirname(os.path.abspath(__file__))), str(size)],
                          capture_output=True, text=True, check=False)
    found = re.search(r"\((\d+|None), (.*)\)", done.stdout)
    if not found:
        return None, (done.stderr.strip().splitlines() or ["failed"])[-1]
    return (int(found[1]), "") if found[1] != "None" else (None, found[2])


def af_xdp_inside(size):
    """The pair of af_xdp(), within its network namespace."""
    return pair(["--vdev", "net_af_xdp0,iface=bench0"], ["--vdev", "net_af_packet0,iface=bench1"], size,
                machine.memory_args(256))


def measure(build, drivers, sizes=(64, 1500)):
    """{name: {size: (packets a second or None, why not)}}."""
    rows = {}
    for driver in drivers:
        rows[driver.name] = {size: over_hca(build, driver, size) for size in sizes}
    for name, function in (("memif", memif), ("vhost + virtio-user", vhost), ("af_packet to af_xdp", af_xdp)):
        rows[name] = {size: function(build, size) for size in sizes}
    return rows


def drivers_here():
    """The drivers worth a line: ours and the two of net/mlx5 in use, where they run."""
    return [DRIVERS[name] for name in ("stride", "mlx5", "mlx5-mprq") if not missing(DRIVERS[name])]


def show(rows, say):
    """The table."""
    say("\nend to end, received Mpps (ratio to the first); sender or engine on one CPU, receiver on another")
    first = next(iter(rows.values()))
    for name, sizes in rows.items():
        cells = []
        for size, (rate, why) in sizes.items():
            base = first[size][0]
            cells.append(f"{size} B: " + (f"{rate / 1e6:6.2f} ({rate / base if base else 0:.2f})" if rate else f"- {why}"))
        say(f"  {name:<20} {'   '.join(cells)}")
