# SPDX-License-Identifier: Apache-2.0
"""limits.cpu and limits.cpu_time: of the whole tree, however it is arranged."""

import os
import signal
import subprocess
import time

import pytest
from conftest import ceiling
from meter import cpu_seconds, is_inits, tree, wait_for, with_time_left

WAYS = ["one", "four", "session", "forking", "turns"]


class Waits:
    """How long the guest's tasks were ready and got no CPU: time that other programs took, not the throttle."""

    def __init__(self, root):
        self.root, self.first, self.last = root, {}, {}
        self.sample()
        self.first = dict(self.last)

    def sample(self):
        for pid, fields in tree(self.root).items():
            if int(fields[1]) == self.root or is_inits(pid):
                continue
            try:
                with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
                    self.last[pid] = int(file.read().split()[1]) / 1e9
            except OSError:
                pass  # it has ended

    def seconds(self):
        return sum(last - self.first.get(pid, 0) for pid, last in self.last.items())


def share(me, opts, cmd, level, window=1.0):
    """(CPU time of a run in a window that begins when it is under way, what it waited for a CPU), per second."""
    proc = me.popen(
        me.argv(opts, cmd, level), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: cpu_seconds(proc.pid) > 0.05, patience=30)
        time.sleep(0.2)
        begin, used, waits = time.monotonic(), cpu_seconds(proc.pid), Waits(proc.pid)
        while time.monotonic() < begin + window:
            time.sleep(0.01)
            waits.sample()
        took = time.monotonic() - begin
        return (cpu_seconds(proc.pid) - used) / took, waits.seconds() / took
    finally:
        proc.terminate()
        proc.wait()


def fair_share(me, opts, cmd, level, limit, least, window=1.0):
    """The CPU time of a run per second. A tree that waits for a part of the time has its limit in the rest of it."""
    for _ in range(4):
        got, waited = share(me, opts, cmd, level, window)
        waited /= 4 if cmd[1] == "four" else 1  # those wait for each other, too
        print(f"{cmd[1]}: {got:.2f} of a CPU, waited for {waited:.2f}")
        # Short-lived processes wait longer than is seen of them.
        fair = got + waited * (1 if cmd[1] == "forking" else limit)
        if fair >= least:
            break
    assert fair >= least
    return got


@pytest.mark.parametrize("how", WAYS)
def test_share(me, level, probes, how):
    """Half a CPU over a second: the throttle decides some twenty times in it."""
    probe = probes["burn"]
    got = fair_share(me, ["--cpus", "0.5", "-r", probe], [probe, how, "20000"], level, 0.5, 0.40)
    assert got <= 0.60


def test_without_a_share(me, probes):
    """Positive control: the same burner takes a whole CPU, or waits for it."""
    probe = probes["burn"]
    fair_share(me, ["-r", probe], [probe, "one", "20000"], "namespaces", 1, 0.7, 0.5)


def test_share_above_one(me, probes):
    """1.2 of two CPUs: four burners would take more."""
    got, _ = share(me, ["--cpus", "1.2", "-r", probes["burn"]], [probes["burn"], "four", "20000"], "namespaces")
    assert got < 1.4


RESTLESS = ["timers", "continuing"]
BURNERS = 7  # processes of the second


@pytest.mark.once
@pytest.mark.parametrize("how", RESTLESS)
def test_a_tree_that_continues_itself(me, level, probes, how):
    """A tree that continues itself after a stop is stopped again, or ended when it keeps doing so."""
    probe = probes["burn"]
    got = me.receipt(["--cpus", "0.5", "-t", "4s", "--grace", "0", "-r", probe], [probe, how, "20000"], level)
    used = got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]
    print(f"{how}: {got['kind']}, {used:.0f} ms of CPU in {got['run_ms']:.0f} ms")
    assert (got["kind"], got["status"]) in (("timeout", 124), ("cpu_time", 124)), got
    # One that does not give in for half a second is ended. One that gives in just before that, and then
    # comes to the end of its time, has not made up for what it used meanwhile.
    resisted = 540 * (min(os.cpu_count(), BURNERS) - 0.5)
    assert used <= 0.5 * got["run_ms"] + resisted + 150 or (got["kind"] == "cpu_time" and used < 4000), got["usage"]


