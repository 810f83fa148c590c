# SPDX-License-Identifier: Apache-2.0
"""The caller's terminal and streams: nothing typed, nothing drawn, nothing left changed."""

import fcntl
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import termios
import time
import tty

import pytest

from conftest import ceiling, expect, rows


class Terminal:
    """A terminal with a program in it whose controlling terminal it is."""

    def __init__(self, me):
        self.me = me
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)  # so that what is pushed into the input can be counted
        if me.switch:
            os.fchown(self.slave, me.uid, me.gid)

    def run(self, argv, timeout=20, **kw):
        slave = self.slave

        def take():
            fcntl.ioctl(slave, termios.TIOCSCTTY, 1)

        proc = self.me.popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take,
            **kw,
        )
        out, end = b"", time.monotonic() + ceiling(timeout)
        while time.monotonic() < end:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                out += os.read(self.master, 65536)
            elif proc.poll() is not None:
                break
        proc.kill()
        return proc.wait(), out

    def pending_input(self):
        buf = fcntl.ioctl(self.slave, termios.FIONREAD, b"\0\0\0\0")
        return struct.unpack("i", buf)[0]

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(me):
    term = Terminal(me)
    yield term
    term.close()


# Standard input is never the caller's terminal, so ENOTTY is as good as EPERM. `own-sti` is on a
# terminal that the command made itself, where only the filter stands in the way.
TTY_TABLE = {
    "sti": "denied:EPERM|ENOTTY",
    "sti-high": "denied:EPERM|ENOTTY",
    "sti-high2": "denied:EPERM|ENOTTY",
    "sti-stdout": "denied:EPERM|ENOTTY",
    "tioclinux": "denied:EPERM|ENOTTY",
    "tioclinux-high": "denied:EPERM|ENOTTY",
    "setctty": "denied:EPERM|ENOTTY",
    "setd": "denied:EPERM|ENOTTY",
    "winsize": "denied:EPERM|ENOTTY",
    "tcsets": "denied:EPERM|ENOTTY",
    "dev-tty": "denied:ENXIO|ENOENT|EACCES",
    "own-sti": "denied",
    "own-sti-high": "denied",
}


# A terminal of its own: its size and modes are its own affair, and it is no one else's.
OWN_TABLE = {**TTY_TABLE, "winsize": "allowed", "tcsets": "allowed", "dev-tty": "allowed"}


def test_cannot_type_for_the_caller(me, level, terminal, probes):
    probe = probes["tty"]
    code, out = terminal.run([probe])
    got = rows(out.replace(b"\r", b"").replace(b"X", b""))
    legacy = pathlib.Path("/proc/sys/dev/tty/legacy_tiocsti")
    if me.name == "root" or not legacy.exists() or legacy.read_text().strip() == "1":
        # The control: outside every one of these pushes works, also with the high bits set.
        for name in ("sti", "sti-high", "sti-high2", "own-sti", "own-sti-high"):
            assert got[name] == "allowed", (name, out)
        assert terminal.pending_input() >= 4
    assert got["dev-tty"] == "allowed"
    termios.tcflush(terminal.slave, termios.TCIFLUSH)

    size = fcntl.ioctl(terminal.slave, termios.TIOCGWINSZ, b"\0" * 8)
    modes = termios.tcgetattr(terminal.slave)
    for opts, table in ((["--no-terminal"], TTY_TABLE), ([], OWN_TABLE)):
        code, out = terminal.run(me.argv(["-r", probe, *opts], [probe], level), env={"TERM": "dumb"})
        assert code == 0, out
        expect(rows(out.replace(b"\r", b"")), table, level)
        assert terminal.pending_input() == 0
        assert fcntl.ioctl(terminal.slave, termios.TIOCGWINSZ, b"\0" * 8) == size
        assert termios.tcgetattr(terminal.slave) == modes


HOSTILE = [
    b"\x1b]52;c;Y2FuYXJ5\x07",  # clipboard
    b"\x1b[?1049h",  # other screen
    b"\x1b[21t",  # title report: typed back
    b"\x1b]0;title\x07",
    b"\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\",
    b'\x1bP$q"p\x1b\\',  # device control string
    b"\x1b[6n",
    b"\x9b21t",  # C1 form
    b"\xc2\x9b21t",  # C1 in UTF-8
    b"\x05",  # answerback
    b"\x0e",  # shift out
    b"\x08\x08\x08\x7f",
    b"\x1b[2J\x1b[H",
    b"\x1b[8m",
    b"\x1bc",
]


def control_bytes(data):
    bad = [b for b in data if (b < 32 and b not in b"\t\n\r") or b == 127]
    text = data.decode("utf-8", "surrogateescape")
    bad += [ord(c) for c in text if 0x80 <= ord(c) <= 0x9F or 0xDC80 <= ord(c) <= 0xDC9F]
    return bad


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_no_control_sequences_reach_a_terminal(me, level, terminal, stream):
    payload = b"before\n" + b"\n".join(HOSTILE) + "\nünïcödé after\n".encode()
    path = me.write(me.work / "payload", payload)
    code, out = terminal.run(["cat", path])
    assert b"\x1b]52" in out  # the control
    where = "" if stream == "stdout" else ">&2"
    code, out = terminal.run(me.argv(["--no-terminal"], ["sh", "-c", f"cat {path} {where}"], level))
    assert code == 0
    assert b"before" in out and "ünïcödé after".encode() in out
    assert not control_bytes(out), out


