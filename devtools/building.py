# SPDX-License-Identifier: BSD-3-Clause
"""Configures and builds with meson and ninja: for devtools/demo, devtools/test and devtools/bench."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = pathlib.Path("/var/lib/dpkg/status")  # written whenever a package comes or goes


def logged(command, log, environment=None):
    """Runs a command in the project's folder with its output at the end of `log`; whether it succeeded."""
    with open(log, "a", encoding="utf-8") as out:
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, **(environment or {})})
    return done.returncode == 0


def configure(folder, options, log, environment):
    """Configures, or configures anew if packages have come since (meson does not look again for what it missed)."""
    made = folder / "build.ninja"
    if not made.exists():
        return logged(["meson", "setup", str(folder), *options], log, environment)
    if PACKAGES.exists() and PACKAGES.stat().st_mtime > made.stat().st_mtime:
        return logged(["meson", "setup", "--reconfigure", str(folder)], log, environment)
    return True


def build(folder, options=(), targets=(), environment=None):
    """Builds `targets` (all, if none are named) in ROOT/folder. None, or what to show of a failure: the end of the log,
    which is build.log there."""
    folder = ROOT / folder
    folder.mkdir(exist_ok=True)
    log = folder / "build.log"
    log.write_text("", encoding="utf-8")
    if configure(folder, options, log, environment) and logged(["ninja", "-C", str(folder), *targets], log, environment):
        return None
    return "\n".join([*log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:], f"(the whole log: {log})"])
