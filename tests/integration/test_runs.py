# SPDX-License-Identifier: Apache-2.0
"""Runs that last: ps, inspect, kill, logs, wait; and what others may have put where they are listed."""

import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import ceiling

#: Holds the file argv[1] locked as a supervisor does, with argv[2] in it; argv[3]: with a filter of its own.
HOLDER = r"""
import ctypes, fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, sys.argv[2].encode())
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
if sys.argv[3] == "filter":
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]
    allow = Program(1, ctypes.pointer(Filter(6, 0, 0, 0x7fff0000)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(allow)) == 0
print("ready", flush=True)
time.sleep(60)
"""


def until(condition):
    end = time.monotonic() + ceiling(20)
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def waits(process):
    """It has come to the lock of its run."""
    lines = [line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines()]
    return any(line[1] == "->" and str(process.pid) in line for line in lines)


def place(me):
    """Where this caller's runs are listed: made if it is missing."""
    me.run([], ["/bin/true"])
    first = pathlib.Path("/run/cordon-sessions" if me.uid == 0 else f"/run/user/{me.uid}/cordon-sessions")
    return first if first.is_dir() else pathlib.Path(f"/tmp/cordon-sessions-{me.uid}")


def cli(me, *words):
    return me.outside([me.cordon, *words])


def listed(me, word):
    """The runs with @word in their command."""
    return [run for run in json.loads(cli(me, "ps", "--json").stdout) if run.get("type") == "run" and word in " ".join(run["command"])]


@pytest.fixture
def start(me):
    """Starts a run of a shell script and returns it with its entry in the list."""
    made = []

    def begin(script, *opts, **kw):
        word = secrets.token_hex(6)
        process = me.popen(me.argv(opts, ["sh", "-c", script, word]), **kw)
        made.append(process)
        [run] = until(lambda: listed(me, word))
        return process, run

    yield begin
    for process in made:
        process.kill()
        process.wait(ceiling(20))


def test_a_run_that_lasts(me, start):
    log = me.work / "log"
    with open(log, "wb") as file:
        process, run = start("echo out; echo err >&2; trap 'exit 7' TERM; while :; do sleep 0.05; done",
                             "-e", "TOKEN=hunter2", "-w", ".", stdout=file, stderr=file)
    assert run["pid"] == process.pid and run["cwd"] == str(me.work) and run["log_stdout"] and run["workspace"] is None
    table = cli(me, "ps").stdout.decode().splitlines()
    assert any(line.startswith(run["id"] + "  ") and "echo out" in line for line in table)
    text = cli(me, "inspect", run["id"]).stdout.decode()
    told = json.loads(cli(me, "inspect", "--json", run["id"]).stdout)
    assert told["policy"] == {"fs": {"write": ["."]}, "env": {"set": {"TOKEN": None}}} and str(process.pid) in text
    assert "hunter2" not in text + json.dumps(told) + (place(me) / f"{run['id']}.run").read_text()
    assert until(lambda: cli(me, "logs", run["id"]).stdout == b"out\nerr\n")
    assert json.loads(cli(me, "logs", "--json", run["id"]).stdout)["stdout"]["text"] == "out\nerr\n"
    waiting = [me.popen([me.cordon, "wait", *opts, run["id"]], stdout=subprocess.PIPE) for opts in ([], ["--json"])]
    assert until(lambda: all(map(waits, waiting)))
    assert json.loads(cli(me, "kill", "--json", run["id"][:6]).stdout)["pid"] == process.pid
    assert process.wait(ceiling(20)) == 7
    out = [w.communicate(timeout=ceiling(20))[0] for w in waiting]
    assert [w.returncode for w in waiting] == [7, 7], out
    end = json.loads(out[1])
    assert end["status"] == 7 and end["receipt"]["kind"] == "cancelled" and end["id"] == run["id"]
    gone = cli(me, "wait", run["id"])
    assert (gone.returncode, gone.stderr.decode()) == (125, f"cordon: there is no run '{run['id']}' ('cordon ps' lists the runs that last; it may have ended)\n")
    assert not (place(me) / f"{run['id']}.run").exists()


