# SPDX-License-Identifier: Apache-2.0
"""What kernels do not all have, from the one table of it: docs/kernel-features.md, "What the tests ask for".

A test that expects something else without a feature says `kernel_lacks("KEY")`. The kernel is asked for
the feature itself, never for its version. test_docs.py holds that every key is used and every use has a row.
"""

import ctypes
import errno
import functools
import os
import pathlib
import re
import socket
import struct
import subprocess

_HERE = pathlib.Path(__file__).resolve().parent.parent
_PAGE = pathlib.Path(os.environ.get("CORDON_SOURCE", _HERE)) / "docs" / "kernel-features.md"
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (Landlock ABI|system call|socket|root handle|listener flags|idmapped) ([^|]+?) \| ", re.M)

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi():
    """This kernel's, or 0."""
    return max(_libc.syscall(444, None, ctypes.c_size_t(0), 1), 0)


def _answer(*call):
    """0, or the error that a system call gives."""
    ctypes.set_errno(0)
    return 0 if _libc.syscall(*call) >= 0 else ctypes.get_errno()


def _has_socket(numbers):
    try:
        socket.socket(*map(int, numbers.split())).close()
    except OSError as e:
        return e.errno not in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.ESOCKTNOSUPPORT)
    return True


def _has_root(number):
    """A number that stands for the root of a file system. Elsewhere it is a descriptor that is not open."""
    handle = ctypes.create_string_buffer(b"\x08\0\0\0\x01\0\0\0" + bytes(8))
    return _answer(304, int(number), handle, os.O_RDONLY) != errno.EBADF


def _has_idmap(kind):
    """A mount of this kind that is nowhere to be seen, with the ids of another user namespace. For root only."""
    source = _libc.syscall(430, kind.encode(), 1)  # fsopen
    _libc.syscall(431, source, 6, None, None, 0)  # fsconfig: create
    mount = _libc.syscall(432, source, 1, 0)  # fsmount
    with subprocess.Popen(["unshare", "--user", "--map-root-user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdin.write(b"there\n")
        other.stdin.flush()
        other.stdout.readline()  # it has its namespace and ids by now
        ids = os.open(f"/proc/{other.pid}/ns/user", os.O_RDONLY)
        attributes = struct.pack("QQQQ", 0x100000, 0, 0, ids)  # MOUNT_ATTR_IDMAP
        answer = _answer(442, mount, b"", 0x1000, attributes, len(attributes))
        other.stdin.close()
    for fd in (ids, mount, source):
        os.close(fd)
    assert answer in (0, errno.EINVAL), os.strerror(answer)
    return answer == 0


_ASK = {
    "Landlock ABI": lambda what: landlock_abi() >= int(what),
    # With arguments that no call takes: where it exists, it says so in another way.
    "system call": lambda what: _answer(int(what), -1, None, -1, -1, -1, -1) != errno.ENOSYS,
    "socket": _has_socket,
    "root handle": _has_root,
    "idmapped": _has_idmap,
    # Without a filter: an unknown flag is refused before that is noticed.
    "listener flags": lambda what: _answer(317, 1, int(what), None) == errno.EFAULT,
}


@functools.cache
def table():
    """KEY: (kind of question, what is asked for)"""
    rows = _ROW.findall(_PAGE.read_text(encoding="utf-8"))
    assert len(rows) == len({key for key, _, _ in rows}), "a key is there twice"
    return {key: (kind, what.partition(" (")[0].strip("`")) for key, kind, what in rows}


@functools.cache
def kernel_lacks(key):
    """Whether this kernel has not got what the row asks for."""
    kind, what = table()[key]
    return not _ASK[kind](what)
