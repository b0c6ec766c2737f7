#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Stock programs between two processes: ibv_ud_pingpong on both link layers, raw_ethernet_bw.   two_processes.sh SWHCA
set -euo pipefail
swhca=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fabric=test-$$
tcp_port=$((20000 + $$ % 20000))
limit=60

missing() { printf '%s is not installed (package %s)\n' "$1" "$2"; exit 77; }
command -v ibv_ud_pingpong >/dev/null || missing ibv_ud_pingpong ibverbs-utils
command -v raw_ethernet_bw >/dev/null || missing raw_ethernet_bw perftest

# waits until a process listens on the TCP port
await_listener() {
    local hex
    hex=$(printf ':%04X ' "$tcp_port")
    for _ in $(seq 1000); do
        # No pipe here: with pipefail, a reader that stops at the match would make the writer fail.
        grep -qs "$hex.* 0A " /proc/net/tcp /proc/net/tcp6 && return 0
        sleep 0.05
    done
    echo 'the server does not listen'; cat "$work/server"; exit 1
}

# fail_with WHAT: both sides' words
fail_with() { printf '%s\n--- server\n%s\n--- client\n%s\n' "$1" "$(cat "$work/server")" "$(cat "$work/client")"; exit 1; }

# pingpong NAME PORT_KEYS_OF_SERVER PORT_KEYS_OF_CLIENT OPTIONS...
pingpong() {
    local name=$1 server=$2 client=$3
    shift 3
    timeout $limit "$swhca" run --engine idle --port "mlx5_0,wire=shm,fabric=$fabric-$name,$server" -- \
        ibv_ud_pingpong -p "$tcp_port" -n 200 -c "$@" >"$work/server" 2>&1 &
    local pid=$!
    await_listener
    timeout $limit "$swhca" run --engine idle --port "mlx5_0,wire=shm,fabric=$fabric-$name,$client" -- \
        ibv_ud_pingpong -p "$tcp_port" -n 200 -c "$@" 127.0.0.1 >"$work/client" 2>&1 || fail_with "$name: client failed"
    wait $pid || fail_with "$name: server failed"
    grep -q '^200 iters' "$work/client" && grep -q '^200 iters' "$work/server" || fail_with "$name: not all iterations"
    echo "ibv_ud_pingpong, $name: passed"
}
pingpong InfiniBand link_layer=ib,lid=1 link_layer=ib,lid=2
pingpong InfiniBand-GRH link_layer=ib,lid=1,mac=02:53:57:00:00:21 link_layer=ib,lid=2,mac=02:53:57:00:00:22 -g 0
pingpong RoCE-v1 mac=02:53:57:00:00:31 mac=02:53:57:00:00:32 -g 0
pingpong RoCE-v2-events mac=02:53:57:00:00:41 mac=02:53:57:00:00:42 -g 1 -e

# The server counts what arrives while the client sends for two seconds.
here=02:53:57:00:00:51 there=02:53:57:00:00:52
timeout $limit "$swhca" run --engine idle --report "$work/report" --port "mlx5_0,wire=shm,fabric=$fabric-raw,mac=$there" -- \
    raw_ethernet_bw --server -d mlx5_0 -E $here -B $there -D 4 -s 512 >"$work/server" 2>&1 &
server=$!
sleep 1
timeout $limit "$swhca" run --engine idle --port "mlx5_0,wire=shm,fabric=$fabric-raw,mac=$here" -- \
    raw_ethernet_bw --client -d mlx5_0 -B $here -E $there -D 2 -s 512 >"$work/client" 2>&1 || fail_with 'raw_ethernet_bw: client failed'
wait $server || fail_with 'raw_ethernet_bw: server failed'
for side in server client; do
    awk '$1 == 512 && $2 > 0 { found = 1 } END { exit !found }' "$work/$side" || fail_with "raw_ethernet_bw: no frames at the $side"
done
python3 -c 'import json, sys
broken = json.load(open(sys.argv[1]))["broken_rules"]
assert not broken, broken' "$work/report"
echo 'raw_ethernet_bw: passed'
