# SPDX-License-Identifier: BSD-3-Clause
"""What the checks share: the tree's source files, and how a check ends."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".cpp", ".hpp", ".h", ".c"}


def files(*suffixes):
    """Files git tracks or would track, with one of the suffixes, relative to the root, sorted."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # an unpacked archive
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith(("build", ".git/", ".cache/"))]
    paths = sorted({pathlib.PurePosixPath(name) for name in names})
    return [path for path in paths if path.suffix in suffixes and (ROOT / path).exists()]


def read(path):
    """The text of a file of the tree."""
    return (ROOT / path).read_text(encoding="utf-8")


def finish(what, complaints):
    """Prints every complaint; exit code 1 if there is one."""
    for complaint in complaints:
        print(complaint)
    print(f"{what}: {len(complaints)} complaints")
    sys.exit(1 if complaints else 0)
