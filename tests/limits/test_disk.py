# SPDX-License-Identifier: Apache-2.0
"""limits.open_files, limits.file_size and limits.disk."""

import signal

import pytest

# Each writes in pieces until something stops it and says how many MiB there are in the end.
FILL = """
import errno, os, sys
block, total, why = b'x' * (1 << 18), 0, '-'
fds = []
for place in sys.argv[2:]:
    fd = os.memfd_create('m') if place == 'memfd' else os.open(place, os.O_WRONLY | os.O_CREAT)
    fds.append(fd)
    try:
        for _ in range(int(sys.argv[1]) * 4):
            total += os.write(fd, block)
    except OSError as e:
        why = errno.errorcode[e.errno]
print(total, why)
"""


OWN = 64 << 10  # the view's own directories and links lie there too and are not the command's


def fill(got):
    total, why = got["stdout"].split()
    return int(total), why


# --- open files ---------------------------------------------------------------------------------

OPEN = """
import errno, os, sys
n, why = 0, '-'
try:
    while n < 5000:
        os.dup(0); n += 1
except OSError as e:
    why = errno.errorcode[e.errno]
print(n, why)
"""


def test_open_files(me, level):
    got = me.receipt(["--open-files", "64"], ["python3", "-c", OPEN], level)
    count, why = fill(got)
    assert 50 < count < 64 and why == "EMFILE", got["stdout"]


def test_open_files_hold_for_each_process(me, level):
    """Raising them again is in vain, in the command and in what it starts."""
    script = "ulimit -n 4096 2>/dev/null; ulimit -Hn; sh -c 'ulimit -n 4096 2>/dev/null; ulimit -n'"
    got = me.receipt(["--open-files", "64"], ["sh", "-c", script], level)
    assert got["stdout"] == "64\n64\n", got


# --- file size ----------------------------------------------------------------------------------


def test_file_size(me, level):
    """A workspace file. The kernel sends SIGXFSZ, which Python ignores: EFBIG."""
    argv = ["python3", "-c", FILL, "8", "big"]
    got = me.receipt(["-w", me.work], argv, level)
    assert fill(got) == (8 << 20, "-"), "positive control"
    (me.work / "big").unlink()
    got = me.receipt(["-w", me.work, "--file-size", "1M"], argv, level)
    assert fill(got) == (1 << 20, "EFBIG"), got
    assert (me.work / "big").stat().st_size == 1 << 20


@pytest.mark.parametrize("place", ["/tmp/f", "/dev/shm/f", "memfd"])
def test_file_size_of_what_is_memory(me, place):
    got = me.receipt(["--file-size", "1M"], ["python3", "-c", FILL, "8", place], "namespaces")
    assert fill(got) == (1 << 20, "EFBIG"), got


def test_file_size_is_not_passed_by_other_calls(me, level):
    script = """
import errno, os
def attempt(name, call):
    fd = os.open('f', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        call(fd)
    except OSError as e:
        print(name, errno.errorcode[e.errno])
    else:
        print(name, 'done', os.fstat(fd).st_size)
    os.close(fd)
attempt('truncate', lambda fd: os.ftruncate(fd, 2 << 20))
attempt('fallocate', lambda fd: os.posix_fallocate(fd, 0, 2 << 20))
attempt('pwrite', lambda fd: os.pwrite(fd, b'x', 2 << 20))
"""
    got = me.receipt(["-w", me.work, "--file-size", "1M"], ["python3", "-c", script], level)
    assert got["stdout"] == "truncate EFBIG\nfallocate EFBIG\npwrite EFBIG\n", got
    assert (me.work / "f").stat().st_size <= 1 << 20


def test_file_size_signal(me, level):
    """A program that does not ignore SIGXFSZ dies of it: its own end, not ours."""
    got = me.receipt(["-w", me.work, "--file-size", "1M"], ["dd", "if=/dev/zero", "of=f", "bs=64K", "count=64"], level)
    assert (got["kind"], got["signal"]) == ("signaled", signal.SIGXFSZ), got


