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

_HERE = pathlib.Path(__file__).resolve().parent.parent
_PAGE = pathlib.Path(os.environ.get("CORDON_SOURCE", _HERE)) / "docs" / "kernel-features.md"
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (Landlock ABI|system call|socket|root handle|listener flags) ([^|]+?) \| ", re.M)

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


_ASK = {
    "Landlock ABI": lambda what: landlock_abi() >= int(what),
    # With arguments that no call takes: where it exists, it says so in another way.
    "system call": lambda what: _answer(int(what), -1, None, -1, -1, -1, -1) != errno.ENOSYS,
    "socket": _has_socket,
    "root handle": _has_root,
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
