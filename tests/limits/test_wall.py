# SPDX-License-Identifier: Apache-2.0
"""limits.wall and limits.grace: a run ends when its time is over, whatever it does about it."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import ceiling, needs, survivors

WAYS = ["note", "ignore", "stopped", "session", "double", "hidden", "vfork"]


def ms(number):
    """A limit that leaves a slow machine the time to start the command."""
    return f"{int(ceiling(number))}ms"


def timed(me, opts, how, level, probes, seconds=20, **kw):
    probe = probes["linger"]
    begin = time.monotonic()
    got = me.receipt([*opts, "-r", probe], [probe, how, str(seconds)], level, **kw)
    return got, time.monotonic() - begin


def assert_stays(me, probes, how):
    """Positive control: outside, SIGTERM to the process and its group does not end it."""
    proc = me.popen([probes["linger"], how, "5"], stdout=subprocess.PIPE, start_new_session=True)
    assert proc.stdout.readline() == b"ready\n"
    os.killpg(proc.pid, signal.SIGTERM)
    time.sleep(0.1)
    stayed = proc.poll() is None
    proc.kill()
    proc.wait()
    survivors(0)  # ends those it left behind
    proc.stdout.close()
    assert stayed


@pytest.mark.parametrize("how", WAYS)
def test_ended(me, level, probes, how):
    assert_stays(me, probes, how)
    got, took = timed(me, ["-t", ms(300), "--grace", ms(100)], how, level, probes)
    assert (got["kind"], got["status"]) == ("timeout", 124), got
    assert "ready\n" in got["stdout"] and "over" not in got["stdout"], got
    assert 0.3 <= took < ceiling(6), took
    if how == "note":
        assert "noted\n" in got["stdout"], "no SIGTERM before the end"


def test_grace_to_flush(me, level, probes):
    """SIGTERM first; what is written within the grace is kept; the rest of the grace is not waited for."""
    got, took = timed(me, ["-t", ms(300), "--grace", f"{int(ceiling(10))}s"], "flush", level, probes)
    assert (got["kind"], got["status"]) == ("timeout", 124), got
    assert got["stdout"] == "ready\nflushed\n", got
    assert took < ceiling(6), took


def test_grace_by_default(me, level, probes):
    got, _ = timed(me, ["-t", ms(300)], "flush", level, probes)
    assert (got["kind"], got["stdout"]) == ("timeout", "ready\nflushed\n"), got


def test_grace_reaches_the_whole_tree(me, level, probes):
    """The process that flushes is in a session of its own, adopted by init."""
    got, _ = timed(me, ["-t", ms(600), "--grace", ms(500)], "double", level, probes)
    assert got["kind"] == "timeout" and "flushed\n" in got["stdout"], got


def test_grace_does_not_spare_those_who_ignore_it(me, level, probes):
    got, took = timed(me, ["-t", ms(300), "--grace", "400ms"], "ignore", level, probes)
    assert got["kind"] == "timeout" and 0.7 <= took < ceiling(6), took


@pytest.mark.parametrize("none", ["0", "0s", "0ms"])
def test_no_grace(me, level, probes, none):
    got, _ = timed(me, ["-t", ms(300), "--grace", none], "flush", level, probes)
    assert (got["kind"], got["stdout"]) == ("timeout", "ready\n"), got


def test_output_is_kept(me, level):
    script = "yes 0123456789 | head -n 5000; sleep 20"
    got = me.receipt(["-t", ms(700), "--grace", "0"], ["sh", "-c", script], level)
    assert got["kind"] == "timeout" and got["stdout"] == "0123456789\n" * 5000


def test_said_on_standard_error(me, level):
    done = me.run(["-t", "200ms"], ["sleep", "20"], level)
    assert done.returncode == 124
    assert done.stderr.startswith(b"cordon: ") and b"200ms" in done.stderr, done.stderr
    assert done.stderr.count(b"\n") <= 2


def test_ends_by_itself_before(me, level):
    got = me.receipt(["-t", "30s", "--grace", "30s"], ["sh", "-c", "exit 3"], level)
    assert (got["kind"], got["status"]) == ("exited", 3), got
    assert got["duration_ms"] < ceiling(10_000)


def test_exit_status_within_the_grace_is_no_excuse(me, level):
    """A program that answers SIGTERM with success was still ended by the limit."""
    got = me.receipt(["-t", ms(300)], ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"], level)
    assert (got["kind"], got["status"]) == ("timeout", 124), got


def test_only_clocks_that_nobody_sets(me, level):
    """Every timer and every look at a clock, of the supervisor and of init, over a whole run that times
    out. The guest is known by the time it sleeps."""
    needs("strace")
    log = me.work / "trace"
    calls = "trace=clock_gettime,clock_nanosleep,timerfd_create,timer_create,gettimeofday,time,setitimer,alarm,execve"
    for limit in "300ms", "5s":  # on a busy machine it takes the guest longer to sleep
        argv = me.argv(["-t", limit], ["sleep", "20"], level)
        done = me.outside(["strace", "-f", "-qq", "-o", log, "-e", calls, *argv])
        assert done.returncode == 124, done
        lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
        guests = {pid for pid, call in lines if "tv_sec=20," in call}
        if guests:
            break
    assert len(guests) == 1
    seen = set()
    for pid, call in lines:
        if pid in guests:
            continue
        seen.update(re.findall(r"CLOCK_[A-Z_]+", call))
        assert not re.match(r"\s*(gettimeofday|time|setitimer|alarm|timer_create)\(", call), call
    assert seen and seen <= {"CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW"}, seen
