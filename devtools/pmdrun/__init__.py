# SPDX-License-Identifier: BSD-3-Clause
"""Runs dpdk-testpmd over a software HCA, for the demo and the functional tests. Python standard library only."""
