# SPDX-License-Identifier: BSD-3-Clause
"""Frames made and changed by plain arithmetic: what a test expects where it can't expect what went in."""

import struct

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
TCP, UDP = 6, 17
FIN, PSH, ACK = 0x01, 0x08, 0x10


def write_pcap(path, frames):
    """Writes a capture of `frames` (bytes each)."""
    with open(path, "wb") as out:
        out.write(PCAP_HEADER)
        for number, frame in enumerate(frames):
            out.write(struct.pack("<IIII", 1, number, len(frame), len(frame)) + frame)


def read_pcap(path):
    """Frames of a little-endian capture of micro- or nanoseconds."""
    with open(path, "rb") as capture:
        data = capture.read()
    frames, at = [], 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


def checksum(data):
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_packet(version, proto, l4, ident=0):
    """An IPv4 or IPv6 packet around `l4`, whose checksum (at its place for `proto`) is filled in."""
    if version == 4:
        source, target = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(l4), ident & 0xFFFF, 0x4000, 64, proto, 0) + source + target
        header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
        pseudo = source + target + struct.pack(">HH", proto, len(l4))
    else:
        source, target = bytes([0xFD] + [0] * 14 + [1]), bytes([0xFD] + [0] * 14 + [2])
        header = struct.pack(">IHBB", 6 << 28, len(l4), proto, 64) + source + target
        pseudo = source + target + struct.pack(">II", len(l4), proto)
    place = 16 if proto == TCP else 6
    value = checksum(pseudo + l4)
    if proto == UDP and value == 0:
        value = 0xFFFF
    return header + l4[:place] + struct.pack(">H", value) + l4[place + 2:]


def ethernet(version, payload, vlan=None):
    """A frame; with a VLAN tag if asked."""
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, vlan)
    return bytes.fromhex("025357000000" "025357000001") + tag + struct.pack(">H", 0x0800 if version == 4 else 0x86DD) + payload


def pad(frame):
    """The shortest frame a wire carries, without FCS."""
    return frame + b"\0" * max(0, 60 - len(frame))


def tcp_segment(payload, sequence, flags, ports=(1000, 2000)):
    """A TCP header with 12 bytes of options, and payload."""
    options = bytes.fromhex("0101080a0000000100000002")
    return struct.pack(">HHIIBBHHH", *ports, sequence & 0xFFFFFFFF, 7, 8 << 4, flags, 512, 0, 0) + options + payload


def payload_of(length, seed):
    """Bytes that differ from frame to frame."""
    return bytes((n * 7 + seed * 13 + 1) & 0xFF for n in range(length))


def tcp_frame(version, length, seed, vlan=None):
    """One TCP frame with `length` payload bytes."""
    return segments_of(version, length, seed, length or 1, vlan)[0]


def segments_of(version, length, seed, segment_bytes, vlan=None):
    """What a TCP frame with `length` payload bytes becomes if sent with a segment size of `segment_bytes`:
    IPv4 identification counts up, FIN and PSH stay for the last."""
    payload, frames = payload_of(length, seed), []
    starts = range(0, length, segment_bytes) if length else [0]
    for number, at in enumerate(starts):
        last = at + segment_bytes >= length
        segment = tcp_segment(payload[at:at + segment_bytes], 1000 + at, ACK | (PSH | FIN if last else 0))
        frames.append(ethernet(version, ip_packet(version, TCP, segment, 77 + seed + number), vlan))
    return frames


def udp_frame(version, length, seed, vlan=None, ports=None):
    """One UDP frame with `length` payload bytes."""
    source, target = ports or (5000 + seed % 64, 53)
    datagram = struct.pack(">HHHH", source, target, 8 + length, 0) + payload_of(length, seed)
    return pad(ethernet(version, ip_packet(version, UDP, datagram, seed), vlan))
