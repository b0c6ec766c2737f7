#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/guides/swhca.md names what the software HCA has and refuses: commands, keys of ports, wires, faults, caps, rules."""

import re

from common import finish, read

GUIDE = "doc/guides/swhca.md"

# what it is -> (file, pattern of the names in it)
LISTS = {
    "command": ("lib/swhca/abi/dispatch.cpp", r'\{IB_USER_VERBS_\w+, (?:true|false), "(\w+)"'),
    "refused command": ("lib/swhca/abi/dispatch.cpp", r'\{IB_USER_VERBS_\w+, "(\w+)"'),
    "fault": ("lib/swhca/engine/faults.cpp", r'^    \{"(\w+)", (?:\w+\},|\[\])'),
    "key of a port": ("lib/swhca/hca/config.cpp", r'^    \{"(\w+)", ["&]'),
    "wire": ("lib/swhca/wire/make_wire.cpp", r'plain\.wire == "(\w+)"|options\.wire == "(\w+)"'),
    "broken rule": ("lib/swhca/hca/rules.hpp", r"^    X\((\w+),"),
}


def names(path, pattern):
    """Names that a file lists; at least one, or the pattern no longer fits."""
    found = [next(filter(None, match.groups())) for match in re.finditer(pattern, read(path), re.MULTILINE)]
    return sorted(set(found))


def spelled_out(text):
    """The guide with `{min,max}_x` as `min_x`, `max_x`."""
    return re.sub(r"\{(\w+),(\w+)\}(\w+)", r"\1\3 \2\3", text)


def main():
    """Every name that is not in the guide."""
    words = set(re.findall(r"\w+", spelled_out(read(GUIDE))))
    complaints = []
    for what, (path, pattern) in LISTS.items():
        listed = names(path, pattern)
        if not listed:
            complaints.append(f"{path}: no {what} is found there: mend devtools/checks/model_guide.py")
        complaints += [f"{GUIDE}: {what} {name} ({path}) is not in it" for name in listed if name not in words]
    finish("the model's guide", complaints)


main()
