# SPDX-License-Identifier: BSD-3-Clause
"""What this machine offers: processors for the lcores and the engine, hugepages."""

import contextlib
import os
import pathlib
import subprocess
import tempfile


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


HUGEPAGES = "/proc/sys/vm/nr_hugepages"


def _hugepages(count=None):
    """Number of hugepages of the default size the machine keeps; sets it first if asked."""
    if count is not None:
        with open(HUGEPAGES, "w", encoding="ascii") as setting:
            setting.write(str(count))
    with open(HUGEPAGES, encoding="ascii") as setting:
        return int(setting.read())


def _give_back_stale():
    """Unmounts what hugepages() of a process that was killed has left, with the pages its files hold."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob("stride-huge-*"):
        if not pathlib.Path("/proc", folder.name.split("-")[2]).exists():
            subprocess.run(["umount", folder], check=False, capture_output=True)
            folder.rmdir()


@contextlib.contextmanager
def hugepages(wanted_mib):
    """EAL arguments for `wanted_mib` of memory that processes can share: hugepages, made if too few are free and given
    back at the end. None if the machine doesn't give them."""
    if os.geteuid() == 0:
        _give_back_stale()
    before = _hugepages() if os.geteuid() == 0 else 0
    pages = -(-wanted_mib // 2)
    with tempfile.TemporaryDirectory(prefix=f"stride-huge-{os.getpid()}-") as folder:
        mounted = False
        try:
            if os.geteuid() == 0:
                if free_hugepages_mib() < wanted_mib:
                    _hugepages(before + pages)
                mounted = subprocess.run(["mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "none", folder],
                                         check=False, capture_output=True).returncode == 0
            enough = mounted and free_hugepages_mib() >= wanted_mib
            yield ["--huge-dir", folder, "-m", str(wanted_mib)] if enough else None
        finally:
            if mounted:
                subprocess.run(["umount", folder], check=False)
            if os.geteuid() == 0 and _hugepages() != before:
                _hugepages(before)
