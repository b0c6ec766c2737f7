#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the encaps of lib/mbufqp share: lines of each file by what includes it, and whether Ethernet's bursts are the same
instructions with and without the other encaps built.

usage: devtools/encaps.py [BUILD_FOLDER]      without a folder: lines and includes only
"""

import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIB = ROOT / "lib"
SEND_PATH = ["mbufqp/tx_burst.hpp", "mbufqp/tx_queue.cpp", "mbufqp/queue_set.cpp", "mbufqp/tx_bursts.cpp"]
ENCAPS = {"Ethernet": ["mbufqp/encap/ethernet.hpp"],
          "IPoIB": ["mbufqp/encap/ipoib.hpp", "mbufqp/encap/ipoib.cpp"],
          "OPA VNIC": ["mbufqp/encap/opa_vnic.hpp", "mbufqp/encap/opa_vnic.cpp"]}
TABLES = {"mbufqp/encap/encaps.hpp", "mbufqp/encap/kind.hpp"}  # these name all encaps
# The send path with Ethernet alone.
ALONE = """#include "mbufqp/encap/ethernet.hpp"
#include "mbufqp/tx_burst.hpp"
#include <utility>
namespace stride::mbufqp {
template <std::size_t... sets>
constexpr std::array<TxBurst, sizeof...(sets)> table(std::index_sequence<sets...>) {
    return {&Burst<Ethernet, canonical(TxFeatures::from_bits(static_cast<TxFeatures::Bits>(sets))).bits()>::put...};
}
TxBurst alone(TxFeatures features) { return table(std::make_index_sequence<256>{})[features.bits()]; }
}
"""


def lines(name):
    """Lines of a file below lib/."""
    return len((LIB / name).read_text(encoding="utf-8").splitlines())


def included(name, seen=None):
    """Files of lib/ that a file includes, directly and not; itself too."""
    seen = set() if seen is None else seen
    if name in seen or not (LIB / name).exists():
        return seen
    seen.add(name)
    for found in re.findall(r'^#include "([^"]+)"', (LIB / name).read_text(encoding="utf-8"), re.M):
        included(found, seen)
    return seen


def print_lines():
    """The table of the guide."""
    own = {name: encap for encap, files in ENCAPS.items() for name in files}
    common = sorted(set().union(*(included(name) for name in SEND_PATH)) - set(own) - TABLES)
    print("| files | lines |\n|---|---|")
    for encap, files in ENCAPS.items():
        print(f"| {encap}: {', '.join(pathlib.Path(name).name for name in files)} | {sum(lines(name) for name in files)} |")
    print(f"| tables of encaps: {', '.join(sorted(pathlib.Path(name).name for name in TABLES))} | {sum(map(lines, TABLES))} |")
    for folder in sorted({name.split("/")[0] for name in common}):
        files = [name for name in common if name.split("/")[0] == folder]
        print(f"| common, {folder}: {len(files)} files | {sum(map(lines, files))} |")
    print("\nEncap files reached by includes:")
    for name in SEND_PATH:
        print(f"  {name}: {', '.join(sorted(included(name) & set(own))) or 'none'}")


def bursts(path):
    """{function: instructions, without the addresses they name} of Ethernet's bursts in an object file."""
    text = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found = collections.defaultdict(list)
    name = None
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if head:
            name = head[1] if "Burst<stride::mbufqp::Ethernet" in head[1] else None
        elif name and "\t" in line:
            instruction = re.sub(r"[0-9a-f]+ <.*>|# .*", "", line.split("\t", 1)[1])
            found[name].append(re.sub(r"0x[0-9a-f]+\(%rip\)", "(%rip)", instruction).strip())
    return found


def compare(build):
    """Ethernet's bursts beside the other encaps' against Ethernet's alone; the exit code."""
    commands = json.loads((ROOT / build / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next(one for one in commands if one["file"].endswith("mbufqp/tx_bursts.cpp"))
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "alone.cpp"
        source.write_text(ALONE, encoding="utf-8")
        objects = {}
        for name, path in (("all", entry["file"]), ("alone", str(source))):
            words = shlex.split(entry["command"])
            objects[name] = f"{folder}/{name}.o"
            words[words.index("-o") + 1] = objects[name]
            words[words.index("-c") + 1] = path
            words = [word for word in words if word not in ("-MD", "-MQ") and not word.endswith(".d")]
            subprocess.run([word for word in words if word != "-MF" and not (word == entry["output"])], cwd=entry["directory"],
                           check=True)
        together, alone = bursts(objects["all"]), bursts(objects["alone"])
    differ = [name for name in alone if together.get(name) != alone[name]]
    print(f"\nEthernet's functions: {len(alone)} alone, {len(together)} beside the other encaps, {len(differ)} differ; "
          f"instructions {sum(map(len, alone.values()))} and {sum(map(len, together.values()))}")
    for name in differ[:10]:
        print(f"  {name}: {len(alone[name])} and {len(together.get(name, []))}")
    return 1 if differ else 0


print_lines()
sys.exit(compare(sys.argv[1]) if len(sys.argv) > 1 else 0)
