# SPDX-License-Identifier: BSD-3-Clause
"""Runs the unittest modules named on the command line and prints TAP, one line a test, as meson reads it.

usage: tap.py BUILD_FOLDER MODULE...      a module is a name in this folder, or the path of one
"""

import os
import sys
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "devtools"))


class TapResult(unittest.TestResult):
    """Prints each outcome as it comes."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def _line(self, ok, test, directive=""):
        self.number += 1
        name = test.shortDescription() or test.id()
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name.replace('#', '')}{directive}", flush=True)

    def _trace(self, error):
        text = "".join(traceback.format_exception(*error))
        print("\n".join("# " + line for line in text.splitlines()), flush=True)

    def addSuccess(self, test):
        self._line(True, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._line(False, test)
        self._trace(err)

    def addError(self, test, err):
        super().addError(test, err)
        self._line(False, test)
        self._trace(err)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failures.append((subtest, ""))
            self._line(False, subtest)
            self._trace(err)


def main():
    """Loads, counts, runs."""
    os.environ["STRIDE_BUILD"] = os.path.abspath(sys.argv[1])
    sys.path.extend(folder for folder in map(os.path.dirname, sys.argv[2:]) if folder)
    suite = unittest.defaultTestLoader.loadTestsFromNames([os.path.basename(path).removesuffix(".py") for path in sys.argv[2:]])
    result = TapResult()
    suite.run(result)
    print(f"1..{result.number}")
    return 0 if result.wasSuccessful() and result.number > 0 else 1


sys.exit(main())
