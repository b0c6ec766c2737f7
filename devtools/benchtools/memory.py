# SPDX-License-Identifier: BSD-3-Clause
"""Receive memory that a burst takes: the smallest ring that absorbs it while nobody polls."""

RINGS = [512 << shift for shift in range(7)]


def resident(document):
    """Bytes of buffers and headers: net_stride's are all it has on DPDK's heap; of others only what is surely theirs."""
    taken = document["rx_memory_bytes"]
    return taken["mbufs"] + (taken["driver"] if document["driver"] == "net_stride" else taken["driver_pools"])


def measure(runner, drivers, packets):
    """{driver: {"descriptors", "bytes"}}; None where no ring is large enough."""
    found = {}
    for driver in drivers:
        found[driver.name] = None
        for ring in RINGS:
            arguments = ["--absorb", str(packets), "--rxd", str(ring), "--size", "1514"]
            document = runner.run(driver, "burst-memory", "size=imix", arguments, 1024)
            if document is None:
                break
            if document["absorbed"] >= packets:
                found[driver.name] = {"descriptors": document["rx_descriptors"], "bytes": resident(document)}
                break
    return found


def show(found, packets, say):
    """The table."""
    say(f"\nreceive memory that takes {packets} IMIX packets while nobody polls")
    first = next((one["bytes"] for one in found.values() if one), None)
    for name, one in found.items():
        if one is None:
            say(f"  {name:<20}no ring is large enough")
        else:
            say(f"  {name:<20}{one['bytes'] / 2**20:>8.1f} MiB{one['bytes'] / first:>8.2f}{one['descriptors']:>8} descriptors")