def test_sequences_split_over_writes(me, terminal):
    """One byte at a time, so that no write holds a whole sequence."""
    script = "import sys,time,os\nfor b in b'\\x1b]52;c;eA==\\x07\\xc2\\x9b5n\\x1b[6nEND':\n os.write(1,bytes([b]));time.sleep(0.002)"
    code, out = terminal.run(me.argv(["--no-terminal"], ["python3", "-c", script]))
    assert code == 0 and b"END" in out
    assert not control_bytes(out), out


def test_names_in_messages_are_escaped(me, level, terminal):
    evil = "x\x1b]52;c;eA==\x07\x9b6n\ny\x7f"
    for args in (
        me.argv(["-r", me.work / evil], ["/bin/true"], level),
        me.argv(["-w", evil], ["/bin/true"], level),
        me.argv(["--" + evil], ["/bin/true"], level),
        me.argv(["-C", evil], ["/bin/true"], level),
        me.argv([], [evil], level),
        me.argv(["-p", evil], ["/bin/true"], level),
        me.argv(["-t", evil], ["/bin/true"], level),
        me.argv(["--preset", evil], ["/bin/true"], level),
        me.argv(["--commands", evil], ["/bin/true"], level),
        me.argv(["-e", evil + "=1"], ["/bin/true"], level),
        [me.cordon, evil],
    ):
        code, out = terminal.run(args)
        assert code in (125, 126, 127), (code, args, out)
        assert b"cordon:" in out
        assert not control_bytes(out), (args, out)
        assert out.strip().count(b"\n") <= 1, ("more than a line and a hint", out)


def test_bytes_pass_unchanged_when_not_a_terminal(me, level):
    payload = bytes(range(256)) * 300
    path = me.write(me.work / "payload", payload)
    assert me.run([], ["cat", path], level).stdout == payload
    assert me.run([], ["cat"], level, input=payload).stdout == payload


def test_flags_of_the_callers_streams(me, level, probes):
    """What the command does to its descriptors' flags, the caller's descriptions do not see."""
    probe = probes["fds"]
    r_in, w_in = os.pipe()
    r_out, w_out = os.pipe()
    before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (r_in, w_out)]
    done = me.outside([probe], stdin=r_in, stdout=w_out)
    after = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (r_in, w_out)]
    assert before != after  # the control
    for fd, flags in zip((r_in, w_out), before):
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    done = me.run(["-r", probe], [probe], level, stdin=r_in, stdout=w_out)
    assert done.returncode == 0, done.stderr
    assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (r_in, w_out)] == before
    for fd in (r_in, w_in, r_out, w_out):
        os.close(fd)


def test_flags_of_the_callers_terminal(me, level, terminal, probes):
    probe = probes["fds"]
    before = fcntl.fcntl(terminal.slave, fcntl.F_GETFL), termios.tcgetattr(terminal.slave)
    for opts in ([], ["--no-terminal"]):
        code, _ = terminal.run(me.argv(["-r", probe, *opts], [probe], level))
        assert code == 0
    assert (fcntl.fcntl(terminal.slave, fcntl.F_GETFL), termios.tcgetattr(terminal.slave)) == before


def test_unread_input_stays_with_the_caller(me, level):
    """A file as standard input: what the command does not read must not move our place in it oddly."""
    path = me.write(me.work / "in", b"0123456789")
    with open(path, "rb+") as file:
        done = me.run([], ["sh", "-c", "head -c1 >/dev/null; printf x >&0"], level, stdin=file)
        assert path.read_bytes() == b"0123456789", done


@pytest.mark.slow
def test_output_flood(me, level):
    """Output is kept up to its limit, the rest is thrown away, and memory stays flat."""
    started = time.monotonic()
    opts = ["--json", "--max-output", "1M", "-t", "1s"]
    proc = me.popen(
        me.argv(opts, ["yes", "0123456789"], level), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    peak = 0
    time.sleep(0.7)
    for line in pathlib.Path(f"/proc/{proc.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            peak = int(line.split()[1])
    out, _ = proc.communicate(timeout=20)
    assert time.monotonic() - started < ceiling(4)
    got = json.loads(out)
    assert got["truncated"]["stdout"] is True
    assert 0 < len(got["stdout"]) <= (1 << 20) + 200
    assert got["kind"] in ("timeout", "output")
    assert peak < 32 * 1024, f"{peak} kB"


@pytest.mark.parametrize("stream", [1, 2])
def test_both_streams_have_their_own_limit(me, stream):
    code = f"head -c 300000 /dev/zero | tr '\\0' A >&{stream}"
    got = me.receipt(["--max-output", "64k"], ["sh", "-c", code])
    name = "stdout" if stream == 1 else "stderr"
    other = "stderr" if stream == 1 else "stdout"
    assert got["truncated"][name] and not got["truncated"][other]
    assert 60000 <= len(got[name]) <= 64 * 1024 + 200


def test_daemon_that_keeps_the_pipe(me, level):
    script = "(setsid sleep 30 &) ; echo hi"
    started = time.monotonic()
    done = me.run([], ["sh", "-c", script], level)
    assert time.monotonic() - started < ceiling(1.0)
    assert (done.returncode, done.stdout) == (0, b"hi\n")


def test_reader_that_went_away(me, level):
    """A closed pipe ends the command, not with a hang and not with a message storm."""
    proc = me.popen(
        me.argv(["-t", "10s"], ["yes"], level), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    proc.stdout.read(100)
    proc.stdout.close()
    started = time.monotonic()
    proc.wait(timeout=15)
    err = proc.stderr.read()
    assert time.monotonic() - started < ceiling(3)
    assert len(err) < 500
