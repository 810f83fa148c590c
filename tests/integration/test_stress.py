# SPDX-License-Identifier: Apache-2.0
"""Many runs, in a row and at once: nothing is left of them."""

import os
import pathlib
import re
import subprocess
import time

import pytest

from conftest import namespaces_alive, settles, survivors

OURS = re.compile(r"\.?cordon-[0-9a-f]{8,}$")
SERIAL = 1000  # `make soak` has the many
AT_ONCE = 200


def shared_memory():
    """System V objects and files of /dev/shm and /tmp that look like ours."""
    sysv = []
    for name in ("shm", "sem", "msg"):
        path = pathlib.Path("/proc/sysvipc") / name
        sysv += [(name, line.split()[1]) for line in path.read_text().splitlines()[1:]]
    files = [
        f"{d}/{n}"
        for d in ("/dev/shm", "/tmp", "/var/tmp", "/run")
        for n in os.listdir(d)
        if OURS.match(n)
    ]
    return set(sysv) | set(files)


def census(me):
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    litter = sorted(str(p) for p in me.base.rglob("*"))
    fds = len(os.listdir("/proc/self/fd"))
    return mounts, litter, fds, shared_memory(), namespaces_alive()


def assert_nothing_left(me, before):
    assert survivors(3.0) == []
    mounts, litter, fds, shared, alive = before
    assert pathlib.Path("/proc/self/mountinfo").read_text() == mounts
    assert sorted(str(p) for p in me.base.rglob("*")) == litter
    assert len(os.listdir("/proc/self/fd")) <= fds
    left = shared_memory() - shared  # some of it may be of other programs' runs, which end, too
    assert not settles(lambda: left & shared_memory(), 20)
    assert not settles(lambda: namespaces_alive() - alive)


RUNNER = r"""
import json, subprocess, sys
count, plain, with_json = int(sys.argv[1]), sys.argv[2].split('\x1f'), sys.argv[3].split('\x1f')
bad = 0
for i in range(count):
    if i % 10 == 9:
        done = subprocess.run(with_json, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        ok = done.returncode == 0 and json.loads(done.stdout)['kind'] == 'exited'
    else:
        ok = subprocess.run(plain, stdin=subprocess.DEVNULL).returncode == 0
    bad += not ok
print(bad)
"""


@pytest.mark.once
@pytest.mark.slow
def test_many_in_a_row(me):
    """A thousand between the callers: the larger part at level namespaces."""
    before = census(me)
    share = SERIAL // (2 if os.geteuid() == 0 else 1)
    for level, count in (("namespaces", share * 4 // 5), ("landlock", share // 5)):
        plain = "\x1f".join(me.argv(["-w", me.work], ["/bin/true"], level))
        with_json = "\x1f".join(me.argv(["--json", "-w", me.work], ["/bin/true"], level))
        done = me.outside(["python3", "-c", RUNNER, str(count), plain, with_json], timeout=300)
        assert done.stdout.strip() == b"0", done
    assert_nothing_left(me, before)


@pytest.mark.slow
def test_many_at_once(me, level):
    before = census(me)
    me.write(me.home / "go", "")
    script = "echo up; read x; exit 0"
    procs = []
    for i in range(AT_ONCE // 2):
        opts = ["-P", "8", "-w", me.work] if i % 4 else ["-P", "8"]
        if level == "landlock":
            opts = opts[2:]
        procs.append(
            me.popen(
                me.argv(opts, ["sh", "-c", script], level),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    up = [p.stdout.readline() for p in procs]
    assert up == [b"up\n"] * len(procs), procs[up.index(b"")].stderr.read() if b"" in up else up
    for proc in procs:
        proc.stdin.close()
    codes = [p.wait(timeout=60) for p in procs]
    for proc in procs:
        proc.stdout.close()
        proc.stderr.close()
    assert codes == [0] * len(procs)
    (me.home / "go").unlink()
    assert_nothing_left(me, before)


def test_killed_runs_leave_nothing(me, level):
    """Ended by force in the middle, twenty times: the same census."""
    before = census(me)
    for i in range(20):
        proc = me.popen(me.argv(["-w", me.work], ["sleep", "30"], level), stdin=subprocess.DEVNULL)
        time.sleep(0.002 * i)
        proc.kill()
        proc.wait()
    assert survivors(3.0) == []
    assert_nothing_left(me, before)
