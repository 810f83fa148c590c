# SPDX-License-Identifier: Apache-2.0
"""Instruments of the limit suites: what a run takes from the machine, read from outside.

Two ways to know the memory of a run. Root puts it into a memory control group of its own, whose high
water mark is exact and does not feel what else goes on; it limits nothing. Everybody can watch the
machine's free memory with a sampler (probes/meter.c), which also sees the rest of the machine.
"""

import dataclasses
import itertools
import os
import pathlib
import subprocess
import time

from conftest import unavailable

MIB = 1 << 20

# What others may take or give back on this machine while a run is watched. Only for the free memory
# of the whole machine, which no test can have for itself.
NOISE = 64 * MIB

_numbers = itertools.count()


def slack(limit):
    """How far a run may go beyond its memory limit before it is ended."""
    return max(limit // 4, 64 * MIB)


def _memory_group():
    """(directory of our own memory control group, name of its high water mark), or None."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if names == "memory":
            base, mark = "/sys/fs/cgroup/memory", "memory.max_usage_in_bytes"
        elif names == "":
            base, mark = "/sys/fs/cgroup", "memory.peak"
        else:
            continue
        where = pathlib.Path(base + path)
        if (where / mark).exists() and os.access(where, os.W_OK):
            return where, mark
    return None


class Group:
    """A memory control group that limits nothing and remembers its highest use."""

    def __init__(self, me):
        self.path = None
        found = _memory_group() if os.geteuid() == 0 else None
        if not found:
            return
        path = found[0] / f"cordon-limits-{os.getpid()}-{next(_numbers)}"
        path.mkdir()
        self.mark = path / found[1]
        if not self.mark.exists():  # version 2, and the controller is not handed down
            path.rmdir()
            return
        self.path = path
        os.chown(path / "cgroup.procs", me.uid, me.gid)

    def enter(self):
        """For preexec_fn. The mark begins after the move."""
        if self.path:
            (self.path / "cgroup.procs").write_text("0")

    def peak(self):
        return int(self.mark.read_text()) if self.path else None

    def close(self):
        end = time.monotonic() + 5
        while self.path:
            try:
                self.path.rmdir()
                self.path = None
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


@dataclasses.dataclass
class Reading:
    peak: int | None = None  # bytes of the run alone; None where only root could know
    fall: int = 0  # bytes by which the machine's free memory fell
    shmem: int = 0  # bytes by which its shared memory rose
    gap_us: int = 0  # longest time between two samples

    def most(self):
        """The best that is known about the run's use."""
        return self.fall if self.peak is None else self.peak

    def noise(self):
        return NOISE if self.peak is None else 0

    def __str__(self):
        peak = "-" if self.peak is None else f"{self.peak / MIB:.1f}"
        return f"peak {peak} MiB, free memory fell by {self.fall / MIB:.1f} MiB"


class Meter:
    """with Meter(me, probes) as meter: me.run(..., preexec_fn=meter.enter); then meter.reading"""

    def __init__(self, me, probes, period_us=1000):
        self.group = Group(me)
        self.sampler = [probes["meter"], str(period_us)]
        self.reading = Reading()

    def __enter__(self):
        self.proc = subprocess.Popen(self.sampler, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.proc.stdout.readline() == b"ready\n"
        return self

    def enter(self):
        self.group.enter()

    def __exit__(self, *exc):
        out, _ = self.proc.communicate(b"end\n", timeout=10)
        fall, shmem, _, gap = map(int, out.split())
        self.reading = Reading(self.group.peak(), fall << 10, shmem << 10, gap)
        self.group.close()
        return False


# --- processes, as the host sees them ----------------------------------------------------------------


def _fields(pid):
    """What /proc/PID/stat says after the name, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _children(pid):
    kids = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                kids += map(int, file.read().split())
    except OSError:
        pass
    return kids


def tree(root):
    """{pid: fields} of all that descends from root, without it. Orphans go to init, so none can leave.
    The cost depends on the size of the tree only."""
    found, todo = {}, [root]
    while todo:
        for pid in _children(todo.pop()):
            fields = _fields(pid)
            if fields:
                found[pid] = fields
                todo.append(pid)
    return found


def inits(root):
    """The direct children of the command: init, and the janitor where there is one."""
    return {pid for pid, fields in tree(root).items() if int(fields[1]) == root}


def tasks(root):
    """Tasks of the guest: processes and threads, including zombies. Only tasks found by two walks in a row count, since
    they existed at the same time; a single walk may find one and its successor."""
    before, after = tree(root), tree(root)
    return sum(
        min(int(f[17]) or 1, int(after[pid][17]) or 1)
        for pid, f in before.items()
        if pid in after and int(f[1]) != root and not is_inits(pid)
    )


def is_inits(pid):
    """Init counts memory in a process of its own, for a moment. Its name outlives its command line."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as f:
            return f.read().startswith((b"memfd:cordon", b"cordon-init"))
    except OSError:
        return True  # it has ended


def cpu_seconds(root):
    """CPU time of the guest so far, of children that were waited for as well. What init itself takes to look at the
    tree is not the guest's: in an emulated machine that is a fifth of a CPU."""
    ticks = 0
    for fields in tree(root).values():
        is_init = int(fields[1]) == root
        ticks += sum(map(int, fields[13:15] if is_init else fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def idle_seconds():
    """Idle time of all CPUs so far."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[4]) / os.sysconf("SC_CLK_TCK")


def with_time_left(run, is_good):
    """What run() returns. A bad result counts only if the machine had time left: where other programs take all of it,
    the watch is late. tools/second-try.list names the tests that need this."""
    for _ in range(4):
        begin, idle = time.monotonic(), idle_seconds()
        got = run()
        idle = (idle_seconds() - idle) / (time.monotonic() - begin)
        if is_good(got) or idle > 0.8:
            return got
        print(f"{idle:.2f} of a CPU left idle: {got}")
    return unavailable("other programs take all the time of this machine")


def wait_for(probe, patience=10.0, pause=0.005):
    """Polls probe() until it is true and returns it; fails loudly if it never is."""
    end = time.monotonic() + patience
    while True:
        got = probe()
        if got:
            return got
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)
