# SPDX-License-Identifier: Apache-2.0
"""Descriptors, processes, memory, file sizes and disk run out in the supervisor, at every number.

Each run either goes right or is refused with one clear line and status 125. It never hangs, never ends
by a signal, and leaves nothing behind. Each sweep must see both, or it has proved nothing.
"""

import os
import resource
import subprocess

import pytest

from conftest import IS_ROOT, settles, survivors

OUT = b"in the sandbox\n"


def limited(me, what, value, argv, timeout=20):
    """Runs argv with one resource limit, both soft and hard, and that alone."""
    return me.outside(
        argv, timeout=timeout, preexec_fn=lambda: resource.setrlimit(what, (value, value))
    )


def verdict(done):
    """`ran`, `refused`, or what is wrong."""
    if done.returncode == 0 and done.stdout == OUT:
        return "ran"
    if done.returncode == 125 and not done.stdout:
        text = done.stderr
        if text.startswith(b"cordon: ") and text.count(b"\n") == 1 and text.endswith(b"\n"):
            return "refused"
    return f"status {done.returncode}, {done.stdout!r}, {done.stderr!r}"


def sweep(me, level, what, values, opts=()):
    seen, bad = set(), []
    argv = me.argv([*opts, "-w", me.work], ["echo", "in the sandbox"], level)
    for value in values:
        try:
            got = verdict(limited(me, what, value, argv))
        except subprocess.TimeoutExpired:
            got = "hangs"
        if got not in ("ran", "refused"):
            bad.append(f"{value}: {got}")
        seen.add(got)
    assert not bad, "\n".join(bad)
    assert survivors(1.0) == []
    assert settles(lambda: [p.name for p in me.work.iterdir()], 1.0) == []
    return seen


def test_open_files(me, level):
    assert sweep(me, level, resource.RLIMIT_NOFILE, range(3, 48)) == {"ran", "refused"}


def test_open_files_inside(me, level):
    """What the guest is given is refused there, not found missing later."""
    seen = set()
    for n in (1, 2, 3, 4, 5, 8):
        done = me.run(["--open-files", n], ["/bin/echo", "in the sandbox"], level)
        seen.add(done.returncode == 0)
        assert done.returncode in (0, 1, 125, 126, 127), (n, done)
        assert b"hang" not in done.stderr
    assert survivors(1.0) == []


def test_address_space(me, level):
    """From the least that lets the command say its version: less is the exec's own failure."""
    step = 16 << 10
    too_little, least = 0, 64 << 20
    while least - too_little > step:
        n = (least + too_little) // 2 // step * step
        if limited(me, resource.RLIMIT_AS, n, [me.cordon, "--version"]).returncode == 0:
            least = n
        else:
            too_little = n
    # The guest has the same limit; where that is less than a dynamic program needs, it ends with 127. The
    # command contains init, whose tables are large.
    values = range(least, least + (1 << 20), step)
    argv = me.argv(["-w", me.work], ["/bin/true"], level)
    refused = 0
    for value in values:
        done = limited(me, resource.RLIMIT_AS, value, argv)
        refused += done.returncode == 125
        if done.returncode == 125:
            assert done.stderr.startswith(b"cordon: "), (value, done)
            assert done.stderr.count(b"\n") == 1, (value, done)
        else:
            assert done.returncode in (0, 126, 127, 139), (value, done)
    assert refused > 0, "memory never ran out"
    assert limited(me, resource.RLIMIT_AS, 1 << 30, argv).returncode == 0
    assert survivors(1.0) == []
    assert settles(lambda: [p.name for p in me.work.iterdir()], 1.0) == []


def test_file_size(me, level):
    """Even the memory file that init is executed from counts; SIGXFSZ must not end us."""
    values = [0, 1, 100, 512, 1024, 4096, 8192, 16384, 32768, 65536, 1 << 17, 1 << 20]
    assert sweep(me, level, resource.RLIMIT_FSIZE, values) == {"ran", "refused"}


def test_processes(me, level):
    """EAGAIN at the first, the second, each next process. The kernel does not count root's."""
    if me.uid == 0:
        # Of the id that the sandbox has instead there may be other processes.
        assert sweep(me, level, resource.RLIMIT_NPROC, range(1, 4)) <= {"ran", "refused"}
        return
    have = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == me.uid:
                have += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            pass
    seen = set()
    argv = me.argv(["-w", me.work], ["echo", "in the sandbox"], level)
    for value in range(have, have + 12):
        done = limited(me, resource.RLIMIT_NPROC, value, argv)
        seen.add(verdict(done))
    assert seen <= {"ran", "refused"}, seen
    assert survivors(1.0) == []


@pytest.mark.skipif(not IS_ROOT, reason="only root can make a file system that is full")
def test_no_space(me):
    """Level landlock makes its private directory in /tmp: full, or with room for one directory."""
    seen = set()
    for inodes in range(1, 8):
        script = (
            'mount -t tmpfs -o mode=1777,size=64k,nr_inodes="$1" none /tmp && shift && '
            'exec setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"'
        )
        argv = ["unshare", "-m", "--propagation", "private", "bash", "-c"]
        argv += ['exec 9<"$1"; shift; ' + script, "bash", me.cordon, str(inodes), str(me.uid)]
        argv += ["/proc/self/fd/9", "run", "--isolation", "landlock", "-C", "/usr", "--"]
        done = subprocess.run(
            argv + ["/bin/echo", "in the sandbox"], cwd="/usr", capture_output=True, timeout=20,
            env=me.env(),
        )  # fmt: skip
        seen.add(verdict(done))
    assert seen == {"ran", "refused"}, seen