def test_file_size_does_not_touch_our_own_files(me, level):
    """The receipt is written by the supervisor, which the limit does not concern."""
    path = me.out / "receipt.json"
    done = me.run(["--file-size", "1", "--receipt", path], ["echo", "x"], level)
    assert done.returncode == 0 and path.stat().st_size > 100


# --- disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/tmp/f", "/var/tmp/f", "/dev/shm/f", "home"])
def test_disk(me, place):
    place = place if place != "home" else str(me.home / "f")
    argv = ["python3", "-c", FILL, "32", place]
    got = me.receipt(["--disk", "64M"], argv, "namespaces")
    assert fill(got) == (32 << 20, "-"), "positive control"
    got = me.receipt(["--disk", "8M"], argv, "namespaces")
    total, why = fill(got)
    assert why == "ENOSPC" and 7 << 20 < total <= (8 << 20) + OWN, got
    assert got["kind"] == "exited", "running into it is no end"
    assert got["isolation"]["limits"]["disk"] == "tmpfs"


def test_the_first_moment_counts(me):
    """Written before init is on a CPU again: part of the run all the same, and of its memory."""
    for _ in range(12):
        got = me.receipt([], ["dd", "if=/dev/zero", "of=/tmp/f", "bs=1M", "count=4"], "namespaces")
        assert got["usage"]["disk_bytes"] >= 4 << 20, got["usage"]


def test_disk_of_all_places_together(me):
    places = ["/tmp/a", "/dev/shm/b", "/var/tmp/c", str(me.home / "d")]
    got = me.receipt(["--disk", "8M"], ["python3", "-c", FILL, "4", *places], "namespaces")
    total, why = fill(got)
    assert why == "ENOSPC" and 7 << 20 < total <= (8 << 20) + OWN, got


def test_disk_is_noted(me):
    got = me.receipt(["--disk", "8M"], ["python3", "-c", FILL, "32", "/tmp/f"], "namespaces")
    note = [d for d in got["denials"] if d["what"] == "disk"]
    assert len(note) == 1 and note[0]["rule"] == "limits.disk", got["denials"]
    assert "8M" in note[0]["target"] and note[0]["fix"].startswith("--disk "), note
    got = me.receipt(["--disk", "64M"], ["python3", "-c", FILL, "4", "/tmp/f"], "namespaces")
    assert not got["denials"], got


def test_files_are_counted_too(me):
    """Empty files cost the machine memory, however little is written into them."""
    script = """
import errno, os
n, why = 0, '-'
try:
    while n < 200000:
        os.close(os.open('/tmp/%d' % n, os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e:
    why = errno.errorcode[e.errno]
print(n, why)
"""
    got = me.receipt(["--disk", "4M"], ["python3", "-c", script], "namespaces")
    count, why = fill(got)
    assert why == "ENOSPC" and 100 < count <= 1024 + 2048, got["stdout"]
    got = me.receipt([], ["python3", "-c", script], "namespaces")
    count, why = fill(got)
    assert why == "ENOSPC" and 10_000 < count <= 65536 + 2048, got["stdout"]


def test_room_comes_back(me):
    script = "for i in 1 2 3 4 5; do head -c 6M /dev/zero >/tmp/f || exit 1; rm /tmp/f; done; echo fine"
    got = me.receipt(["--disk", "8M"], ["sh", "-c", script], "namespaces")
    assert got["stdout"] == "fine\n", got


def test_links_and_holes(me):
    """A sparse file of any length is small; a second name costs no room for data."""
    script = "truncate -s 10G /tmp/a && ln /tmp/a /tmp/b && echo x >>/dev/shm/c && echo fine"
    got = me.receipt(["--disk", "1M"], ["sh", "-c", script], "namespaces")
    assert got["stdout"] == "fine\n", got
