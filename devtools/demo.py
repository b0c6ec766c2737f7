# SPDX-License-Identifier: BSD-3-Clause
"""The demo after set-up: build, forward, compare, show. Called by devtools/demo with the path of a capture."""

import subprocess
import sys
import tempfile
import time

import building
from pmdrun import machine
from pmdrun.testpmd import Testpmd, TestpmdError

ROOT = building.ROOT
BUILD = ROOT / "build"
FRAMES_WANTED = 100_000
BYTES_WANTED = 64 << 20
TARGETS = ["app/swhca/swhca", "app/pcap-diff/pcap-diff", "lib/swhca/preload/libswhca.so",
           "drivers/net/stride/librte_net_stride.so"]


def say(text):
    """A line, at once."""
    print(text, flush=True)


def stop(text, code=1):
    """Ends with one line on stderr."""
    print(f"demo: {text}", file=sys.stderr)
    sys.exit(code)


def build():
    """Configures and builds what the demo needs."""
    if failure := building.build("build", targets=TARGETS):
        print(failure, file=sys.stderr)
        stop("the build failed, see above")


def capture_size(capture):
    """(frames, bytes, longest frame) of the capture; ends with exit code 2 if it is none."""
    done = subprocess.run([f"{BUILD}/app/pcap-diff/pcap-diff", "--count", capture], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        stop(done.stderr.strip().removeprefix("pcap-diff: "), 2)
    frames, length, longest = (int(word) for word in done.stdout.split())
    if frames == 0:
        stop(f"{capture}: holds no frames", 2)
    return frames, length, longest


def forward(capture, out, frames, rounds, longest):
    """Runs testpmd until the frames are through; (testpmd after its end, its xstats by port, seconds of forwarding)."""
    longest = max(1518, longest + 4)
    mbuf_bytes = 2176 if longest <= 1518 else longest + 256
    testpmd = Testpmd(
        BUILD, [f"mlx5_0,wire=pcap,in={capture},loop={rounds},patience=20000", f"mlx5_1,wire=pcap,out={out}"],
        ["net_stride0,ibdev=mlx5_0", "net_stride1,ibdev=mlx5_1"],
        ["--forward-mode=io", "--total-num-mbufs=8192", f"--max-pkt-len={longest}", f"--mbuf-size={mbuf_bytes}"],
        memory_args=machine.memory_args(160 if mbuf_bytes <= 4096 else 640))
    with testpmd:
        begun = time.monotonic()
        testpmd.command_output("start")
        sent, moved = -1, begun
        while time.monotonic() - moved < 5:
            now = testpmd.stats(1).get("TX-packets", 0)
            if now != sent:
                sent, moved = now, time.monotonic()
                print(f"\r  forwarded {sent} of {frames * rounds} frames", end="", flush=True)
            if sent >= frames * rounds:
                break
        print()
        seconds = moved - begun
        testpmd.command_output("stop")
        xstats = [testpmd.xstats(0), testpmd.xstats(1)]
        testpmd.command_output("port stop all")
    return testpmd, xstats, seconds


def table(rows):
    """Prints rows of (name, value)."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def reasons(xstats, prefix):
    """`name number, ...` of the per-port counters that start with prefix and are not 0."""
    found = [f"{name.removeprefix(prefix).replace('_', ' ')} {value}" for name, value in xstats.items()
             if name.startswith(prefix) and value]
    return ", ".join(found) or "none"


def main():
    """The whole demo; exit code 0 only if everything that went in came out unchanged."""
    capture = sys.argv[1]
    say("build ...")
    build()
    frames, length, longest = capture_size(capture)
    rounds = max(1, min(FRAMES_WANTED // frames, BYTES_WANTED // max(1, length)))
    memory = "without hugepages" if machine.memory_args()[0] == "--no-huge" else "with hugepages"
    say(f"testpmd io-forwards {capture}, {rounds} times, {memory}:")
    with tempfile.TemporaryDirectory(prefix="stride-demo-") as folder:
        out = f"{folder}/out.pcap"
        try:
            testpmd, xstats, seconds = forward(capture, out, frames, rounds, longest)
        except TestpmdError as error:
            stop(str(error))
        done = subprocess.run([f"{BUILD}/app/pcap-diff/pcap-diff", capture, out, "--repeats", str(rounds)],
                              capture_output=True, text=True, check=False)
        show(testpmd.report, xstats, done.stdout.strip() or done.stderr.strip(), (frames * rounds, length * rounds, seconds))
    sys.exit(done.returncode)


def show(report, xstats, verdict, sizes):
    """The table: what came out, what it cost, where every packet went."""
    frames, length, seconds = sizes
    rx, tx = xstats
    source, sink = (port["wire"] for port in report["ports"])
    received = report["ports"][0]["counters"]["rx_frames"]
    copied = sum(rx[f"rx_copied_{reason}"] for reason in ("short", "no_spare", "no_headroom", "asked"))
    dropped = sum(value for name, value in rx.items() if name.startswith("rx_dropped_"))
    accounted = "==" if rx["rx_attached"] + copied + dropped == received else "!="
    losses = [f"{name.replace('_', ' ')} {value}" for name, value in report["ports"][0]["counters"].items()
              if value and name in ("out_of_buffer", "rx_steering_miss", "rx_oversize", "rx_queue_error")]
    table([
        ("in, from the capture", f"{source['frames_in']} frames, {source['bytes_in']} bytes"),
        ("out, to a capture", f"{sink['frames_out']} frames, {sink['bytes_out']} bytes"),
        ("compared", verdict),
        ("rate", f"{frames / seconds / 1e6:.2f} Mpps, {8 * length / seconds / 1e9:.2f} Gb/s (reading and writing files)"),
        ("receive WQEs posted", f"{rx['rx_wqes_posted']}: one for {received / max(1, rx['rx_wqes_posted']):.0f} packets"),
        ("doorbells per packet", f"receive {rx['rx_doorbells'] / received:.4f}, send {tx['tx_doorbells'] / received:.4f}"),
        ("send WQEs", f"{tx['tx_wqes']}: one for {received / max(1, tx['tx_wqes']):.1f} packets"),
        ("attached (zero copy)", rx["rx_attached"]),
        ("copied", f"{copied} ({reasons(rx, 'rx_copied_')})"),
        ("dropped by the driver", f"{dropped} ({reasons(rx, 'rx_dropped_')})"),
        ("attached + copied + dropped", f"{rx['rx_attached'] + copied + dropped} {accounted} {received} received"),
        ("dropped by the device", ", ".join(losses) or "none"),
        ("receive buffers", f"{rx['rx_buffers_total']}, {rx['rx_buffer_bytes'] / 1048576:.2f} MiB"),
        ("rules of the hardware broken", report["broken_total"] or "none"),
    ])


main()
