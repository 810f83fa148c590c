# SPDX-License-Identifier: Apache-2.0
"""A process that gives something up and then executes the rest of its arguments, or looks into
another one: pool_probe.py WHAT... -- COMMAND..., or pool_probe.py WHAT... look PID FD."""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
CREATE_RULESET, RESTRICT_SELF = 444, 446  # the same on all architectures
MAKE_CHAR = 1 << 6  # a right that nothing here uses


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def no_new_privs():
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def landlock():
    """A domain that forbids to make character devices, and nothing else but to look into others."""
    attr = struct.pack("Q", MAKE_CHAR)
    fd = check(LIBC.syscall(CREATE_RULESET, attr, ctypes.c_size_t(len(attr)), 0))
    check(LIBC.syscall(RESTRICT_SELF, fd, 0))
    os.close(fd)


def seccomp():
    """A filter that allows everything."""
    program = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(program)
    check(LIBC.prctl(PR_SET_SECCOMP, 2, struct.pack("HxxxxxxP", 1, ctypes.addressof(buffer)), 0, 0))


def main(words):
    while words:
        word = words.pop(0)
        if word == "--":
            os.execv(words[0], words)
        elif word == "look":
            try:
                print(os.readlink(f"/proc/{words[0]}/fd/{words[1]}"))
            except OSError as error:
                print(f"errno {error.errno}")
            return
        else:
            {"no_new_privs": no_new_privs, "landlock": landlock, "seccomp": seccomp}[word]()


main(sys.argv[1:])
