#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tests that doc/guides/cases.md names exist."""

import re

from common import files, finish, read

GUIDE = "doc/guides/cases.md"


def tests():
    """{(suite, name)} of all GoogleTest tests and unittest methods."""
    found = set()
    for path in files(".cpp"):
        found |= set(re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", read(path)))
    for path in files(".py"):
        suite = ""
        for word, name in re.findall(r"^ *(class|def) (\w+)", read(path), re.MULTILINE):
            suite = name if word == "class" else suite
            found.add((suite, name))
    return found


def main():
    """Every name that is no test."""
    known = tests()
    suites = {suite for suite, _ in known}
    named = re.findall(r"`([A-Z]\w+)\.(\w+|\*)`", read(GUIDE))
    complaints = [f"{GUIDE}: there is no test {suite}.{name}" for suite, name in named
                  if (suite, name) not in known and (name != "*" or suite not in suites)]
    finish("cases", complaints if named else [f"{GUIDE}: names no test"])


main()
