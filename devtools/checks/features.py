#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/features/stride.ini and the NIC guide say what the driver does: features, devargs, extended statistics."""

import configparser
import re

from common import ROOT, finish, read

GUIDE = "doc/guides/nic_stride.md"
DRIVER = "drivers/net/stride"

# feature of the matrix -> what the driver's sources hold if and only if it has that feature
EVIDENCE = {
    "Speed capabilities": r"speed_capa\s*=",
    "Link status": r"ops\.link_update\b",
    "Link status event": r"RTE_ETH_EVENT_INTR_LSC",
    "Removal event": r"RTE_ETH_EVENT_INTR_RMV",
    "Rx interrupt": r"ops\.rx_queue_intr_enable\b",
    "Runtime Rx queue setup": r"RUNTIME_RX_QUEUE_SETUP",
    "Queue start/stop": r"ops\.rx_queue_start\b",
    "Burst mode info": r"ops\.rx_burst_mode_get\b",
    "MTU update": r"ops\.mtu_set\b",
    "Scattered Rx": r"RX_OFFLOAD_SCATTER\b",
    "LRO": r"RX_OFFLOAD_TCP_LRO\b",
    "TSO": r"TX_OFFLOAD_TCP_TSO\b",
    "Promiscuous mode": r"ops\.promiscuous_enable\b",
    "Allmulticast mode": r"ops\.allmulticast_enable\b",
    "Unicast MAC filter": r"ops\.mac_addr_add\b",
    "Multicast MAC filter": r"ops\.set_mc_addr_list\b",
    "RSS hash": r"RX_OFFLOAD_RSS_HASH\b",
    "RSS key update": r"ops\.rss_hash_update\b",
    "RSS reta update": r"ops\.reta_update\b",
    "CRC offload": r"RX_OFFLOAD_KEEP_CRC\b",
    "VLAN offload": r"RX_OFFLOAD_VLAN_STRIP\b",
    "L3 checksum offload": r"TX_OFFLOAD_IPV4_CKSUM\b",
    "L4 checksum offload": r"TX_OFFLOAD_TCP_CKSUM\b",
    "Timestamp offload": r"RX_OFFLOAD_TIMESTAMP\b",
    "Packet type parsing": r"dev_supported_ptypes_get\b",
    "Rx descriptor status": r"rx_descriptor_status\b",
    "Tx descriptor status": r"tx_descriptor_status\b",
    "Free Tx mbuf on demand": r"ops\.tx_done_cleanup\b",
    "Basic stats": r"ops\.stats_get\b",
    "Extended stats": r"ops\.xstats_get\b",
    "Stats per queue": r"q_ipackets\b",
    "FW version": r"ops\.fw_version_get\b",
    "Flow control": r"ops\.flow_ctrl_get\b",
    "Multiprocess aware": r"RTE_PROC_SECONDARY",
}
WITHOUT_EVIDENCE = {"Linux", "x86-64", "Usage doc"}


def driver_code():
    """All of the driver, without comments."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / DRIVER).glob("*.?pp")))
    return re.sub(r"//[^\n]*", "", text)


def feature_complaints(code):
    """Features listed without evidence, and evidence without a line."""
    matrix = configparser.ConfigParser()
    matrix.optionxform = str
    matrix.read_string(read("doc/features/stride.ini"))
    listed = {name for name, value in matrix["Features"].items() if value}
    for name in sorted(listed - EVIDENCE.keys() - WITHOUT_EVIDENCE):
        yield f"stride.ini: {name}: this check does not know how to see it"
    for name, pattern in EVIDENCE.items():
        found = re.search(pattern, code) is not None
        if name in listed and not found:
            yield f"stride.ini: {name}: the driver has no {pattern}"
        if found and name not in listed:
            yield f"stride.ini: {name}: not listed, but the driver has {pattern}"


def flow_complaints(code):
    """Items and actions of rte_flow against those the driver names."""
    matrix = configparser.ConfigParser()
    matrix.optionxform = str
    matrix.read_string(read("doc/features/stride.ini"))
    for section, pattern in (("rte_flow items", r"RTE_FLOW_ITEM_TYPE_(\w+)"), ("rte_flow actions", r"RTE_FLOW_ACTION_TYPE_(\w+)")):
        named = {name.lower() for name in re.findall(pattern, code)} - {"end", "void"}
        for name in sorted(named ^ set(matrix[section])):
            yield f"stride.ini: {section}: {name}: listed or in the driver, not both"


def devarg_complaints():
    """Devargs of args.hpp against the guide's table."""
    keys = set(re.findall(r"(\w+)=<", read(f"{DRIVER}/args.hpp")))
    section = read(GUIDE).split("## Device arguments")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
    for key in sorted(keys ^ documented):
        yield f"{GUIDE}: devarg {key}: {'not in the table' if key in keys else 'the driver has none'}"
    if len(keys) > 8:
        yield f"{len(keys)} devargs; 8 at most"


def xstat_complaints():
    """Every counter's name must stand in the guide."""
    guide = read(GUIDE)
    for name in re.findall(r'\{"(\w+)", &(?:Rx|Tx)Stats::', read(f"{DRIVER}/stats.cpp")):
        if not re.search(rf"[`_]{name}`", guide):
            yield f"{GUIDE}: extended statistic {name} is not described"


def main():
    """All three."""
    complaints = [*feature_complaints(driver_code()), *flow_complaints(driver_code()), *devarg_complaints(), *xstat_complaints()]
    finish("features and code", complaints)


main()
