# SPDX-License-Identifier: Apache-2.0
"""limits.disk of a workspace: whatever way it grows, the run ends with kind disk.

Nothing but init's watch holds it (an ordinary user has no quota), so it is passed by what is written
until that is noticed. How much is measured from outside, as growth of the file system, and reported;
only far more than that fails. Others write to the same disk meanwhile, so a figure that is too high
has to be so three times.
"""

import os
import pathlib
import subprocess
import threading
import time

import pytest

MIB = 1 << 20
LIMIT = 48
MUCH = 512  # what is tried
OVER = 256  # what it may be passed by, at the very most
LEVELS = ["namespaces"]

KINDS = [
    "write",
    "writers",
    "small",
    "mmap",
    "reserve",
    "sendfile",
    "copy-up",
    "deleted",
    "tmpfile",
    "mapped-deleted",
    "barely-mapped",  # one page of a large file
    "far-mapped",  # by a path of 75 KB
    "headless",  # mapped by a process whose first thread has ended
    "programs",  # deleted, and running
    "passed",
    "undumpable",
    "locked",
    "moving",
    pytest.param("deep", marks=pytest.mark.once),
    pytest.param("attributes", marks=pytest.mark.once),
]
INODES = ["files", "dirs"]

# Where the watch cannot look. Only growth of the whole file system shows it, beyond four times the limit.
HIDDEN = ["barely-mapped", "far-mapped", "passed", "undumpable", "locked"]
GROWN = (
    "the file system grew by more than four times the limit while the run was going on; "
    "this may be another program"
)


class Growth:
    """The highest growth of the file system that @place lies on, while the block runs."""

    def __init__(self, place):
        self.place = place
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _used(self):
        st = os.statvfs(self.place)
        return (st.f_blocks - st.f_bfree) * st.f_frsize

    def _watch(self):
        before = self._used()
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, self._used() - before)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def tidy(me):
    """What a run left may be locked, for its owner too."""
    for place in (me.home / "ws", me.home / ".local"):
        if place.exists():
            me.outside(["chmod", "-R", "u+rwX", place])
            subprocess.run(["rm", "-rf", str(place)], check=True)


def make_base(me, kind, size=LIMIT + OVER + 64):
    """copy-up changes a large file of the base; the others begin with nothing."""
    base = me.work / "base"
    if kind == "copy-up" and not base.exists():
        with open(base, "wb") as file:
            for _ in range(size):
                file.write(os.urandom(4096) * 256)
        me.own(base)


def fill(me, probes, kind, limit, want=MUCH, hold=1500, level="namespaces"):
    tidy(me)
    return me.receipt(
        ["--workspace", ".", "--disk", f"{limit}M", "-t", "120s", "-r", probes["fill"]],
        [probes["fill"], kind, str(want), str(hold)],
        level,
        timeout=180,
    )


def is_ended(got, limit, kind=None):
    assert (got["kind"], got["status"]) == ("disk", 137), got
    assert "filled" not in got["stdout"], got
    notes = [d for d in got["denials"] if d["what"] == "disk"]
    assert notes == [
        {
            "what": "disk",
            "target": GROWN if kind in HIDDEN else f"{limit}M in the workspace",
            "rule": "limits.disk",
            "fix": f"--disk {2 * limit}M",
            "how": "enforced",
        }
    ], got["denials"]


def is_fine(got):
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got
    assert got["stdout"] == "filled\n" and not got["denials"], got


@pytest.mark.once
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_bytes(me, probes, kind, level):
    make_base(me, kind)
    peaks = []
    # A file that is copied up cannot be seen until it is complete.
    most = LIMIT + OVER + (64 + 32 if kind == "copy-up" else 0)
    while not peaks or (peaks[-1] > most and len(peaks) < 3):
        with Growth(me.home) as growth:
            got = fill(me, probes, kind, LIMIT, level=level)
        is_ended(got, LIMIT, kind)
        peaks.append(growth.peak / MIB)
    print(f"{kind}: at most {min(peaks):.1f} MiB under a limit of {LIMIT}")
    assert min(peaks) <= most, peaks
    assert kind in HIDDEN or got["usage"]["disk_bytes"] > LIMIT * MIB, got


@pytest.mark.once
@pytest.mark.parametrize("kind", ["mapped-deleted", "headless"])
def test_while_others_free(me, probes, kind):
    """What is only mapped shows in the file system's use alone: what others free must not hide it."""
    others = [me.home / f"other{i}" for i in range(4)]
    for other in others:
        with open(other, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 80 * MIB)
    stop = threading.Event()

    def free():
        for other in others:
            stop.wait(0.1)
            other.unlink()

    freeing = threading.Thread(target=free)
    freeing.start()
    try:
        got = fill(me, probes, kind, 16, want=128, hold=3000)
    finally:
        stop.set()
        freeing.join()
    is_ended(got, 16, kind)


