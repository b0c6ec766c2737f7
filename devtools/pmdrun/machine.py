# SPDX-License-Identifier: BSD-3-Clause
"""What this machine offers: processors for the lcores and the engine, hugepages."""

import os


def cpus():
    """The CPUs this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def lcore_map():
    """EAL --lcores: lcore 0 (control, sleeps) shares a CPU with the engine, lcore 1 forwards on another if there is one."""
    available = cpus()
    return f"0@{available[0]},1@{available[-1]}"


def engine_cpu():
    """The CPU for the engine's thread: not the one that forwards, if there are two."""
    return cpus()[0]


def free_hugepages_mib():
    """MiB of free hugepages of the default size that this process may use; 0 unless root."""
    if os.geteuid() != 0:
        return 0
    facts = {}
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            name, value = line.split(":", 1)
            facts[name] = int(value.split()[0])
    mounted = any(line.split()[2] == "hugetlbfs" for line in open("/proc/mounts", encoding="utf-8"))
    if not mounted:
        return 0
    return facts.get("HugePages_Free", 0) * facts.get("Hugepagesize", 0) // 1024


def memory_args(wanted_mib=512):
    """EAL arguments for `wanted_mib` of memory: hugepages if enough are free, else none."""
    if free_hugepages_mib() >= wanted_mib:
        return ["--in-memory", "-m", str(wanted_mib)]
    return ["--no-huge", "-m", str(wanted_mib)]
