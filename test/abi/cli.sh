#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What swhca says and does before and after the program runs.   cli.sh SWHCA
set -euo pipefail
swhca=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # the tree of device files goes there: nothing may be left of it

# expect CODE TEXT ARGUMENTS...: exit code, and text in what it prints.
expect() {
    local code=$1 wanted=$2 got=0 text
    shift 2
    text=$("$swhca" "$@" 2>&1) || got=$?
    [ "$got" = "$code" ] || { printf 'swhca %s: exit code %s, not %s\n%s\n' "$*" "$got" "$code" "$text"; exit 1; }
    grep -qF -- "$wanted" <<<"$text" || { printf 'swhca %s: no "%s" in\n%s\n' "$*" "$wanted" "$text"; exit 1; }
}
expect 0 'mlx5_1' run -- ibv_devices
expect 0 'nic-a' run --port nic-a,wire=pair --port nic-b,wire=pair -- ibv_devices
expect 2 'no command to run' run
expect 2 'colour=red' run --port mlx5_0,wire=pair,colour=red -- true
expect 2 'every port has wire, mac' run --port mlx5_0,wire=pair,colour=red -- true
expect 2 "'mlx5_0' is given twice" run --port mlx5_0 --port mlx5_0 -- true
expect 2 'mac=1' run --port mlx5_0,mac=1 -- true
expect 2 'No such file' run --port mlx5_0,wire=pcap,in=/nonexistent -- true
expect 2 'known: cpu=N, idle, manual' run --engine fast -- true
expect 127 'No such file' run -- /nonexistent/command
expect 126 'Permission denied' run -- /etc/passwd
expect 3 '' run -- sh -c 'exit 3'
expect 0 "$(printf 'a b\nc')" run -- printf '%s\n' 'a b' c
expect 0 'usage' run -- sh -c 'echo usage' # programs that never look for devices are left alone
expect 0 '4: ACTIVE' run -- cat /sys/class/infiniband/mlx5_0/ports/1/state
expect 0 'PCI_ID=15B3:1017' run -- cat /sys/class/infiniband/mlx5_1/device/uevent
expect 0 '/sys/devices/swhca/' run -- readlink -f /sys/class/infiniband/mlx5_1/device
expect 0 'uverbs1' run -- ls /dev/infiniband
expect 0 'character special file' run -- stat /dev/infiniband/uverbs0
expect 0 '5357:00:01.0' run --pci -- ls /sys/bus/pci/devices
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null; then
    expect 0 'swhca1' run --netdev -- ls /sys/class/net
    expect 0 '02:53:57:00:00:01' run --netdev -- cat /sys/bus/pci/devices/5357:00:01.0/net/swhca1/address
    expect 2 'key netdev is given twice' run --netdev --port mlx5_0,netdev=eth7 -- true
    [ ! -e /sys/class/net/swhca0 ] || { echo 'the interface is in the namespace of the machine'; exit 1; }
fi
expect 0 '0' run -- cat /sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer

"$swhca" run --report "$work/report.json" -- ibv_devices >/dev/null
python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
assert [port["device"] for port in report["ports"]] == ["mlx5_0", "mlx5_1"], report
assert report["broken_total"] == 0, report' "$work/report.json"

left=$(find "$work" -name 'swhca-*')
[ -z "$left" ] || { printf 'left behind: %s\n' "$left"; exit 1; }
echo 'cli: all passed'
