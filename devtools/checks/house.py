#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""House rules a machine can see: licence line, file and function length, `#if`, no machine's paths, no volatile."""

import re

from common import CODE, files, finish, read

LONGEST_FILE = 600
LONGEST_FUNCTION = 60
TEXT = CODE | {".py", ".md", ".rst", ".ini", ".build", ".sh", ".txt", ""}
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.-])/(work|farm|opt/ref|tmp/bash_jobs)[/.]")
PREPROCESSOR_IF = re.compile(r"^\s*#\s*(if|ifdef|ifndef)\b", re.M)
VOLATILE = re.compile(r"\bvolatile\b")
IF_ALLOWED = {"lib/swhca/swhca.h", "lib/mbufqp/mbufqp.h", "drivers/net/stride/compat.hpp"}


def without_comments(text):
    """The code of a C++ file, comments blanked, lines kept."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.S)


def functions(code):
    """(first line, lines) of each function body: a `{` ending a line that holds a `)`, up to its `}` at the same indent."""
    lines = code.splitlines()
    for first, line in enumerate(lines):
        if not re.search(r"\)[\w\s:&>,()-]*\{\s*$", line) or re.match(r"\s*(if|for|while|switch|else|\} else|namespace)\b", line):
            continue
        indent = len(line) - len(line.lstrip())
        for last in range(first + 1, len(lines)):
            if lines[last].strip() and len(lines[last]) - len(lines[last].lstrip()) <= indent and lines[last].lstrip().startswith("}"):
                yield first + 1, last - first + 1
                break


def code_complaints(path, text):
    """What is wrong with a C or C++ file."""
    code = without_comments(text)
    if "SPDX-License-Identifier: BSD-3-Clause" not in text.splitlines()[0]:
        yield f"{path}:1: no SPDX licence line"
    count = text.count("\n")
    if count > LONGEST_FILE:
        yield f"{path}: {count} lines (at most {LONGEST_FILE})"
    for first, length in functions(code):
        if length > LONGEST_FUNCTION:
            yield f"{path}:{first}: function of {length} lines (at most {LONGEST_FUNCTION})"
    in_library = str(path).startswith(("lib/", "drivers/"))
    if in_library and not str(path).startswith("lib/base/") and str(path) not in IF_ALLOWED:
        for match in PREPROCESSOR_IF.finditer(code):
            yield f"{path}:{code.count(chr(10), 0, match.start()) + 1}: #if belongs into lib/base"
    if in_library and VOLATILE.search(code):
        yield f"{path}: volatile; use the named accesses of lib/base/barrier.hpp"


def main():
    """Checks the tree."""
    complaints = []
    for path in files(*TEXT):
        if str(path).startswith(("test/fuzz/corpus/", "test/data/")):
            continue
        text = read(path)
        if path.suffix in CODE:
            complaints += code_complaints(path, text)
        if str(path) == "devtools/checks/house.py":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                complaints.append(f"{path}:{number}: path of one machine")
    finish("house rules", complaints)


main()
