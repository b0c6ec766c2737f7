# SPDX-License-Identifier: BSD-3-Clause
"""The stages of devtools/test: builds, and the meson suites each build runs. Prints N passed, N failed."""

import argparse
import os
import sys
import time
import xml.etree.ElementTree as ElementTree

import building
from building import ROOT

# Line tables only and little optimization, several sources at once: a sanitizer's build takes a third of the
# time, its reports are as good.
SANITIZER = ["-Db_lundef=false", "-Dbuildtype=plain", "-Doptimization=1", "-Ddebug=true", "-Dcpp_args=-g1",
             "-Dunity=on"]

# name, meson options, suites. Sanitizers run what they can reach; DPDK itself is as the system built it. build-fuzz is
# built with clang, for libFuzzer, and only its targets.
STAGES = [
    ("build", [], ["house", "unit", "format", "abi", "functional"]),
    ("build-asan", ["-Db_sanitize=address,undefined", *SANITIZER], ["unit", "format", "abi", "functional"]),
    ("build-fuzz", ["-Dfuzz=true", "-Db_sanitize=address,undefined", *SANITIZER], ["fuzz"]),
    ("build-tsan", ["-Db_sanitize=thread", *SANITIZER], ["unit", "abi"]),
]


def say(text):
    """One line, at once."""
    print(text, flush=True)


def build(folder, options):
    """Configures and builds; False, after showing the end of the log, if that fails."""
    fuzzers = "-Dfuzz=true" in options
    failure = building.build(folder, options, ["fuzzers"] if fuzzers else [],
                             {"CC": "clang", "CXX": "clang++"} if fuzzers else {})
    if failure:
        say(failure)
    return not failure


def count(folder):
    """(passed, names of the failed) of the suites that ran last in `folder`."""
    passed, failed = 0, []
    for case in ElementTree.parse(ROOT / folder / "meson-logs" / "testlog.junit.xml").iter("testcase"):
        name = f"{folder}: {case.get('classname')}: {case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None:
            say(f"skipped: {name}")
        else:
            passed += 1
    return passed, failed


def stage(folder, options, suites):
    """One build and its suites; (passed, failed)."""
    begun = time.monotonic()
    if not build(folder, options):
        return 0, [f"{folder}: the build"]
    say(f"{folder}: built in {time.monotonic() - begun:.0f} s")
    begun = time.monotonic()
    log = ROOT / folder / "test.log"
    arguments = [word for suite in suites for word in ("--suite", suite)]
    log.write_text("", encoding="utf-8")
    ok = building.logged(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", *arguments], log)
    passed, failed = count(folder)
    if not ok and not failed:
        failed = [f"{folder}: meson test, see {log}"]
    if failed:
        say("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]))
    say(f"{folder}: {', '.join(suites)}: {passed} passed, {len(failed)} failed in {time.monotonic() - begun:.0f} s")
    return passed, failed


def main():
    """Parses the options and runs the stages."""
    parser = argparse.ArgumentParser(prog="devtools/test", description="Builds and runs every test.")
    parser.add_argument("--long", action="store_true", help="soaks, long fuzzing and full matrices too")
    parser.add_argument("--quick", action="store_true", help="the release build only")
    parser.add_argument("--stage", action="append", choices=[stage[0] for stage in STAGES], help="only this build; repeatable")
    options = parser.parse_args()
    os.environ["STRIDE_TEST_SCOPE"] = "long" if options.long else "normal"
    passed, failed = 0, []
    wanted = options.stage or [entry[0] for entry in (STAGES[:1] if options.quick else STAGES)]
    for folder, meson_options, suites in [entry for entry in STAGES if entry[0] in wanted]:
        suites = [*suites, *(f"{suite}-long" for suite in suites if options.long and suite in ("abi", "functional"))]
        stage_passed, stage_failed = stage(folder, meson_options, suites)
        passed += stage_passed
        failed += stage_failed
    for name in failed:
        say(f"failed: {name}")
    say(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
