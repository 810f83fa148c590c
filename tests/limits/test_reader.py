# SPDX-License-Identifier: Apache-2.0
"""A reader that does not read must not keep a run from ending: at the end of its time, and on an order."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import ceiling

MUCH = 100_000  # more than a pipe takes, less than two of them
PATIENCE = 20
OUT = ["sh", "-c", f"head -c {MUCH} /dev/zero"]


@contextlib.contextmanager
def unread(me, opts, cmd, level, both=False):
    """(process, the end of its output that nobody reads)"""
    ours, theirs = os.pipe()
    argv = me.argv(opts, cmd, level)
    proc = me.popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs if both else subprocess.PIPE)
    os.close(theirs)
    try:
        yield proc, ours
    finally:
        os.close(ours)
        proc.kill()
        proc.communicate()


def read_all(fd):
    size = 0
    while piece := os.read(fd, 65536):
        size += len(piece)
    return size


def is_full(fd):
    """The pipe takes no more: whoever writes into it waits."""
    waiting = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
    return waiting >= fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)


def wait_until_full(fd):
    end = time.monotonic() + ceiling(PATIENCE)
    while not is_full(fd):
        assert time.monotonic() < end, "the pipe never filled up"
        time.sleep(0.01)


def test_a_late_reader_gets_everything(me, level):
    """Without a limit of time there is no hurry."""
    with unread(me, [], OUT, level) as (proc, fd):
        wait_until_full(fd)
        with pytest.raises(subprocess.TimeoutExpired):
            proc.wait(1.5)  # longer than the grace: the positive control
        assert read_all(fd) == MUCH
        assert proc.wait(ceiling(PATIENCE)) == 0


@pytest.mark.parametrize(
    "cmd,both",
    [
        pytest.param(["yes"], False, id="output"),
        pytest.param(["sh", "-c", "trap '' TERM; yes; yes"], False, id="stubborn"),
        pytest.param(["sh", "-c", "yes >&2"], True, id="both"),
    ],
)
def test_the_end_of_the_time(me, level, cmd, both):
    with unread(me, ["-t", "300ms", "--grace", "300ms"], cmd, level, both) as (proc, fd):
        _, err = proc.communicate(timeout=ceiling(PATIENCE))
        assert proc.returncode == 124, err
        assert both or b"time limit of 300ms reached" in err, err


def test_the_loss_is_told(me, level):
    """The command itself has ended in time. What it wrote was not read: a failure, in the receipt as well."""
    receipt = me.work / "receipt.json"
    with unread(me, ["-t", f"{ceiling(500):.0f}ms", "--grace", "300ms", "--receipt", receipt], OUT, level) as (proc, fd):
        _, err = proc.communicate(timeout=ceiling(PATIENCE))
        assert proc.returncode == 125 and b"was not read in time" in err, err
        got = json.loads(receipt.read_text())
        assert got["kind"] == "exited" and got["exit_code"] == 0, got
        assert got["truncated"] == {"stdout": True, "stderr": False}, got
        assert read_all(fd) < MUCH


def test_the_account_on_a_pipe(me, level):
    with unread(me, ["-t", "300ms", "--grace", "300ms", "--json"], ["yes"], level) as (proc, fd):
        _, err = proc.communicate(timeout=ceiling(PATIENCE))
        assert proc.returncode == 125 and b"cannot write standard output" in err, err


@pytest.mark.parametrize("cmd", [["yes"], OUT], ids=["running", "ended"])
def test_an_order(me, level, cmd):
    """Ctrl-C: while the command waits for its reader, and when only we do."""
    with unread(me, ["--grace", "300ms"], cmd, level) as (proc, fd):
        wait_until_full(fd)
        time.sleep(0.3)  # OUT ends as soon as its pipe has taken the rest
        proc.send_signal(signal.SIGINT)
        _, err = proc.communicate(timeout=ceiling(PATIENCE))
        assert proc.returncode in (130, 125), (proc.returncode, err)


def test_a_terminal(me, level):
    """Nobody reads the master's side."""
    master, slave = pty.openpty()
    os.fchown(slave, me.uid, me.gid)  # as the caller's own terminal
    try:
        argv = me.argv(["-i", "-t", "300ms", "--grace", "300ms"], ["yes"], level)
        proc = me.popen(argv, stdin=slave, stdout=slave, stderr=slave)
        try:
            assert proc.wait(ceiling(PATIENCE)) == 124
        finally:
            proc.kill()
            proc.wait()
    finally:
        os.close(slave)
        os.close(master)
