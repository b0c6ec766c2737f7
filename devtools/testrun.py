# SPDX-License-Identifier: BSD-3-Clause
"""The stages of devtools/test: builds, and the meson suites each build runs. Prints N passed, N failed."""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Line tables only and little optimization, several sources at once (TOGETHER): a sanitizer's build takes a third of the
# time, its reports are as good.
SANITIZER = ["-Db_lundef=false", "-Dbuildtype=plain", "-Doptimization=1", "-Ddebug=true", "-Dcpp_args=-g1"]
TOGETHER = ["-Dunity=on"]  # not for fuzzers, one of which has its own kind of user memory in place of the model's

# name, meson options, suites. Sanitizers run what they can reach; DPDK itself is as the system built it. build-fuzz is
# built with clang, for libFuzzer, and only its targets.
STAGES = [
    ("build", [], ["house", "unit", "format", "abi", "functional"]),
    ("build-asan", ["-Db_sanitize=address,undefined", *SANITIZER, *TOGETHER], ["unit", "format", "abi", "functional"]),
    ("build-fuzz", ["-Dfuzz=true", "-Db_sanitize=address,undefined", *SANITIZER], ["fuzz"]),
    ("build-tsan", ["-Db_sanitize=thread", *SANITIZER, *TOGETHER], ["unit", "abi"]),
]


def say(text):
    """One line, at once."""
    print(text, flush=True)


def run(command, log, environment=None):
    """Runs a command with its output in `log`; the exit code."""
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, **(environment or {})}).returncode


def build(folder, options):
    """Configures (once) and builds; False, after showing the end of the log, if that fails."""
    os.makedirs(ROOT / folder, exist_ok=True)
    log = ROOT / folder / "build.log"
    configured = (ROOT / folder / "build.ninja").exists()
    fuzzers = "-Dfuzz=true" in options
    compiler = {"CC": "clang", "CXX": "clang++"} if fuzzers else {}
    ok = configured or run(["meson", "setup", folder, *options], log, compiler) == 0
    if ok and run(["ninja", "-C", folder, *(["fuzzers"] if fuzzers else [])], log) == 0:
        return True
    say("\n".join(log.read_text(encoding="utf-8").splitlines()[-40:]))
    return False


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
    code = run(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", *arguments], log)
    passed, failed = count(folder)
    if code != 0 and not failed:
        failed = [f"{folder}: meson test ended with {code}"]
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
        suites = [*suites, *(["abi-long"] if options.long and "abi" in suites else [])]
        stage_passed, stage_failed = stage(folder, meson_options, suites)
        passed += stage_passed
        failed += stage_failed
    for name in failed:
        say(f"failed: {name}")
    say(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
