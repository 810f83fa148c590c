# SPDX-License-Identifier: Apache-2.0
"""Limits at which the kernel refuses more: the receipt names them, also if the program gave up at once."""

import pytest

TRIES = 5

# Does nothing for a while, so that the watch looks seldom; is refused a thread, and leaves.
THREADS = """
import os, threading, time
time.sleep(0.4)
try:
    for _ in range(40):
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
except RuntimeError:
    os._exit(1)
os._exit(0)
"""

# The same with a full /tmp, and tidies up.
ROOM = """
import errno, os, sys, time
time.sleep(0.4)
try:
    fd = os.open('/tmp/f', os.O_WRONLY | os.O_CREAT)
    for _ in range(64):
        os.write(fd, bytes(1 << 20))
except OSError as e:
    os.unlink('/tmp/f')
    os.close(fd)
    os._exit(1 if e.errno == errno.ENOSPC else 2)
os._exit(0)
"""


def told(got, rule):
    return [d["target"] for d in got["denials"] if d["rule"] == rule]


def test_tasks(me):
    got = me.receipt(["-P", "64"], ["python3", "-c", THREADS], "namespaces")
    assert got["exit_code"] == 0 and not got["denials"], "positive control"
    for _ in range(TRIES):
        got = me.receipt(["-P", "16"], ["python3", "-c", THREADS], "namespaces")
        assert got["exit_code"] == 1, got
        assert told(got, "limits.procs") in (["16 tasks"], ["16 tasks (may have been reached)"]), got


def test_room(me):
    got = me.receipt(["--disk", "128M"], ["python3", "-c", ROOM], "namespaces")
    assert got["exit_code"] == 0 and not got["denials"], "positive control"
    seen = []
    for _ in range(TRIES):
        got = me.receipt(["--disk", "32M"], ["python3", "-c", ROOM], "namespaces")
        assert got["exit_code"] == 1, got
        seen += told(got, "limits.disk")
    # A machine that is too busy for the watch may miss one of them.
    assert len(seen) >= TRIES - 2, seen
    assert set(seen) <= {"32M in private directories", "32M in private directories (may have been reached)"}, seen


def test_the_command_says_may(me):
    for _ in range(TRIES):
        done = me.run(["-P", "16"], ["python3", "-c", THREADS], "namespaces")
        assert done.returncode == 1, done
        assert b"the limit of 16 tasks " in done.stderr and b"(raise it with -P 32)" in done.stderr, done


@pytest.mark.parametrize(
    "script",
    [
        "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done",  # more than the limit, one after the other
        "exit 3",
        "/bin/true; sleep 0.3; exit 3",
    ],
)
def test_nothing_is_said_without_a_reason(me, script):
    got = me.receipt(["-P", "16"], ["sh", "-c", script], "namespaces")
    assert got["kind"] == "exited" and not got["denials"], got
