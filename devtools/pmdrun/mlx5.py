# SPDX-License-Identifier: BSD-3-Clause
"""The system's own net/mlx5 on the software HCA: `swhca run --netdev`, and what it takes."""

import ctypes.util
import os
import shutil

# dv_flow_en: the default steering needs DevX, which the model does not have (doc/adr/0001).
SPRQ = "dv_flow_en=0"
MPRQ = f"{SPRQ},mprq_en=1,rxqs_min_mprq=1"


def pci_address(port):
    """Where the model's `port`-th device is on the PCI bus (lib/swhca/abi/sysfs.cpp)."""
    return f"5357:00:{port:02x}.0"


def allow(devargs, ports=2):
    """EAL -a values of the first `ports` devices."""
    return [f"{pci_address(port)},{devargs}" for port in range(ports)]


def missing():
    """Why this machine can't run net/mlx5, or an empty text."""
    if os.geteuid() != 0:
        return "needs root, for a network namespace with companion interfaces"
    if not shutil.which("ip"):
        return "needs the command ip (package iproute2)"
    if not ctypes.util.find_library("rte_net_mlx5"):
        return "this DPDK has no net/mlx5"
    return ""
