# SPDX-License-Identifier: Apache-2.0
"""The watch beside programs that take all the time of the machine: by how much a limit can be passed then."""

import subprocess
import time

import pytest
from meter import MIB, Meter, slack, tree

LIMIT = 256


@pytest.fixture(autouse=True)
def busy(me):
    """Two loops."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def eat(me, probes, kind, want, tries=4):
    """(receipt, the lowest of several peaks that were too high); other programs may take memory meanwhile."""
    peaks = []
    while len(peaks) < tries:
        with Meter(me, probes) as meter:
            got = me.receipt(
                ["-m", f"{LIMIT}M", "-t", "100s", "-r", probes["eat"]],
                [probes["eat"], kind, str(want)],
                "namespaces",
                preexec_fn=meter.enter,
                timeout=120,
            )
        peaks.append(meter.reading.most() - meter.reading.noise())
        if peaks[-1] <= LIMIT * MIB + slack(LIMIT * MIB):
            break
    print(f"{kind}: {[p // MIB for p in peaks]} MiB")
    return got, min(peaks)


def test_page_tables(me, probes):
    got, peak = eat(me, probes, "tables", 1024)
    assert (got["kind"], got["status"]) == ("memory", 137), got
    assert peak <= LIMIT * MIB + 2 * slack(LIMIT * MIB), peak / MIB


def test_page_tables_that_are_being_copied(me, probes):
    """A copy by fork() is seen only when it is complete, so the limit must leave room for it."""
    with Meter(me, probes) as meter:
        done = me.outside([probes["eat"], "tables-forked", "1400", "300"], preexec_fn=meter.enter)
    assert b"ate " in done.stdout, done
    assert meter.reading.most() > LIMIT * MIB + slack(LIMIT * MIB), "positive control"
    got, peak = eat(me, probes, "tables-forked", 1400)
    assert (got["kind"], got["status"]) == ("memory", 137), got
    assert peak <= LIMIT * MIB + slack(LIMIT * MIB), peak / MIB


# Grows, so that the watch counts exactly, and leaves orphans that die at once.
ORPHANS = """
import mmap, os, time
maps, end, made, refused = [], time.monotonic() + 3, 0, 0
while time.monotonic() < end:
    if len(maps) < 100:
        maps.append(mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        maps[-1].write(bytes(2 << 20))
    pid = os.fork()
    if not pid:
        for _ in range(16):
            if not os.fork():
                os._exit(0)
        os._exit(0)
    refused += os.waitpid(pid, 0)[1] != 0
    made += 16
print(made, refused)
"""


def test_the_dead_do_not_pile_up(me):
    """They count as tasks: a run that leaves 16 at a time must not be refused one under a limit of 128."""
    argv = me.argv(["-m", "4G", "-P", "128"], ["python3", "-c", ORPHANS], "namespaces")
    run = me.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    most = 0
    while run.poll() is None:
        most = max(most, sum(fields[0] == "Z" for fields in tree(run.pid).values()))
        time.sleep(0.005)
    out, err = run.communicate()
    print(f"{most} dead at once; made {out.decode().strip()}")
    assert run.returncode == 0 and out.split()[1] == b"0", (out, err)
    assert most < 96, most
