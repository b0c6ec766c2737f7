#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Stock ibv_devinfo sees two ConnectX-5.   devinfo.sh SWHCA
set -euo pipefail
swhca=$1
command -v ibv_devinfo >/dev/null || { echo 'ibv_devinfo (package ibverbs-utils) is not installed'; exit 77; }
text=$("$swhca" run -- ibv_devinfo -v)
expect() {
    local count
    count=$(grep -cE "$2" <<<"$text" || true)
    [ "$count" = "$1" ] || { printf 'expected %s lines like "%s", got %s of\n%s\n' "$1" "$2" "$count" "$text"; exit 1; }
}
expect 1 '^hca_id:	mlx5_0$'
expect 1 '^hca_id:	mlx5_1$'
expect 2 'vendor_part_id:[[:space:]]+4119'
expect 2 'link_layer:[[:space:]]+Ethernet'
expect 2 'state:[[:space:]]+PORT_ACTIVE'
expect 2 'max_rwq_indirection_table_size:[[:space:]]+2048'
expect 2 'max_tso:[[:space:]]+262144'
expect 1 'GID\[  0\]:[[:space:]]+fe80:0000:0000:0000:0053:57ff:fe00:0001, RoCE v1'
# A device that demands inlined headers is one whose drivers know that: a ConnectX-4 Lx.
text=$("$swhca" run --port mlx5_0,wire=loop,min_inline=l2 -- ibv_devinfo)
expect 1 'vendor_part_id:[[:space:]]+4117'
echo 'devinfo: all passed'
