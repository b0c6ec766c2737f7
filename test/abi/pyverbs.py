#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own Python tests under `swhca run`, on an Ethernet and on an InfiniBand port.

    pyverbs.py SWHCA [--link ethernet|infiniband] [--module NAME]... [--test NAME] [--verbose] [--skips]

Prints TAP: one line a link layer and module with the counts of its tests; `not ok` on any failure, error or crash.
Skipped tests are listed by reason. The tests come from the documentation of Debian's package rdma-core, and are
unpacked into a temporary folder; python3-pyverbs binds them to libibverbs.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TESTS = pathlib.Path('/usr/share/doc/rdma-core/tests')
PYTHON = '/usr/bin/python3'  # the interpreter that Debian's pyverbs is built for
TIMEOUT_S = 240
MODULES = ['device', 'pd', 'mr', 'cq', 'cqex', 'cq_events', 'qp', 'qpex', 'parent_domain', 'flow', 'rss_traffic',
           'addr', 'fork', 'shared_pd', 'relaxed_ordering', 'mlx5_cq', 'mlx5_raw_wqe', 'mlx5_timestamp', 'mlx5_uar']
PORTS = {'ethernet': 'mlx5_0,wire=loop', 'infiniband': 'mlx5_0,wire=loop,link_layer=ib,lid=17,sm_lid=1'}

# Runs in the child, under the model: one module, results as JSON on descriptor 3.
CHILD = r'''
import importlib, json, os, sys, types, unittest
results = os.fdopen(int(sys.argv[1]), 'w')
folder, module, only = sys.argv[2:5]
sys.argv[1:] = sys.argv[5:]
sys.path.insert(0, os.path.dirname(folder))
sys.path.insert(0, folder)
from args_parser import parser
parser.parse_args()
package = types.ModuleType('tests')  # without __init__, which loads every module there is
package.__path__ = [folder]
sys.modules['tests'] = package
sys.modules['tests.args_parser'] = sys.modules['args_parser']

class Result(unittest.TextTestResult):
    def tell(self, test, kind, why=''):
        print(json.dumps([test.id().split('.')[-1] if hasattr(test, 'id') else str(test), kind, str(why)]),
              file=results, flush=True)
    def startTest(self, test):
        super().startTest(test)
        self.tell(test, 'started')
    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, 'ok')
    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.tell(test, 'failed', error[1])
    def addError(self, test, error):
        super().addError(test, error)
        self.tell(test, 'failed', error[1])
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, 'skipped', reason)

for common in ('base', 'utils'):  # they import each other, and only in this order
    importlib.import_module('tests.' + common)
loaded = importlib.import_module('tests.test_' + module)
# pyverbs 44 does not hold on to the allocators of a parent domain, and crashes if they die before a CQ that was made with
# them. On hardware the one test that makes such a CQ goes on to an RC QP; where that is skipped, they have to be kept.
allocators = []
if hasattr(loaded, 'ParentDomainContext'):
    make_allocators = loaded.ParentDomainContext
    def keep_allocators(*args):
        allocators.append(make_allocators(*args))
        return allocators[-1]
    loaded.ParentDomainContext = keep_allocators

suite = unittest.TestSuite()
def add(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            add(test)
        elif only in ('', test.id().split('.')[-1]):
            suite.addTest(test)
add(unittest.defaultTestLoader.loadTestsFromModule(loaded))
outcome = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
sys.exit(0 if outcome.wasSuccessful() else 1)
'''


def unpack(folder):
    folder.mkdir()
    for source in TESTS.iterdir():
        if source.suffix == '.gz':
            with gzip.open(source) as packed, open(folder / source.stem, 'wb') as plain:
                shutil.copyfileobj(packed, plain)
        elif source.suffix == '.py':
            shutil.copy(source, folder)


def why_not():
    """Why the tests can't run here, or None."""
    if not (TESTS / 'base.py.gz').exists() and not (TESTS / 'base.py').exists():
        return f'{TESTS} has no tests (package rdma-core)'
    if not os.access(PYTHON, os.X_OK):
        return f'no {PYTHON}'
    probe = subprocess.run([PYTHON, '-c', 'import pyverbs.device'], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        return 'pyverbs does not load (package python3-pyverbs)'
    return None


def run_module(options, folder, link, module):
    """Runs one module. Returns {test: (kind, why)} and the text it printed."""
    output, told = folder.parent / 'output', folder.parent / 'told'
    command = [options.swhca, 'run', '--port', PORTS[link], '--', PYTHON, '-c', CHILD, '3', str(folder), module,
               options.test]
    with open(output, 'w') as out, open(told, 'w') as results:
        # The child knows the descriptor as 3: bash-free hand-over through pass_fds needs the number it has here.
        command[command.index('3')] = str(results.fileno())
        try:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, pass_fds=[results.fileno()],
                                  timeout=TIMEOUT_S, check=False)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 'timeout'
    outcomes = collections.OrderedDict()
    for line in told.read_text().splitlines():
        test, kind, why = json.loads(line)
        outcomes[test] = (kind, why)
    for test, (kind, _) in outcomes.items():
        if kind == 'started':
            outcomes[test] = ('failed', f'ended the process ({code})')
    if code not in (0, 1) and not any(kind == 'failed' for kind, _ in outcomes.values()):
        outcomes['(process)'] = ('failed', f'exit code {code}')
    if not outcomes:
        outcomes['(process)'] = ('failed', f'no test ran, exit code {code}')
    return outcomes, output.read_text(errors='replace')


def show(text):
    for line in text.strip().splitlines():
        print('#   ' + line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('swhca')
    parser.add_argument('--link', choices=PORTS, action='append')
    parser.add_argument('--module', action='append')
    parser.add_argument('--test', default='')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--skips', action='store_true', help='name each skipped test')
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f'1..0 # SKIP {reason}')
        return 0
    links, modules = options.link or list(PORTS), options.module or MODULES
    print(f'1..{len(links) * len(modules)}', flush=True)
    skips = collections.defaultdict(list)
    number, all_passed = 0, True
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / 'tests'
        unpack(folder)
        for link in links:
            for module in modules:
                number += 1
                outcomes, text = run_module(options, folder, link, module)
                counts = collections.Counter(kind for kind, _ in outcomes.values())
                passed = counts['failed'] == 0
                all_passed &= passed
                print(f'{"ok" if passed else "not ok"} {number} - {link} test_{module}: {counts["ok"]} ok, '
                      f'{counts["skipped"]} skipped, {counts["failed"]} failed', flush=True)
                for test, (kind, why) in outcomes.items():
                    if kind == 'skipped':
                        skips[why].append(f'{link} {module}.{test}')
                    elif kind == 'failed':
                        print(f'# {test}: {why}')
                if options.verbose or not passed:
                    show(text)
    for why, tests in sorted(skips.items()):
        print(f'# skipped {len(tests):3}: {why}')
        if options.skips:
            show('\n'.join(tests))
    return 0 if all_passed else 1


if __name__ == '__main__':
    sys.exit(main())
