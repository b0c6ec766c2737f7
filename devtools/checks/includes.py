#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dependencies point down (CONTRIBUTING.md, "Folders"): which folder may include which, and which outside headers."""

import re

from common import CODE, files, finish, read

# folder -> folders of lib/ it may include; a folder may always include itself
ALLOWED = {
    "lib/base": set(),
    "lib/swhca": {"base"},
    "lib/ibv": {"base", "mlx5"},  # mlx5: rings.hpp only, see below
    "lib/mlx5": {"base"},
    "lib/mprq": {"base", "ibv", "mlx5"},
    "lib/mbufqp": {"base", "ibv", "mlx5", "mprq"},  # mprq: get receives over it
    "drivers": {"base", "ibv", "mlx5", "mprq", "mbufqp"},
}
LIBRARIES = {"base", "swhca", "ibv", "mlx5", "mprq", "mbufqp"}
VERBS = re.compile(r"infiniband/|rdma/rdma_")
DPDK = re.compile(r"(rte_|ethdev_|bus_.*driver|dev_driver)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def owner(path):
    """The folder of ALLOWED that holds `path`, or None (app and test may include anything)."""
    return next((folder for folder in ALLOWED if str(path).startswith(folder + "/")), None)


def complaint(folder, target):
    """Why `folder` must not include `target`, or None."""
    library = target.split("/")[0] if "/" in target else ""
    own = folder.split("/")[-1]
    if library in LIBRARIES and library != own and library not in ALLOWED[folder]:
        return f"{folder} must not include {library}"
    if folder == "lib/ibv" and library == "mlx5" and target != "mlx5/rings.hpp":
        return "lib/ibv may include only mlx5/rings.hpp of lib/mlx5"
    if folder in ("lib/base", "lib/swhca") and VERBS.search(target):
        return f"{folder} must not include verbs"
    if folder in ("lib/base", "lib/swhca", "lib/ibv", "lib/mlx5") and DPDK.match(target):
        return f"{folder} must not include DPDK"
    return None


def main():
    """Checks every include of every file in a folder with rules."""
    complaints = []
    for path in files(*CODE):
        folder = owner(path)
        if folder is None:
            continue
        for target in INCLUDE.findall(read(path)):
            why = complaint(folder, target)
            if why:
                complaints.append(f"{path}: #include \"{target}\": {why}")
    finish("include directions", complaints)


main()
