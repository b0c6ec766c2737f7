#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The less usual calls by which programs reach device files and pass descriptors on.   forms.py (under `swhca run`)"""
import ctypes
import glob
import os
import socket
import stat
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
DEVICE = b'/dev/infiniband/uverbs0'
SYS_OPENAT2, SYS_CLOSE_RANGE, AT_FDCWD, AT_EMPTY_PATH, STATX_BASIC = 437, 436, -100, 0x1000, 0x7ff
EOPNOTSUPP, EBADF, EIO = 95, 9, 5
NO_COMMAND = [struct.pack('<HBB', 97, 0, 0), bytes(4)]  # a command that does not exist: 4 + 4 bytes


class OpenHow(ctypes.Structure):
    _fields_ = [('flags', ctypes.c_uint64), ('mode', ctypes.c_uint64), ('resolve', ctypes.c_uint64)]


class Glob(ctypes.Structure):
    _fields_ = [('count', ctypes.c_size_t), ('paths', ctypes.POINTER(ctypes.c_char_p)), ('rest', ctypes.c_char * 64)]


def openat2():
    how = OpenHow(os.O_RDWR | os.O_CLOEXEC, 0, 0)
    return libc.syscall(SYS_OPENAT2, AT_FDCWD, DEVICE, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))


def command_error(fd):
    """The errno by which the descriptor refuses a command, 0 if it takes it."""
    try:
        os.writev(fd, NO_COMMAND)
    except OSError as error:
        return error.errno
    return 0


def is_device(fd):
    info = os.fstat(fd)
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == os.stat(DEVICE).st_rdev


fd = openat2()
assert is_device(fd) and command_error(fd) == EOPNOTSUPP

statx = ctypes.create_string_buffer(256)
assert libc.statx(fd, b'', AT_EMPTY_PATH, STATX_BASIC, statx) == 0
assert stat.S_ISCHR(struct.unpack_from('<H', statx, 28)[0])

left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
socket.send_fds(left, [b'x'], [fd])
received = socket.recv_fds(right, 10, 1)[1][0]
os.close(fd)
assert is_device(received) and command_error(received) == EOPNOTSUPP  # the context lives on in the copy

child = os.fork()
if child == 0:
    os._exit(0 if command_error(received) == EIO else 1)
assert os.waitpid(child, 0)[1] == 0, 'a forked child has a working context'

assert libc.syscall(SYS_CLOSE_RANGE, received, received, 0) == 0
assert command_error(received) == EBADF
with open('/dev/null') as plain:  # the number may be used again: it is no device any more
    assert not is_device(plain.fileno()) or plain.fileno() != received

assert '/sys/class/infiniband/mlx5_0/ports/1/gids/0' in glob.glob('/sys/class/infiniband/*/ports/1/gids/*')
found = Glob()
assert libc.glob(b'/dev/infiniband/uverbs[01]', 0, None, ctypes.byref(found)) == 0
assert [found.paths[i] for i in range(found.count)] == [DEVICE, b'/dev/infiniband/uverbs1']
print('forms: all passed')
