#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every header compiles alone. Those that the source file of the same name includes first have shown it in the build; under
`devtools/test --long` all are compiled, with g++ and with clang++. Flags come from the build folder.

usage: headers.py BUILD_FOLDER
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from common import ROOT, files, finish, read

KEPT = ("-I", "-D", "-std", "-march", "-isystem", "-idirafter", "-include")


def flags_of(build):
    """folder -> include and define flags of a file compiled there."""
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text(encoding="utf-8"))
    flags = {}
    for command in commands:
        source = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        if ROOT not in source.parents:
            continue
        words = shlex.split(command["command"])
        kept = []
        for position, word in enumerate(words):
            if word in ("-isystem", "-idirafter", "-include"):
                kept += [word, words[position + 1]]
            elif word.startswith(KEPT):
                kept.append(word)
        flags.setdefault(source.parent, kept)
    return flags


def compile_alone(job):
    """Compiles one header as a translation unit; the complaint, or None."""
    compiler, header, flags, build = job
    language = "c" if header.suffix == ".h" else "c++"
    options = [flag for flag in flags if language == "c++" or not flag.startswith("-std")]
    driver = {"g++": "gcc", "clang++": "clang"}[compiler] if language == "c" else compiler
    done = subprocess.run([driver, "-fsyntax-only", "-Wall", "-Wextra", "-x", language, *options, "-"], cwd=build,
                          input=f'#include "{ROOT / header}"\n', capture_output=True, text=True, check=False)
    if done.returncode == 0 and "warning:" not in done.stderr:
        return None
    return f"{header}: does not compile alone with {driver}:\n{done.stderr[:1500]}"


def shown_by_the_build(header):
    """The source file of the same name includes it before all else."""
    source = header.with_suffix(".cpp")
    if not (ROOT / source).exists():
        return False
    first = re.search(r'^#include ["<](.*)[">]', read(source), re.MULTILINE)
    return first is not None and str(header).endswith(first[1])


def nearest(flags, folder):
    """Flags of the folder that shares most of its path with `folder`; a header-only one is compiled as lib/mprq is."""
    if str(folder).endswith("lib/mlx5"):
        folder = folder.parent / "mprq"
    return flags[max(flags, key=lambda place: len(os.path.commonpath([place, folder])))]


def main():
    """Headers of lib, drivers and app, nearest flags."""
    build = sys.argv[1]
    flags = flags_of(build)
    everything = os.environ.get("STRIDE_TEST_SCOPE") == "long"
    compilers = ("g++", "clang++") if everything else ("g++",)
    jobs = []
    for header in files(".hpp", ".h"):
        if not str(header).startswith(("lib/", "drivers/", "app/")) or (not everything and shown_by_the_build(header)):
            continue
        near = nearest(flags, ROOT / header.parent)
        jobs += [(compiler, header, near, build) for compiler in compilers if shutil.which(compiler)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        complaints = [text for text in pool.map(compile_alone, jobs) if text]
    finish(f"{len(jobs)} header compilations", complaints)


main()
