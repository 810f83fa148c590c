# SPDX-License-Identifier: Apache-2.0
"""limits.procs: tasks of the whole tree, by every way of making them, for every caller."""

import subprocess
import threading
import time

import pytest
from conftest import ceiling
from meter import tasks, wait_for

WAYS = ["fork", "vfork", "clone", "threads", "double", "storm"]
LIMIT = 24
TRIES = 100


def words(out):
    text = out.decode() if isinstance(out, bytes) else out
    _, made, _, refused, first = text.split()
    return int(made), int(refused), first


def counted(me, opts, cmd, level):
    """The run's output and the most tasks that the host saw in it."""
    proc = me.popen(me.argv(opts, cmd, level), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    most, over = 0, threading.Event()

    def count():
        nonlocal most
        while not over.is_set():
            most = max(most, tasks(proc.pid))
            time.sleep(0.003)

    thread = threading.Thread(target=count)
    thread.start()
    out, err = proc.communicate(timeout=60)
    over.set()
    thread.join()
    return proc.returncode, out, err, most


@pytest.mark.parametrize("how", WAYS)
def test_held(me, level, probes, how):
    probe = probes["tasks"]
    made, refused, _ = words(me.outside([probe, how, TRIES, 100]).stdout)
    assert made >= TRIES and not refused, "positive control"
    receipt = me.work / "receipt.json"
    opts = ["-P", LIMIT, "-r", probe, "--receipt", receipt]
    status, out, err, most = counted(me, opts, [probe, how, TRIES, int(ceiling(300))], level)
    assert status == 0, err
    made, refused, first = words(out)
    assert LIMIT // 2 < made <= LIMIT and refused and first == "EAGAIN", out
    assert LIMIT // 2 < most <= LIMIT, f"{most} tasks at once"


def test_noted_not_killed(me, level, probes):
    probe = probes["tasks"]
    for hold_ms in 300, 3000:  # the watch has to see them; on a busy machine that takes it longer
        got = me.receipt(["-P", LIMIT, "-r", probe], [probe, "fork", str(TRIES), hold_ms], level)
        assert (got["kind"], got["exit_code"]) == ("exited", 0), got
        assert got["isolation"]["limits"]["procs"] in ("rlimit", "cgroup", "watch")
        note = [d for d in got["denials"] if d["what"] == "procs"]
        if note:
            break
    if level == "landlock" and not note:
        return  # the kernel counts all of the user's tasks there, and only ours are seen
    assert len(note) == 1 and note[0]["rule"] == "limits.procs", got["denials"]
    assert str(LIMIT) in note[0]["target"] and note[0]["fix"].startswith("-P "), note
    assert got["usage"]["procs_peak"] >= LIMIT // 2


def test_no_note_without_a_refusal(me, level, probes):
    got = me.receipt(["-P", "64", "-r", probes["tasks"]], [probes["tasks"], "fork", "10", "20"], level)
    assert got["exit_code"] == 0 and not got["denials"], got


def test_thousands_of_short_ones(me, level, probes):
    got = me.receipt(["-P", "8", "-r", probes["tasks"]], [probes["tasks"], "short", "5000"], level)
    assert (got["exit_code"], got["stdout"]) == (0, "made 5000 refused 0\n"), got


def test_two_runs_count_apart(me, level, probes):
    """One run at its limit takes nothing from another of the same user."""
    probe = probes["tasks"]
    argv = me.argv(["-P", LIMIT, "-r", probe], [probe, "fork", TRIES, 700], level)
    first = me.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        wait_for(lambda: tasks(first.pid) > LIMIT // 2)
        made, refused, _ = words(me.run(["-P", "60", "-r", probe], [probe, "fork", 40, 10], level).stdout)
        assert (made, refused) == (40, 0)
        assert me.outside(["true"]).returncode == 0
    finally:
        first.communicate()


def test_the_limit_cannot_be_raised(me, level, probes):
    script = """
import os, resource, sys
for pair in ((100000, 100000), (resource.RLIM_INFINITY,) * 2):
    try: resource.setrlimit(resource.RLIMIT_NPROC, pair)
    except (OSError, ValueError): pass
os.execv(sys.argv[1], sys.argv[1:])
"""
    probe = probes["tasks"]
    done = me.run(["-P", LIMIT, "-r", probe], ["python3", "-c", script, probe, "fork", TRIES, 20], level)
    made, refused, first = words(done.stdout)
    assert made <= LIMIT and refused and first == "EAGAIN", done


def test_the_default_holds_a_bomb(me, probes):
    """256 is the default when no limit is given."""
    opts = ["-t", f"{ceiling(20):.0f}s", "-r", probes["tasks"]]
    got = me.receipt(opts, [probes["tasks"], "storm", "2000", int(ceiling(2500))], "namespaces")
    made, refused, _ = words(got["stdout"])
    assert made <= 256 and refused, got["stdout"]
