# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps for a program and counts for no process: refused, or a small number of it.

Each kind is first taken without a sandbox, where nothing stops it before a number that hurts.
"""

import pathlib
import subprocess

import pytest
from conftest import IS_ROOT, unavailable
from differences import kernel_lacks

AIO = pathlib.Path("/proc/sys/fs/aio-nr")
SURPLUS = pathlib.Path("/proc/sys/vm/nr_overcommit_hugepages")
HUGE = ["huge-mmap", "huge-memfd", "huge-shm"]


def hoard(done):
    """(how many it had, the errno that stopped it or None)"""
    words = done.stdout.split()
    assert b"had" in words, done
    return int(words[-1]), words[2].decode() if b"denied" in words else None


@pytest.fixture
def take(me, probes):
    probe = probes["hoard"]

    def inside(level, kind, *opts, want=()):
        argv = [probe, kind, *want]
        return hoard(me.run(["-r", probe, *opts], argv, level, input=b""))

    inside.probe = probe
    return inside


@pytest.fixture
def outside(me, probes):
    def control(kind, *want):
        return hoard(me.outside([probes["hoard"], kind, *want], input=b""))

    return control


@pytest.fixture
def huge_pages():
    """A machine whose administrator set some aside."""
    if not IS_ROOT:
        pytest.skip("only root can set huge pages aside")
    before = SURPLUS.read_text()
    SURPLUS.write_text(str(int(before) + 16))
    yield
    SURPLUS.write_text(before)


def has_watch(me, level):
    """Whether init counts memory here, and no control group."""
    return me.receipt(["-m", "64M"], ["true"], level)["isolation"]["limits"]["memory"] == "watch"


def needs_port_rules():
    if kernel_lacks("landlock-tcp"):
        unavailable("rules for ports need Landlock ABI 4 (Linux 6.7)")


def test_rules_of_landlock(me, take, outside, level):
    """A ruleset has any number of rules. Without a control group nothing counts them."""
    needs_port_rules()
    assert outside("landlock") == (4 * 65536, None)
    if has_watch(me, level):
        assert take(level, "landlock", "-m", "64M") == (0, "ENOSYS")
    else:
        assert me.receipt(["-m", "64M", "-r", take.probe], [take.probe, "landlock", "64"], level)["kind"] == "memory"


def test_landlock_is_there_without_a_limit(take, level):
    needs_port_rules()
    assert take(level, "landlock", want=["1"]) == (65536, None)


def test_queues_of_inotify(me, take, outside):
    """8 MiB for each instance that is not read."""
    assert outside("inotify")[0] > 64, "positive control"
    if has_watch(me, "namespaces"):
        assert take("namespaces", "inotify", "-m", "64M") == (8, "EMFILE")
    assert take("namespaces", "inotify")[0] <= 64
    assert take("landlock", "inotify") == (0, "ENOSYS")


def test_inotify_elsewhere_is_as_it_was(me, probes, outside):
    """The number is the sandbox's own."""
    before = outside("inotify")
    proc = me.popen(
        me.argv(["-r", probes["hoard"]], [probes["hoard"], "inotify"], "namespaces"), stdin=-1, stdout=-1
    )
    try:
        assert b"inotify" in proc.stdout.readline()
        assert proc.stdout.readline()
        assert outside("inotify")[0] >= before[0] - 64
    finally:
        proc.communicate()


def test_watches_of_inotify(take):
    """Each keeps an inode. What editors and build tools need is there."""
    limits = ["-m", "2G", "--disk", "1G"]
    # The user's own limit depends on the machine's memory.
    want = min(20000, int(pathlib.Path("/proc/sys/fs/inotify/max_user_watches").read_text()) * 3 // 4)
    assert want > 8000 and take("namespaces", "watches", *limits, want=[str(want)]) == (want, None)


@pytest.mark.parametrize("memory,instances", [("64M", 8), ("512M", 16), ("64G", 64)])
def test_numbers_of_inotify(me, memory, instances):
    read = ["sh", "-c", "cd /proc/sys/user; cat max_inotify_instances max_inotify_watches"]
    got = me.run(["-m", memory], read, "namespaces").stdout.split()
    if has_watch(me, "namespaces"):
        assert got == [str(instances).encode(), b"65536"]
    else:
        assert got[0] == b"64"


def test_filters_of_sockets(take, outside, level):
    assert outside("filters") == (400, None)
    assert take(level, "filters") == (0, "EOPNOTSUPP")


def test_asynchronous_requests(me, probes, take, outside, level):
    """fs.aio-max-nr is the whole machine's."""
    assert outside("aio")[0] > 1000, "positive control"
    before = int(AIO.read_text())
    proc = me.popen(me.argv(["-r", probes["hoard"]], [probes["hoard"], "aio"], level), stdin=-1, stdout=-1)
    try:
        assert proc.stdout.readline() == b"aio denied ENOSYS\n"
        assert proc.stdout.readline() == b"aio had 0\n"
        assert int(AIO.read_text()) <= before
    finally:
        proc.communicate()


@pytest.mark.parametrize("kind", HUGE)
def test_huge_pages(me, take, outside, level, kind, huge_pages):
    """They come from a pool that was set aside for others."""
    control = outside(kind)
    # System V segments of huge pages need a privilege or a group.
    assert control == (2, None) or (kind == "huge-shm" and control == (0, "EPERM")), "positive control"
    refused = "ENOSYS" if (kind, level) == ("huge-shm", "landlock") else "ENOMEM"
    assert take(level, kind) == (0, refused)


def test_transparent_huge_pages_stay(me, level):
    code = "import mmap; m = mmap.mmap(-1, 8 << 20); m.madvise(mmap.MADV_HUGEPAGE); m[0] = 1; print('ok')"
    done = me.run([], ["/usr/bin/python3", "-c", code], level)
    assert done.stdout == b"ok\n" or b"Invalid argument" in done.stderr, done


def test_timers_and_signals(me, take, outside):
    assert outside("timers")[0] > 1000, "positive control"
    got, why = take("namespaces", "timers")
    assert got <= 65536 and why == "EAGAIN"


@pytest.mark.parametrize("kind", ["netlink", "undo"])
def test_counted(me, probes, outside, kind):
    """Answers in netlink sockets, and what semaphores have to undo, count as memory of the run."""
    if not has_watch(me, "namespaces"):
        pytest.skip("a control group counts in its own way")
    probe = probes["hoard"]
    want = {"netlink": 400, "undo": 200}[kind]
    assert outside(kind) == (want, None), "positive control"
    argv = me.argv(["-m", "32M", "-P", "300", "-r", probe], [probe, kind], "namespaces")
    proc = me.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert proc.wait(60) == 137  # it would wait for the end of its input
        assert b"memory limit" in proc.stderr.read()
    finally:
        proc.kill()
        proc.communicate()
