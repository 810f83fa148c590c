# SPDX-License-Identifier: Apache-2.0
"""A terminal with `cordon run` at it, or a shell that starts it. Its master is the test's."""

import errno
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

import pytest

SH = "/bin/sh"
BASH = ["/bin/bash", "--norc", "--noprofile", "-i"]
PATIENCE = 20
NOT_A_NORMAL_ERASE = b"\x0c"


CAT = [SH, "-c", "echo up; exec cat"]


class Outer:
    """The caller's terminal: its master is in our hands, its slave is all that cordon has."""

    def __init__(self, me, opts, cmd, level=None, *, size=(30, 100), term="xterm", shell=True, argv=None, **kw):
        self.master, self.slave = pty.openpty()
        self.seen = b""
        self.me = me
        self.resize(*size)
        if me.switch:
            os.fchown(self.slave, me.uid, me.gid)
        modes = termios.tcgetattr(self.slave)
        modes[0] &= ~termios.IXON  # settings that are not restored by accident
        modes[6][termios.VERASE] = NOT_A_NORMAL_ERASE
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.before = self.modes()
        own = (lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if shell else None
        kw.setdefault("stderr", self.slave)
        self.proc = me.popen(
            argv or me.argv(["-q", *opts], cmd, level),
            stdin=self.slave,
            stdout=self.slave,
            start_new_session=True,
            preexec_fn=own,
            env={"TERM": term, "COLUMNS": "7", "LINES": "7", "PS1": "ready> "},
            **kw,
        )

    def modes(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError as error:
            assert error.errno == errno.EIO
            return False
        self.seen += data
        return True

    def expect(self, pattern, patience=PATIENCE):
        """Waits until `pattern` appears; what came up to its end is forgotten. The match."""
        end = time.monotonic() + patience
        while True:
            found = re.search(pattern, self.seen, re.DOTALL)
            if found:
                self.seen = self.seen[found.end() :]
                return found
            left = end - time.monotonic()
            assert left > 0, f"{pattern!r} did not come: {self.seen[-2000:]!r}"
            self._read(min(left, 0.5))

    def type(self, data):
        """Types all of it, and reads meanwhile: a terminal does both."""
        if isinstance(data, str):
            data = data.encode()
        end = time.monotonic() + PATIENCE
        while data:
            assert time.monotonic() < end, f"{len(data)} bytes were not taken"
            readable, writable, _ = select.select([self.master], [self.master], [], 0.5)
            if readable:
                self._read(0)
            if writable:
                data = data[os.write(self.master, data[:256]) :]

    def end(self, patience=PATIENCE):
        """Waits for cordon to end; its exit status. Everything it wrote is in `seen`."""
        until = time.monotonic() + patience
        while self.proc.poll() is None:
            assert time.monotonic() < until, f"still running: {self.seen[-2000:]!r}"
            self._read(0.02)
        while self._read(0):
            pass
        return self.proc.returncode

    def close(self):
        for fd in (self.master, self.slave):
            try:
                os.close(fd)
            except OSError:
                pass
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()


@pytest.fixture
def outer(me):
    made = []

    def make(opts, cmd, level=None, **kw):
        made.append(Outer(me, opts, cmd, level, **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()


def sh(script):
    return [SH, "-c", script]


def py(script):
    return ["/usr/bin/python3", "-c", script]


@pytest.fixture
def bash(outer, level):
    term = outer(["-e", "PS1=ready> "], BASH, level)
    term.expect(b"ready> ")
    return term
