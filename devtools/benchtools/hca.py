# SPDX-License-Identifier: BSD-3-Clause
"""How each driver gets onto the software HCA."""

import ctypes.util
import dataclasses
import os
import shutil

from pmdrun import machine

PCI_ADDRESS = "5357:00:00.0"  # of the model's first device (lib/swhca/abi/sysfs.cpp)
MLX5 = "dv_flow_en=0"  # its default steering needs DevX, which the model doesn't have (doc/adr/0001)
MPRQ = f"{MLX5},mprq_en=1,rxqs_min_mprq=1"


@dataclasses.dataclass(frozen=True)
class Driver:
    """A driver as measured: kind (stride, mlx5), devargs, and options of stride-bench that go with it."""

    name: str
    kind: str
    devargs: str = ""
    arguments: tuple = ()


DRIVERS = {driver.name: driver for driver in (
    Driver("mlx5", "mlx5", MLX5),
    Driver("mlx5-mprq", "mlx5", MPRQ),
    Driver("mlx5-mprq-attach", "mlx5", f"{MPRQ},mprq_max_memcpy_len=0"),
    Driver("mlx5-mprq-scalar", "mlx5", f"{MPRQ},rx_vec_en=0"),
    Driver("stride", "stride"),
    Driver("stride-attach", "stride", "copy_threshold_bytes=0"),
    Driver("stride-bind", "stride", "", ("--pool-ops", "stride")),
    Driver("stride-copy", "stride", "copy_always=1"),
)}

# net/mlx5 wants a network interface beside its device: one end of a veth pair, in a network namespace (and a view of
# /sys) of its own, so that nothing of the machine is touched.
COMPANION = """set -e
mount -t sysfs none /sys
ip link set lo up
ip link add swhca0 type veth peer name swhca1
ip link set swhca0 up
ip link set swhca1 up
exec "$@"
"""


def missing(driver):
    """Why this machine can't run the driver, or an empty text."""
    if driver.kind != "mlx5":
        return ""
    if os.geteuid() != 0:
        return "needs root, for a network namespace with a companion interface"
    if not (shutil.which("unshare") and shutil.which("ip")):
        return "needs the commands unshare and ip"
    if not ctypes.util.find_library("rte_net_mlx5"):
        return "this DPDK has no net/mlx5"
    return ""


def bench_command(build, driver, wire, arguments, memory_mib):
    """(command, environment) of one stride-bench process on one port with `wire`."""
    cpus = machine.cpus()
    hca = [f"{build}/app/swhca/swhca", "run", "--engine", f"cpu={cpus[0]}", "--port"]
    bench = [f"{build}/app/stride-bench/stride-bench", "--name", driver.name, *driver.arguments, *arguments, "--",
             "--lcores", f"0@{cpus[-1]}", "--no-telemetry", "--log-level", "lib.eal:warning",
             "--file-prefix", f"bench{os.getpid()}", *machine.memory_args(memory_mib)]
    library_path = f"{build}/drivers/net/stride:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path}
    if driver.kind == "stride":
        vdev = ",".join(filter(None, ["net_stride0,ibdev=mlx5_0", driver.devargs]))
        return [*hca, f"mlx5_0,{wire}", "--", *bench, "--no-pci", "-d", "librte_net_stride.so", "--vdev", vdev], environment
    hca += [f"mlx5_0,netdev=swhca0,{wire}", "--pci", "--"]
    return ["unshare", "--net", "--mount", "sh", "-c", COMPANION, "sh", *hca, *bench,
            "-a", f"{PCI_ADDRESS},{driver.devargs}"], environment
