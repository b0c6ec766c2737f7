# SPDX-License-Identifier: BSD-3-Clause
"""Writes first inputs for the fuzzers: what a good input looks like. The corpora were grown from these.

usage: seeds.py FOLDER        one folder a target is made in it
"""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "functional"))
from frames import PCAP_HEADER, ethernet, ip_packet, tcp_frame, udp_frame  # noqa: E402

PORTS = [
    "mlx5_0,wire=pair,peer=mlx5_1\nmlx5_1,wire=pair,pause=on,mac=02:00:00:00:00:07",
    "a,wire=gen,size=64-1518,flows=256,vlan=5,proto=tcp,ipv6=on,bad_csum=1/7,dst=02:00:00:00:00:01,seed=3,count=9,rate=1.5M,check=on",
    "b,wire=gen,size=imix,min_log_stride=7,max_log_strides=12,striding=off,max_tso=0,min_inline=l2,max_frame=9018",
    "c,wire=pcap,in=a\\,b.pcap,loop=0,rate=10k,netdev=eth0",
]
DEVARGS = ["ibdev=mlx5_0", "ibdev=mlx5_1,port=1,log_stride_bytes=11,log_strides=6,copy_threshold_bytes=65535",
           "ibdev=x,inline_threshold_bytes=1024"]


def pcap(frames, byte_order="<", magic=0xA1B2C3D4):
    """A capture, of either byte order."""
    text = struct.pack(byte_order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    for frame in frames:
        text += struct.pack(byte_order + "IIII", 1, 2, len(frame), len(frame)) + frame
    return text


def pcapng(frame):
    """The shortest pcapng: a section, an interface, a packet."""
    padded = frame + b"\0" * (-len(frame) % 4)
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 65535, 20)
    total = 32 + len(padded)
    return section + interface + struct.pack("<IIIIIII", 6, total, 0, 0, 0, len(frame), len(frame)) + padded + struct.pack("<I", total)


def frames():
    """Frames of all layers the parser knows."""
    fragment = bytearray(udp_frame(4, 40, 3))
    fragment[20] |= 0x20
    extension = ethernet(6, ip_packet(6, 0, struct.pack(">BBHI", 17, 0, 0, 0) + bytes(24), 0))
    qinq = udp_frame(4, 30, 1, vlan=5)
    qinq = qinq[:12] + struct.pack(">HH", 0x88A8, 9) + qinq[12:]
    arp = bytes.fromhex("ffffffffffff0253570000000806000108000604000102535700000" + "00a0000010000000000000a000002")
    return [udp_frame(4, 20, 1), udp_frame(6, 300, 2, vlan=7), tcp_frame(4, 100, 3), tcp_frame(6, 10, 4), bytes(fragment),
            extension, qinq, arp, bytes(60)]


def vnic_packet(frame):
    """An OPA VNIC packet around a frame."""
    pad = -(20 + len(frame) + 5) & 7
    header = struct.pack("<IIIII", 0x12345 | (20 + len(frame) + pad + 5) // 8 << 20, 1 << 31 | 2 << 29 | 0x11, 0x78, 0, 7 << 16)
    return header + frame + bytes(pad + 4) + bytes([pad | 0x40])


def inputs():
    """{target: [inputs]}."""
    noise = random.Random(1)
    some = lambda size: noise.randbytes(size)  # noqa: E731
    plain = frames()
    return {
        "options": [b"\0" + text.encode() for text in PORTS] + [b"\1cpu=1,idle", b"\1manual"] +
                   [b"\2" + text.encode() for text in DEVARGS],
        "captures": [pcap(plain[:3]), pcap(plain[:2], ">"), pcap(plain[:1], magic=0xA1B23C4D), pcapng(plain[0]), PCAP_HEADER],
        "frames": [some(24) + frame for frame in plain for _ in (1, 2)],
        "encaps": [bytes([0, 0, 0]) + some(5) + vnic_packet(frame) for frame in plain] +
                  [bytes([0, 6, 0]) + some(5) + bytes(40) + b"\x08\0\0\0" + frame[14:] for frame in plain] +
                  [bytes([kind, 1, 0, 5, 0, 0]) + frame for kind in (2, 3) for frame in plain],
        "commands": [b"\0" + some(size) for size in (20, 60, 100, 200)],
        "wqes": [some(size) for size in (50, 100, 200, 400)],
        "completions": [bytes([form]) + some(size) for form in (1, 0, 5, 0x21, 0x41, 0x81) for size in (40, 160)] +
                       [bytes([form, 0x80]) + some(160) for form in (1, 5, 0x21)],
    }


def main():
    """Writes them."""
    for target, texts in inputs().items():
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts):
            (folder / f"seed-{number}").write_bytes(text)


main()
