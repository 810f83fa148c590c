# SPDX-License-Identifier: Apache-2.0
"""The watch itself: a limit that cannot be watched ends the run, and the guest cannot delay the watch."""

import subprocess
import threading
import time

import pytest
from conftest import ceiling, needs, survivors, unavailable
from meter import tree, wait_for

# /proc can be listed twice by each process and then never again.
BLIND = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=getdents64"]
INJECT = ["-e", "inject=getdents64:error=ENOMEM:when=3+"]
LIMITS = [["-m", "64M"], ["--cpus", "0.5"], ["--cpu-time", "10s"]]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit[0])
def test_a_blind_watch_ends_the_run(me, level, limit):
    """Fail closed: the command does not go on under a limit that is not enforced."""
    needs("strace")
    argv = me.argv(limit, ["sh", "-c", "while :; do sleep 0.01; done"], level)
    done = me.outside([*BLIND, *INJECT, *argv], timeout=20)
    assert done.returncode == 125, done
    said = done.stderr.decode()
    assert said.startswith("cordon: ") and "could not be watched" in said and said.count("\n") <= 2, said


def test_a_watch_that_sees(me, level):
    """Positive control: traced in the same way, but nothing fails."""
    needs("strace")
    done = me.outside([*BLIND, *me.argv(["-m", "64M"], ["sleep", "0.3"], level)], timeout=20)
    assert (done.returncode, done.stderr) == (0, b""), done


def test_blind_without_limits(me):
    """Nothing is promised, so nothing ends the run; in a pid namespace its end needs no list either."""
    needs("strace")
    done = me.outside([*BLIND, *INJECT, *me.argv([], ["sleep", "0.3"], "namespaces")], timeout=20)
    assert (done.returncode, done.stderr) == (0, b""), done


# --- a guest whose smaps cannot be read ------------------------------------------------------------


def grip(me, level, probes, opts):
    """A run of the probe, whether it has its locks in its grip, and the time at which it was started."""
    begin = time.monotonic()
    probe = probes["grip"]
    proc = me.popen(
        me.argv([*opts, "-r", probe], [probe, "20"], level),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return proc, proc.stdout.readline() == b"ready\n", begin


def slowest_read(root, patience):
    """How long it takes at most to read the mappings of a process below root. The reading may never end."""
    took = []

    def read(pid):
        begin = time.monotonic()
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                file.read()
        except OSError:
            return
        took.append(time.monotonic() - begin)

    begin = time.monotonic()
    readers = [threading.Thread(target=read, args=(pid,), daemon=True) for pid in tree(root)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(max(0.0, begin + patience - time.monotonic()))
    if any(reader.is_alive() for reader in readers):
        return time.monotonic() - begin
    return max(took, default=0.0)


@pytest.mark.once
def test_held_locks_do_not_delay_the_end(me, level, probes):
    """The watch asks for the mappings and is made to wait; the time limit holds all the same."""
    for limit in 1.5, 5, 15:  # a busy machine takes longer until the locks are held
        proc, is_ready, begin = grip(me, level, probes, ["-m", "1G", "-t", f"{limit}s", "--grace", "0"])
        waited = slowest_read(proc.pid, 0.3) if is_ready else 0
        out, err = proc.communicate(timeout=20)
        if is_ready:
            break
    took = time.monotonic() - begin
    print(f"reading waited {waited * 1000:.0f} ms; the run took {took:.2f} s")
    assert (proc.returncode, out) == (124, b""), (proc.returncode, out, err)
    assert took < limit + ceiling(3.5), took
    assert survivors(2.0) == []
    if waited < 0.05:
        unavailable("the locks could be had at once: nothing was held up")


def test_held_locks_do_not_save_the_tree(me, level, probes):
    """The supervisor is killed while the watch waits."""
    proc, is_ready, _ = grip(me, level, probes, ["-m", "1G"])
    assert is_ready, proc.communicate()
    pids = wait_for(lambda: tree(proc.pid))
    assert len(pids) > 4
    time.sleep(0.2)
    proc.kill()
    proc.communicate(timeout=20)
    # The holders have the lowest priority, and need a CPU to die.
    assert survivors(20.0) == []
