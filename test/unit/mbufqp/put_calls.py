#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""put allocates nothing, locks nothing and uses no locked instruction: what the bursts call, and what they are made of.

usage: put_calls.py STATIC_LIBRARY
"""

import re
import subprocess
import sys

MEMBERS = ("tx_bursts.cpp.o", "inline_copy.cpp.o")
# Copies; DPDK's way to a mempool, which is the application's choice; a panic of its own checks.
ALLOWED = {"_GLOBAL_OFFSET_TABLE_", "__rte_panic", "__rte_pktmbuf_read", "__tls_get_addr", "memcpy", "memmove", "memset",
           "per_lcore__lcore_id", "rte_mempool_ops_table", "__stack_chk_fail"}
# One cold call each, to leave by.
COLD = re.compile(r"stride::mbufqp::(TxQueue::(find_key|forget_keys|reclaim|recover|refuse)"
                  r"|IpoibPort::(control_header|group_address)|OpaVnicPort::(dlid|routing_control))\(")


def output(*command):
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def of_members(text):
    """The parts of a listing that are of MEMBERS."""
    parts = re.split(r"^(\S*\.o):", text, flags=re.MULTILINE)
    return "".join(body for name, body in zip(parts[1::2], parts[2::2]) if name.endswith(MEMBERS))


def main():
    """0 if nothing is amiss."""
    used = {line.split(None, 1)[1] for line in of_members(output("nm", "-uC", sys.argv[1])).splitlines() if line.strip()}
    own = {line.split(None, 2)[2] for line in of_members(output("nm", "-C", "--defined-only", sys.argv[1])).splitlines()
           if line.strip()}
    calls = used - own
    wrong = sorted(name for name in calls if name not in ALLOWED and not COLD.match(name))
    locked = re.findall(r"^.*\tlock .*$", of_members(output("objdump", "-d", sys.argv[1])), re.MULTILINE)
    for what in (*wrong, *locked):
        print("in a burst:", what)
    return 1 if wrong or locked or not calls else 0


sys.exit(main())
