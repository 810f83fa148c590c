# SPDX-License-Identifier: Apache-2.0
"""limits.memory: the tree takes no more memory than allowed, in whatever way it takes it.

Each kind is first let loose without a sandbox, where it must really take what it says. What is
believed about a run is what the host sees (meter.py), not what the program prints.
"""

import threading

import pytest
from conftest import unavailable
from meter import MIB, Meter, slack

LIMIT = 128
WANT = 512

KINDS = [
    "anon",  # a private mapping
    "huge",  # the same in huge pages
    "shared",  # anonymous, shared
    "dropped",  # shared, and then taken out of the process's own size
    "unmapped",  # shared, and only one page of each piece stays mapped
    "memfd-write",
    "memfd-alloc",
    "memfd-mapped",  # the descriptor is closed, the mapping shows nothing
    "memfd-flight",  # in a socket's queue: neither open nor mapped anywhere
    "memfd-hidden",  # open in a process whose /proc cannot be read
    "tmp",
    "tmp-gone",  # open and without a name
    "devshm",
    "posix",
    "sysv",
    "sysv-left",  # exists, attached nowhere
    "sysv-many",  # thousands of small ones
    "tables",  # page tables of a mapping in which nothing is stored
    "children",  # 100 of them
    "writers",  # four at once, as fast as they can
    "writers-huge",
    "writers-shared",
    "cow",  # 20 processes write their own copy of what they shared
    "fog",  # behind processes that take long to look at
    "daemon",  # another session, adopted by init
    "headless",  # its first thread has ended
    "undumpable",
    "threads",  # on their stacks
    "stopped",
    "vfork",
]

# Kernel memory of a program that only control groups count.
BUFFERS = ["sockets", "pipes", "messages"]

# Memory in unusual places (probes/stash.c).
STASHES = [
    ("semaphores", "namespaces"),
    ("thread", "namespaces"),  # a file that only one thread has open, in a table of its own
    ("thread", "landlock"),
]

# Without namespaces there is no SysV IPC, /tmp and /dev/shm are not private and not memory, and what
# no process has open cannot be attributed to a run.
AT_LANDLOCK = ["anon", "huge", "children", "writers", "cow", "daemon", "headless", "undumpable", "threads", "stopped", "vfork"]

_controls = {}