def test_at_once_and_without_a_log(me, start):
    process, run = start("trap '' TERM; while :; do sleep 0.05; done", "--grace", "1h", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    keeps = cli(me, "logs", run["id"])
    assert keeps.returncode == 125 and b"keeps no log (only one whose output goes to a file does" in keeps.stderr
    assert cli(me, "kill", "-s", "TSTP", run["id"]).returncode == 0
    assert cli(me, "kill", "--now", run["id"]).returncode == 0
    assert process.wait(ceiling(20)) == 128 + signal.SIGTERM


def test_a_killed_supervisor_leaves_nothing_that_lies(me, start):
    process, run = start("sleep 60")
    waiting = me.popen([me.cordon, "wait", run["id"]], stderr=subprocess.PIPE)
    assert until(lambda: waits(waiting))
    file = place(me) / f"{run['id']}.run"
    assert file.exists()
    process.send_signal(signal.SIGKILL)
    process.wait(ceiling(20))
    said = waiting.communicate(timeout=ceiling(20))[1].decode()
    assert waiting.returncode == 125 and "has no result: its supervisor was killed" in said, said
    assert not listed(me, "sleep 60 " + run["command"][-1]) and not file.exists()


def about(word, **more):
    return json.dumps({"started_ms": 1, "command": [word], **more}) + "\n"


@pytest.fixture
def holder(me):
    made = []

    def hold(text, kind="plain", name=None):
        path = place(me) / f"{name or secrets.token_hex(4)}.run"
        process = me.popen(["/usr/bin/python3", "-c", HOLDER, path, text, kind], stdout=subprocess.PIPE)
        made.append((process, path))
        assert process.stdout.readline() == b"ready\n"
        return process, path.stem

    yield hold
    for process, path in made:
        process.kill()
        process.communicate()
        path.unlink(missing_ok=True)


def test_files_of_strangers(me, holder):
    """Whatever lies there: nothing hangs, nothing is followed, and no more is believed than has to be."""
    where, word = place(me), secrets.token_hex(6)
    names = [where / f"{secrets.token_hex(4)}.run" for _ in range(7)]
    link, fifo, huge, folder, left, hard, new = names
    link.symlink_to("/etc/passwd")
    os.mkfifo(fifo)
    me.write(huge).open("r+b").truncate(1 << 40)
    folder.mkdir()
    me.write(left, about(word), 0o600)
    me.write(me.work / "other", about(word), 0o600)
    os.link(me.write(where / f"{word}.tmp", about(word)), hard)
    new = new.with_suffix(".new")
    me.write(new, about(word))
    try:
        bad = [holder(text)[1] for text in ("", "no JSON\n", "[1]\n", "[" * 5000 + "\n", about(word)[:-1], "x" * 100000 + "\n")]
        _, odd = holder(about(word, started_ms="x", cwd=7, log_stdout=3, command={"a": [word, "\x1b[31m"]}, policy={"a": {"b": {"c": {"d": [1]}}}}))
        times = {holder(about(word, started_ms=ms))[1]: max(ms, 0) for ms in (-(1 << 63), -1, (1 << 63) - 1)}
        begun = time.monotonic()
        runs = {run["id"]: run for run in json.loads(cli(me, "ps", "--json").stdout) if run.get("type") == "run"}
        assert {name: runs[name]["started_ms"] for name in times} == times and all(runs[name]["uptime_ms"] >= 0 for name in times)
        assert odd in runs and not {*bad, *(name.stem for name in names)} & {*runs}
        assert b"\x1b" not in cli(me, "ps").stdout + cli(me, "inspect", odd).stdout
        assert json.loads(cli(me, "inspect", "--json", odd).stdout)["policy"] is None
        assert b"keeps no log" in cli(me, "logs", odd).stderr
        for name in bad:
            assert b"there is no run" in cli(me, "kill", name).stderr
        assert time.monotonic() - begun < ceiling(20)
        assert not left.exists() and not new.exists()  # nobody has them locked
        assert link.is_symlink() and hard.exists()
    finally:
        folder.rmdir()
        for name in (*names, where / f"{word}.tmp"):
            name.unlink(missing_ok=True)


def test_only_who_holds_the_lock_gets_a_signal(me, holder):
    bystander = me.popen(["sleep", "60"])
    try:
        free, name = holder(about("claims", pid=bystander.pid))
        confined, other = holder(about("claims", pid=bystander.pid), "filter")
        for verb in "kill", "inspect", "logs", "wait":
            done = cli(me, verb, other)
            assert done.returncode == 125 and b"there is no run" in done.stderr, done
        shown = [run["id"] for run in listed(me, "claims")]
        assert name in shown and other not in shown
        assert cli(me, "kill", name).returncode == 0
        assert free.wait(ceiling(10)) == -signal.SIGTERM  # the control: a signal arrives
        assert confined.poll() is None and bystander.poll() is None
        assert b"there is no run" in cli(me, "kill", name).stderr
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_place_that_somebody_else_made_is_not_used(me, kind, request):
    uid = 50000 + secrets.randbelow(9000)
    path, target = pathlib.Path(f"/tmp/cordon-sessions-{uid}"), pathlib.Path(tempfile.mkdtemp(prefix="cordon-runs-", dir="/var/tmp"))
    request.addfinalizer(lambda: (path.unlink() if path.is_symlink() else shutil.rmtree(path), shutil.rmtree(target)))
    os.chown(target, uid, uid)
    if kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir(mode=0o777)
        path.chmod(0o777)
    as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", str(me.cordon)]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/no/such"}
    done = subprocess.run([*as_user, "run", "-v", "--", "sleep", "0.7"], cwd=target, env=env, capture_output=True, timeout=ceiling(60))
    assert done.returncode == 0 and b"'cordon ps' will not list this run" in done.stderr, done
    assert not os.listdir(target) and (kind == "link" or not os.listdir(path))


def test_the_end_stands_behind_the_first_line(me, holder):
    """Who changes that line later cannot put an end into it."""
    process, name = holder(about("begins"))
    waiting = me.popen([me.cordon, "wait", name], stderr=subprocess.PIPE)
    assert until(lambda: waits(waiting))
    with open(place(me) / f"{name}.run", "r+b") as file:
        file.write(b'{}\n{"status":0}\n')
    process.kill()
    error = waiting.communicate(timeout=ceiling(20))[1]
    assert waiting.returncode == 125 and b"has no result" in error, (waiting.returncode, error)
