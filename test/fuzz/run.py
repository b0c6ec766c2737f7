# SPDX-License-Identifier: BSD-3-Clause
"""Runs one fuzzer: the inputs of its corpus, then new ones. A finding is printed, with its input, and kept.

usage: run.py TARGET CORPUS_FOLDER        STRIDE_TEST_SCOPE=long: ten minutes, another seed every time
"""

import base64
import os
import pathlib
import subprocess
import sys
import tempfile

RUNS = {"commands": 5000, "completions": 5000, "frames": 5000}  # the others: 20000; each takes a few seconds
LONG_SECONDS = 600


def main():
    """Runs the target; its exit code."""
    target, corpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    name = target.name.removeprefix("fuzz-")
    if os.environ.get("STRIDE_TEST_SCOPE") == "long":
        amount = [f"-max_total_time={LONG_SECONDS}"]
    else:
        amount = [f"-runs={RUNS.get(name, 20000)}", "-seed=1"]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    with tempfile.TemporaryDirectory(prefix="stride-fuzz-") as folder:
        seeds = [str(corpus)] if corpus.is_dir() else []
        done = subprocess.run([target, *amount, "-max_len=2048", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
                               f"-artifact_prefix={folder}/", folder, *seeds], env=environment, check=False)
        for path in pathlib.Path(folder).iterdir():
            if path.name.split("-")[0] in ("crash", "timeout", "oom", "leak", "slow"):
                print(f"{path.name}: {base64.b64encode(path.read_bytes()).decode()}")
    return done.returncode


sys.exit(main())
