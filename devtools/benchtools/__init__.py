# SPDX-License-Identifier: BSD-3-Clause
"""Parts of devtools/bench.py. Python standard library only."""