@pytest.mark.parametrize("how", RESTLESS)
def test_a_tree_that_continues_itself_control(me, probes, how):
    """Positive control: outside it does not stay stopped."""
    probe = probes["burn"]
    proc = me.popen([probe, how, "600"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    for _ in range(5):
        time.sleep(0.05)
        os.kill(proc.pid, signal.SIGSTOP)
    try:
        out, _ = proc.communicate(timeout=10)  # stopped for good it would not end
    finally:
        proc.kill()
    assert out == b"done\n"


def test_stopped_by_the_guest_stays_stopped(me, level, probes):
    """The throttle does not continue what the guest itself has stopped."""
    probe = probes["burn"]
    opts = ["--cpus", "0.3", "-r", probe, "-t", "20s"]
    assert me.outside([probe, "stopper", "300"]).stdout == b"resumed 0\ndone\n"
    done = me.run(opts, [probe, "stopper", "600"], level)
    assert done.stdout == b"resumed 0\ndone\n", done


def unseen(me, cmd, level, probe, trace):
    """A run under a throttle that leaves no trace of its stops. Parents are stopped first, if there is time for that."""
    return with_time_left(
        lambda: me.run(["--cpus", "0.3", "-r", probe, "-t", "20s"], cmd, level),
        lambda done: trace not in done.stdout + done.stderr,
    )


# Stops a child again and again, and waits for each stop. On one CPU the child has often not run when the throttle comes.
STOPS = """
import os, signal, sys, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
end = time.monotonic() + float(sys.argv[1])
child = os.fork()
while child == 0:
    pass
while time.monotonic() < end:
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    os.kill(child, signal.SIGCONT)
os.kill(child, signal.SIGKILL)
print("done")
"""


@pytest.mark.once
def test_a_stop_by_the_guest_is_not_lost(me, level):
    """One that was sent and has not arrived when the throttle stops the tree, too."""
    cmd = ["python3", "-c", STOPS, "3"]
    assert me.outside(cmd).stdout == b"done\n"
    done = me.run(["--cpus", "0.3", "-t", f"{ceiling(15):.0f}s"], cmd, level)
    assert done.stdout == b"done\n", done


def test_parents_see_nothing(me, level, probes):
    """A parent that asks to be told about stopped children is told nothing by the throttle."""
    probe = probes["burn"]
    done = unseen(me, [probe, "watcher", "600"], level, probe, b"stopped 1")
    assert done.stdout == b"stopped 0\ndone\n", done


@pytest.mark.parametrize("jobs", ["", "set -m; "], ids=["plain", "job-control"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shells_report_no_stopped_jobs(me, level, probes, shell, jobs):
    probe = probes["burn"]
    script = f"{jobs}{probe} one 350; echo status $?; {probe} one 250 & wait; jobs; echo over"
    done = unseen(me, [shell, "-c", script], level, probe, b"Stopped")
    assert b"Stopped" not in done.stdout + done.stderr, done
    assert b"done\nstatus 0\n" in done.stdout and done.stdout.endswith(b"over\n"), done


def test_throttled_run_ends_normally(me, level):
    got = me.receipt(["--cpus", "0.25"], ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; exit 5"], level)
    assert (got["kind"], got["exit_code"]) == ("exited", 5), got
    assert got["isolation"]["limits"]["cpu"] in ("watch", "cgroup")


@pytest.mark.once
@pytest.mark.parametrize("how", ["one", "four", "session", "forking", "unwaited", "grand"])
def test_cpu_time(me, level, probes, how):
    """Half a second for the whole tree; the burners would go on for ten."""
    probe = probes["burn"]
    begin = time.monotonic()
    got = me.receipt(["--cpu-time", "500ms", "-r", probe], [probe, how, "10000"], level)
    took = time.monotonic() - begin
    assert (got["kind"], got["status"]) == ("cpu_time", 124), got
    used = (got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]) / 1000
    print(f"{how}: {used:.2f} s of CPU in {took:.2f} s")
    assert took < 9 and used < 2
    if how != "unwaited":  # no parent gets their CPU time
        assert used > 0.4


def test_cpu_time_is_not_wall_time(me, level):
    limit = ceiling(150)
    got = me.receipt(["--cpu-time", f"{int(limit)}ms"], ["sleep", str(limit / 1000 + 0.25)], level)
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got


def test_cpu_time_says_so(me, level, probes):
    done = me.run(["--cpu-time", "200ms", "-r", probes["burn"]], [probes["burn"], "one", "9000"], level)
    assert done.returncode == 124
    assert done.stderr.startswith(b"cordon: ") and b"CPU" in done.stderr, done.stderr
