# SPDX-License-Identifier: BSD-3-Clause
"""How each driver gets onto the software HCA."""

import dataclasses
import os

from pmdrun import machine, mlx5
from pmdrun.mlx5 import MPRQ, SPRQ


@dataclasses.dataclass(frozen=True)
class Driver:
    """A driver as measured: kind (stride, mlx5), devargs, and options of stride-bench that go with it."""

    name: str
    kind: str
    devargs: str = ""
    arguments: tuple = ()


DRIVERS = {driver.name: driver for driver in (
    Driver("mlx5", "mlx5", SPRQ),
    Driver("mlx5-inline", "mlx5", f"{SPRQ},txq_inline_mpw=204,txqs_min_inline=0"),
    Driver("mlx5-mprq", "mlx5", MPRQ),
    Driver("mlx5-mprq-attach", "mlx5", f"{MPRQ},mprq_max_memcpy_len=0"),
    Driver("mlx5-mprq-scalar", "mlx5", f"{MPRQ},rx_vec_en=0"),
    Driver("stride", "stride"),
    Driver("stride-inline", "stride", "inline_threshold_bytes=64"),
    Driver("stride-attach", "stride", "copy_threshold_bytes=0"),
    Driver("stride-bind", "stride", "", ("--pool-ops", "stride")),
    Driver("stride-copy", "stride", "copy_threshold_bytes=65535"),
)}

def missing(driver):
    """Why this machine can't run the driver, or an empty text."""
    return mlx5.missing() if driver.kind == "mlx5" else ""


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
    hca += [f"mlx5_0,{wire}", "--netdev", "--"]
    return [*hca, *bench, "-a", f"{mlx5.pci_address(0)},{driver.devargs}"], environment