@pytest.mark.once
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS + INODES)
def test_enough_room(me, probes, kind, level):
    """The positive control: the same, with a limit that is large enough."""
    make_base(me, kind, 32)
    is_fine(fill(me, probes, kind, 1024, want=16, hold=100, level=level))


@pytest.mark.once
def test_deleted_directories(me, probes):
    """Deleted directories count as long as one is a process's current directory."""
    is_ended(fill(me, probes, "inside", 4, want=16), 4)
    is_fine(fill(me, probes, "inside", 64, want=2, hold=100))


@pytest.mark.once
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", INODES)
def test_inodes(me, probes, kind, level):
    """One for each 4 KiB of the limit, as in private directories."""
    got = fill(me, probes, kind, 16, level=level)
    is_ended(got, 16)
    made = sum(len(names) + len(dirs) for _, dirs, names in os.walk(me.home))
    assert 4096 < made < 4 * 4096, made


@pytest.mark.once
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["names", "churn", "sparse"])
def test_what_takes_no_room(me, probes, kind, level):
    """Ten thousand names of one file, data that is deleted again, a file of 4 TiB without any."""
    got = fill(me, probes, kind, LIMIT, level=level)
    is_fine(got)
    assert got["usage"]["disk_bytes"] <= LIMIT * MIB, got


@pytest.mark.once
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["write", "mmap", "deleted", "deep"])
def test_just_below(me, probes, kind, level):
    want = LIMIT - 4 if kind != "deep" else LIMIT - 32  # its directories need some, too
    is_fine(fill(me, probes, kind, LIMIT, want=want, level=level))


def test_the_command_says_it(me, probes):
    done = me.run(
        ["--workspace", ".", "--disk", "16M", "-r", probes["fill"]], [probes["fill"], "write", MUCH], "namespaces"
    )
    assert done.returncode == 137, done
    assert b"limit of 16M in the workspace reached" in done.stderr, done.stderr
    assert b"--disk" in done.stderr


def test_the_receipt_says_by_what(me, probes):
    got = fill(me, probes, "write", LIMIT, want=8, hold=400)
    is_fine(got)
    assert got["isolation"]["limits"]["disk"] == "tmpfs+watch"
    assert 8 * MIB <= got["usage"]["disk_bytes"] < 9 * MIB, got["usage"]


def test_default(me, probes):
    tidy(me)
    got = me.receipt(["--workspace", ".", "-r", probes["fill"]], [probes["fill"], "write", 768], "namespaces")
    is_ended(got, 256)


def test_short_runs_are_counted_at_their_end(me, probes):
    """The run has ended before the first count: there is nothing to end, but the receipt says so. The baseline must be
    counted before the command runs, or it would include what the command has written by then."""
    for _ in range(12):
        tidy(me)
        got = me.receipt(
            ["--workspace", ".", "--disk", "1M"], ["dd", "if=/dev/zero", "of=f", "bs=1M", "count=4"], "namespaces"
        )
        assert got["kind"] in ("exited", "disk"), got
        assert [d["target"] for d in got["denials"]] == ["1M in the workspace"], got
        # One that takes long enough for a count is ended in between.
        assert got["usage"]["disk_bytes"] >= (4 * MIB if got["kind"] == "exited" else MIB), got


def test_private_directories_have_their_own(me, probes):
    tidy(me)
    script = "head -c 32M /dev/zero >/tmp/f; echo $?; head -c 4M /dev/zero >f; echo $?"
    got = me.receipt(["--workspace", ".", "--disk", "8M"], ["sh", "-c", script], "namespaces")
    assert got["stdout"] == "1\n0\n" and got["kind"] == "exited", got
    assert [d["target"] for d in got["denials"]] == ["8M in private directories"], got


def test_space_cannot_be_reserved(me):
    """In one call, for which no watch is fast enough. Giving it back is allowed."""
    tidy(me)
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'x' * 65536)
def attempt(name, r):
    print(name, os.strerror(ctypes.get_errno()).split()[-1] if r < 0 else 'done')
for mode in (0, 1, 0x10, 0x11, 0x20, 0x40, 3, 8):
    attempt(hex(mode), libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(16384)))
size = ctypes.create_string_buffer(48)
size[16:24] = (1 << 30).to_bytes(8, 'little')
for request in (0x40305828, 0x4030582a, 0x40305839):
    attempt(hex(request), libc.ioctl(fd, ctypes.c_ulong(request), size))
