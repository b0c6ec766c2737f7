# SPDX-License-Identifier: BSD-3-Clause
"""One dpdk-testpmd over a software HCA, driven through its prompt."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time

from . import machine

PROMPT = b"testpmd> "


class TestpmdError(Exception):
    """testpmd did not start, ended early or did not answer; the text holds its last lines."""


class Testpmd:
    """A running testpmd. Use as a context manager; close() ends it and reads the HCA's report.

    build: build folder (swhca, libswhca.so and librte_net_stride.so are taken from it).
    hca_ports: the ports of the software HCA, as `swhca run --port` takes them.
    vdevs: EAL --vdev values. args: testpmd's own arguments.
    pci: EAL -a values for net/mlx5 (pmdrun.mlx5), instead of vdevs.
    primary: a Testpmd; this one becomes its secondary process, in its namespaces. On net_stride it needs no ports
    (hca_ports) and no vdevs of its own. lcores: EAL --lcores; processes must not share any.
    memory_args: EAL's arguments for memory, instead of memory_mib of small pages.
    control: where the software HCA takes faults (`swhca fault`).
    """

    def __init__(self, build, hca_ports, vdevs, args=(), *, eal=(), memory_mib=160, start_timeout_s=60,
                 memory_args=None, environment=None, pci=(), primary=None, lcores=None,
                 control=None):
        self.report = {}
        self.output = b""
        self._report_file = tempfile.NamedTemporaryFile(prefix="swhca-report-", suffix=".json")
        namespaces = ["nsenter", "-t", str(primary.pid), "--net", "--mount", "--root"] if primary else []
        engine = "manual" if primary else f"cpu={machine.engine_cpu()}"  # the primary's moves the packets
        hca = [f"{build}/app/swhca/swhca", "run", "--engine", engine, "--idle", "--report", self._report_file.name]
        hca += ["--control", control] if control else []
        for port in hca_ports:
            hca += ["--port", port]
        companions = "--pci" if primary else "--netdev"
        hca += [*([companions] if pci else []), "--"]
        command = [*namespaces, *hca, "dpdk-testpmd", "--lcores", lcores or machine.lcore_map(),
                   "--file-prefix", f"stride{os.getpid()}", "--proc-type", "secondary" if primary else "primary"]
        command += memory_args if memory_args is not None else ["--no-huge", "-m", str(memory_mib)]
        command += [word for address in pci for word in ("-a", address)]
        command += [] if pci else ["--no-pci", "-d", "librte_net_stride.so"]
        command += [word for vdev in vdevs for word in ("--vdev", vdev)]
        command += [*eal, "--", "--interactive", "--no-flush-rx", *args]
        self.command = command
        driver_dir = f"{build}/drivers/net/stride"
        library_path = f"{driver_dir}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        env = {**os.environ, "LD_LIBRARY_PATH": library_path, "TERM": "dumb", **(environment or {})}
        controller, terminal = pty.openpty()
        self._tty = controller
        self._process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT, env=env,
                                         start_new_session=True)
        os.close(terminal)
        self._read_until_prompt(start_timeout_s)
        if b"Fail to start port" in self.output:
            self._kill()
            raise TestpmdError(f"a port did not start:\n{self._last_lines()}")
        for word in args:
            if word.startswith("--forward-mode="):
                self._retry_sends(word.split("=", 1)[1])

    def _retry_sends(self, mode):
        """Lets the forwarding engine wait for room in a send queue: without it testpmd drops what is not taken at once."""
        self.command_output(f"set fwd {mode} retry")
        self.command_output("set burst tx delay 10 retry 100000")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def command_output(self, text, timeout_s=60):
        """Types a command; returns what it printed (lines, without the echo)."""
        self._write(text.encode() + b"\n")
        printed = self._read_until_prompt(timeout_s)
        return printed.decode(errors="replace").replace("\r", "").split("\n", 1)[-1]

    def command_printing(self, text, pattern, count, timeout_s=30):
        """Types a command that makes forwarding print, in the middle of prompts even; waits until `pattern` was
        printed `count` times and nothing more comes; returns all of it."""
        begun, deadline = len(self.output), time.monotonic() + timeout_s
        self._write(text.encode() + b"\n")
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._tty], [], [], 0.3)
            if ready:
                self.output += os.read(self._tty, 65536)
            elif self.output.count(pattern.encode(), begun) >= count:
                break
        return self.output[begun:].decode(errors="replace")

    def stats(self, port):
        """`show port stats`: {'RX-packets': n, ...}."""
        return _numbers(self.command_output(f"show port stats {port}"))

    def xstats(self, port):
        """`show port xstats`: {name: value}."""
        return _numbers(self.command_output(f"show port xstats {port}"))

    @property
    def pid(self):
        """Process that was started; after exec it is testpmd itself."""
        return self._process.pid

    def wait_for(self, condition, timeout_s=30, interval_s=0.02):
        """Calls condition() until it is true; False if it is not within the time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(interval_s)
        return True

    def wait_until_quiet(self, port_counters, timeout_s=60, quiet_s=0.5):
        """Waits until the numbers that port_counters() returns have not changed for quiet_s; returns them."""
        deadline = time.monotonic() + timeout_s
        last, since = port_counters(), time.monotonic()
        while time.monotonic() - since < quiet_s and time.monotonic() < deadline:
            time.sleep(0.05)
            now = port_counters()
            if now != last:
                last, since = now, time.monotonic()
        return last

    def close(self, timeout_s=60):
        """Quits testpmd and reads the report; raises TestpmdError if it did not end with exit code 0."""
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            os.write(self._tty, b"quit\n")
            self._drain(process, timeout_s)
        except OSError:
            pass
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise TestpmdError(f"testpmd did not quit within {timeout_s} s:\n{self._last_lines()}") from None
        finally:
            os.close(self._tty)
        if code != 0:
            raise TestpmdError(f"testpmd ended with exit code {code}:\n{self._last_lines()}")
        with open(self._report_file.name, encoding="utf-8") as report:
            text = report.read()
        self.report = json.loads(text) if text else {}

    def kill(self):
        """Ends it in the middle of whatever it does."""
        self._kill()

    def text(self):
        """Everything printed so far."""
        return self.output.decode(errors="replace").replace("\r", "")

    def _write(self, data):
        try:
            os.write(self._tty, data)
        except OSError as error:
            raise TestpmdError(f"testpmd has ended:\n{self._last_lines()}") from error

    def _drain(self, process, timeout_s):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._tty], [], [], 0.1)
            if ready:
                chunk = os.read(self._tty, 65536)
                if not chunk:
                    return
                self.output += chunk
            elif process.poll() is not None:
                return

    def _read_until_prompt(self, timeout_s):
        printed = b""
        deadline = time.monotonic() + timeout_s
        while PROMPT not in printed:
            ready, _, _ = select.select([self._tty], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._kill()
                raise TestpmdError(f"no answer within {timeout_s} s:\n{self._last_lines()}")
            try:
                chunk = os.read(self._tty, 65536)
            except OSError:
                chunk = b""
            if not chunk:
                code = self._process.wait()
                self._process = None
                raise TestpmdError(f"testpmd ended with exit code {code}:\n{self._last_lines()}")
            self.output += chunk
            printed += chunk
        return printed[: printed.rindex(PROMPT)]

    def _kill(self):
        process, self._process = self._process, None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _last_lines(self, count=25):
        return "\n".join(self.text().splitlines()[-count:])


def _numbers(text):
    """All `name: number` pairs of a testpmd table; a name may come several times a line."""
    return {name.strip(): int(value) for name, value in re.findall(r"([A-Za-z][\w\- ]*?):\s+(\d+)", text)}