@pytest.fixture
def works_outside(me, probes):
    """Runs a kind without a sandbox, once for each: it takes what it says."""

    def check(kind, want=WANT, program="eat"):
        if kind in _controls:
            return
        for _ in range(3):
            with Meter(me, probes) as meter:
                done = me.outside([probes[program], kind, want, "100"], preexec_fn=meter.enter)
            assert b"ate " in done.stdout, done
            got = meter.reading
            # Outside, /tmp may be a disk; and others give memory back while this one takes it.
            enough = got.peak is None and ("tmp" in kind or max(got.fall, got.shmem) > want * MIB // 2)
            if enough or (got.peak or 0) > want * MIB * 8 // 10:
                break
        else:
            pytest.fail(f"positive control: {got}")
        _controls[kind] = got

    return check


def ceiling_of(kind, limit, reading, level):
    """The highest use that is accepted. One slack is promised for four writers; other kinds take longer to notice, and
    longer still on a busy machine (overshoot.py prints a table)."""
    times = {"writers": 1, "fog": 6, "pipes": 4, "tcp": 4}.get(kind, 3) + (level == "landlock")
    return limit * MIB + times * slack(limit * MIB) + reading.noise()


def eaten(me, level, probes, kind, limit=LIMIT, want=WANT, tries=6, program="eat"):
    """One run; repeated if only the noise of the machine can be the reason for a bad reading: a machine that does not
    let init run for 20 ms lets four writers have everything meanwhile."""
    probe = probes[program]
    for _ in range(tries):
        with Meter(me, probes) as meter:
            got = me.receipt(
                ["-m", f"{limit}M", *(["--disk", "4G"] if level == "namespaces" else []), "-t", "60s", "-r", probe],
                [probe, kind, str(want)],
                level,
                preexec_fn=meter.enter,
            )  # fmt: skip
        print(f"{kind}: {got['kind']} after {got['duration_ms']:.0f} ms, {meter.reading}")
        is_held = kind in BUFFERS or "ate" not in got["stdout"]
        if is_held and meter.reading.most() <= ceiling_of(kind, limit, meter.reading, level):
            break
    return got, meter.reading


def assert_held(kind, level, got, reading, limit=LIMIT):
    assert (got["kind"], got["status"]) == ("memory", 137), got
    assert b"ate" not in got["stdout"].encode(), "it got everything it wanted"
    ceiling = ceiling_of(kind, limit, reading, level)
    assert reading.most() <= ceiling, f"{reading}; allowed {ceiling / MIB:.0f} MiB"


@pytest.mark.parametrize("kind", KINDS)
def test_held(me, probes, works_outside, kind):
    works_outside(kind)
    assert_held(kind, "namespaces", *eaten(me, "namespaces", probes, kind))


@pytest.mark.parametrize("kind", AT_LANDLOCK)
def test_held_without_namespaces(me, probes, works_outside, kind):
    works_outside(kind)
    assert_held(kind, "landlock", *eaten(me, "landlock", probes, kind))


@pytest.mark.parametrize("kind", BUFFERS)
def test_buffers_are_bounded(me, probes, works_outside, kind):
    works_outside(kind, 300)
    got, reading = eaten(me, "namespaces", probes, kind, want=2048)
    assert got["kind"] in ("memory", "exited"), got
    ceiling = ceiling_of(kind, LIMIT, reading, "namespaces")
    assert reading.most() <= ceiling, f"{reading}; allowed {ceiling / MIB:.0f} MiB"


@pytest.mark.parametrize("kind, level", STASHES)
def test_stashes_are_found(me, probes, works_outside, kind, level):
    works_outside(kind, program="stash")
    assert_held(kind, level, *eaten(me, level, probes, kind, program="stash"))


class Queues:
    """How much the machine's TCP queues hold at most; not every control group counts them."""

    def __init__(self):
        self.base, self.most = self.now(), 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    @staticmethod
    def now():
        with open("/proc/net/sockstat", encoding="ascii") as file:
            words = next(line for line in file if line.startswith("TCP:")).split()
        return int(words[words.index("mem") + 1]) * 4096

    def sample(self):
        while not self.over.wait(0.002):
            self.most = max(self.most, self.now() - self.base)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()


def test_queues_of_tcp_are_found(me, probes):
    """What was sent to oneself and is not read."""
    with open("/proc/sys/net/ipv4/tcp_mem", encoding="ascii") as file:
        if int(file.read().split()[2]) * 4096 < 2 * WANT * MIB:
            unavailable("this machine has too little memory for queues of TCP")
    with Queues() as outside:
        done = me.outside([probes["stash"], "tcp", str(WANT), "100"])
    assert b"ate " in done.stdout and outside.most > WANT * MIB * 8 // 10, (done, outside.most / MIB)
    for _ in range(3):  # others have connections, too
        with Queues() as inside:
            got, reading = eaten(me, "namespaces", probes, "tcp", program="stash")
        assert_held("tcp", "namespaces", got, reading)
        print(f"{outside.most / MIB:.0f} MiB in queues outside, {inside.most / MIB:.0f} MiB inside")
        if inside.most <= ceiling_of("tcp", LIMIT, reading, "namespaces"):
            break
    else:
        pytest.fail(f"{inside.most / MIB:.0f} MiB in queues")


def test_said_on_standard_error(me, level, probes):
    """One line that names the limit and what to do; the output so far is kept; the tree is gone."""
    script = "echo before; exec \"$0\" anon 512"
    done = me.run(["-m", "64M", "-r", probes["eat"]], ["sh", "-c", script, probes["eat"]], level)
    assert done.returncode == 137
    assert done.stdout == b"before\n"
    said = done.stderr.decode()
    assert said.startswith("cordon: ") and said.count("\n") <= 2 and "memory" in said, said
    assert "64" in said, "the limit is not named"


def test_a_second_bite(me, level, probes):
    """Use that comes and goes below the limit is no offence, however often."""
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do \"$0\" anon 60 0 >/dev/null || exit 1; done; echo fine"
    got = me.receipt(["-m", "128M", "-r", probes["eat"]], ["sh", "-c", script, probes["eat"]], level)
    assert (got["kind"], got["exit_code"], got["stdout"]) == ("exited", 0, "fine\n"), got


def test_receipt_names_the_mechanism(me, level):
    got = me.receipt(["-m", "128M"], ["true"], level)
    assert got["isolation"]["limits"]["memory"] in ("watch", "cgroup"), got["isolation"]


def test_own_sigkill_is_not_the_limit(me, level):
    got = me.receipt(["-m", "128M"], ["sh", "-c", "kill -KILL $$"], level)
    assert (got["kind"], got["signal"], got["status"]) == ("signaled", 9, 137), got


def test_swallowing_the_limit(me, probes):
    """A guest that catches everything and starts again does not get a second chance."""
    script = """
trap '' TERM INT HUP
while :; do "$0" anon 512 100 & wait; done
"""
    got = me.receipt(["-m", "64M", "-t", "20s", "-r", probes["eat"]], ["sh", "-c", script, probes["eat"]])
    assert got["kind"] == "memory", got