os.posix_fallocate(fd, 0, 1 << 20)
print(os.fstat(fd).st_size)
"""
    got = me.receipt(["--workspace", "."], ["python3", "-c", script], "namespaces")
    rows = dict(line.split() for line in got["stdout"].splitlines()[:-1])
    refused = ["0x0", "0x1", "0x10", "0x11", "0x20", "0x40", "0x40305828", "0x4030582a", "0x40305839"]
    assert {name: rows[name] for name in refused} == dict.fromkeys(refused, "supported"), got
    assert rows["0x3"] == "done", got
    assert got["stdout"].splitlines()[-1] == str(1 << 20), got
    # Without a workspace nothing is different from before.
    got = me.receipt(["-w", me.work], ["python3", "-c", script], "namespaces")
    assert "0x0 done" in got["stdout"] and "0x40305828 done" in got["stdout"], got


# An innocent program close to its limit: pages that it makes dirty, a name now and then, a deleted file that it has
# open or (mapped) only mapped.
INNOCENT = """
import mmap, os, select, sys
with open('f', 'wb') as f:
    f.write(bytes(12 << 20))
fd = os.open('m', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
os.unlink('m')
if sys.argv[1] == 'mapped':
    os.close(fd)
if sys.argv[1] == 'locked':
    os.mkdir('l', 0)
print('ready', flush=True)
while not select.select([0], [], [], 0.02)[0]:
    m[:] = os.urandom(1 << 20)
    with open('g', 'w') as f:
        f.write('x')
print('fine')
"""


def write_beside(me, kind, size):
    """How INNOCENT ends under 16M, beside a program that writes so many MiB to the same disk."""
    tidy(me)
    argv = me.argv(["--workspace", ".", "--disk", "16M"], ["python3", "-c", INNOCENT, kind], "namespaces")
    run = me.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.readline() == b"ready\n", run.communicate()
    other = me.out / "other"
    with open(other, "wb") as file:
        for _ in range(size):
            file.write(os.urandom(65536) * 16)
            file.flush()
    try:
        # It is counted several times meanwhile.
        run.wait(1.5 if kind != "locked" or size < 64 else 60)
    except subprocess.TimeoutExpired:
        pass
    out, err = run.communicate(timeout=60)
    other.unlink()
    return run.returncode, out, err


@pytest.mark.once
@pytest.mark.parametrize("kind,size", [("open", 32), ("mapped", 32), ("locked", 32), ("open", 400)])
def test_neighbours_are_not_charged(me, kind, size):
    """Others write twice the limit while a run is near its own; far more, if the run hides nothing."""
    for _ in range(3):
        got = write_beside(me, kind, size)
        assert got == (0, b"fine\n", b""), got


def test_growth_counts_where_something_can_hide(me):
    """The backstop: a run that locks a directory, and a disk that grows by far more than it may write."""
    status, out, err = write_beside(me, "locked", 400)
    assert (status, out) == (137, b"") and GROWN.encode() in err, (status, out, err)


def test_layers_are_out_of_reach(me):
    """Init holds a descriptor of what it counts; the guest cannot get at it."""
    tidy(me)
    script = "ls /proc/1/fd /proc/1/cwd/ /proc/1/root/ 2>&1 | grep -vc denied; ls /proc/self/fd | wc -w"
    got = me.receipt(["--workspace", "."], ["sh", "-c", script], "namespaces")
    reached, own = map(int, got["stdout"].split())
    assert reached == 0 and own == 4, got  # ls has its own directory open, too


@pytest.mark.parametrize("where", ["top", "deep"])
def test_counting_is_not_disturbed_by_names(me, where):
    """Unusual names, links, pipes and sockets."""
    tidy(me)
    script = f"""
import os, socket, sys
if {where == 'deep'}:
    for _ in range(200):
        os.mkdir('d'); os.chdir('d')
for name in (b'new\\nline', b'\\x1b[2J', b'\\xff\\xfe', b'-rf', b' ', b'x' * 255):
    open(name, 'wb').write(b'x' * 4096)
os.symlink('/', 'root'); os.symlink('.', 'self'); os.symlink('nowhere', 'broken')
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('sock')
fd = os.open('big', os.O_WRONLY | os.O_CREAT)
block = b'x' * (1 << 20)
for _ in range(512):
    os.write(fd, block)
print('filled')
"""
    got = me.receipt(["--workspace", ".", "--disk", "32M"], ["python3", "-c", script], "namespaces")
    is_ended(got, 32)


def test_state_lies_where_it_should(me, probes):
    """What was counted is what lies in the store: its files and the receipt agree."""
    got = fill(me, probes, "small", 64, want=16, hold=400)
    is_fine(got)
    layers = [p for p in pathlib.Path(me.home).rglob("upper") if p.is_dir()]
    assert len(layers) == 1, layers
    on_disk = sum(p.lstat().st_blocks * 512 for p in layers[0].rglob("*"))
    assert abs(got["usage"]["disk_bytes"] - on_disk) <= MIB, (got["usage"], on_disk)
