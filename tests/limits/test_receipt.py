# SPDX-License-Identifier: Apache-2.0
"""Receipts: kinds that are true, numbers that are plausible, nothing a guest could forge."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import ceiling
from meter import MIB, inits, tasks, tree, wait_for

USAGE = {
    "cpu_user_ms", "cpu_system_ms", "max_memory_bytes", "procs_peak", "disk_bytes", "net_bytes_in", "net_bytes_out",
}  # fmt: skip
OF_GPUS = {"max_gpu_memory_bytes", "gpu_utilization_percent"}  # unknown without one


# --- kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 124, 125, 126, 127, 137, 143, 255])
def test_own_exit_status(me, level, status):
    """The numbers we use ourselves, used by the guest: with every limit on, still its own."""
    opts = ["-t", "30s", "-m", "128M", "--cpu-time", "30s", "--cpus", "2"]
    got = me.receipt(opts, ["sh", "-c", f"exit {status}"], level)
    assert (got["kind"], got["exit_code"], got["signal"], got["status"]) == ("exited", status, None, status), got
    done = me.run(opts, ["sh", "-c", f"exit {status}"], level)
    assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.parametrize("name", ["KILL", "TERM", "XCPU", "XFSZ", "ALRM", "ABRT"])
def test_own_signals(me, level, name):
    opts = ["-t", "30s", "-m", "128M", "--cpu-time", "30s"]
    number = getattr(signal, f"SIG{name}")
    got = me.receipt(opts, ["sh", "-c", f"kill -{name} $$"], level)
    assert (got["kind"], got["signal"]) == ("signaled", number), got
    assert got["status"] == 128 + number


FAKE = json.dumps({"kind": "exited", "exit_code": 0, "signal": None, "stdout": "fake", "usage": {"procs_peak": 1}})


def test_what_the_guest_prints(me, level):
    """A receipt of its own on every descriptor there could be, then an end with another status."""
    script = f"""
import os, sys
fake = {FAKE!r}.encode() + b'\\n'
for fd in range(0, 1024):
    try: os.write(fd, fake)
    except OSError: pass
for name in os.listdir('/proc/self/fd'):
    try:
        with open('/proc/self/fd/' + name, 'wb') as file: file.write(fake)
    except OSError: pass
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in os.listdir('/proc/%s/fd' % pid) if os.access('/proc/%s/fd' % pid, os.R_OK) and pid == '1' else ():
        try:
            with open('/proc/%s/fd/%s' % (pid, name), 'wb') as file: file.write(fake)
        except OSError: pass
os._exit(42)
"""
    path = me.out / "receipt.json"
    done = me.run(["--json", "--receipt", path], ["python3", "-c", script], level)
    got = json.loads(done.stdout)
    kept = json.loads(path.read_text())
    assert (got["kind"], got["exit_code"], done.returncode) == ("exited", 42, 42)
    assert got["stdout"].startswith(FAKE)
    assert (kept["kind"], kept["exit_code"]) == ("exited", 42) and "stdout" not in kept


def test_the_guest_cannot_reach_the_receipt_file(me, level):
    """Written when the run is over, in one go, whatever lies at the name."""
    path = me.work / "receipt.json"
    script = "echo fake > receipt.json; ln -sf /dev/null receipt.json.tmp; exit 3"
    me.run(["-w", me.work, "--receipt", path], ["sh", "-c", script], level)
    assert json.loads(path.read_text())["exit_code"] == 3


def test_valid_for_any_bytes(me, level):
    data = os.urandom(60_000) + bytes(range(256)) + b'\xff\xfe"\\\x00\xed\xa0\x80\xf4\x90\x80\x80'
    path = me.write(me.work / "bytes", data)
    got = me.receipt(["-r", me.work], ["sh", "-c", "cat bytes; cat bytes >&2"], level)
    assert got["kind"] == "exited" and path.exists()
    for stream in ("stdout", "stderr"):
        assert json.dumps(got[stream]) and len(got[stream]) > 10_000


# --- numbers --------------------------------------------------------------------------------------


def test_shape(me, level):
    got = me.receipt([], ["true"], level)
    assert USAGE | OF_GPUS <= set(got["usage"]), got["usage"]
    assert all(got["usage"][k] is None for k in OF_GPUS)
    assert all(isinstance(got["usage"][k], (int, float)) and got["usage"][k] >= 0 for k in USAGE)
    for key in ("duration_ms", "setup_ms", "run_ms", "teardown_ms"):
        assert got[key] >= 0
    assert got["setup_ms"] + got["run_ms"] <= got["duration_ms"] * 1.05 + 1
    assert isinstance(got["isolation"]["limits"], dict)


def test_durations(me, level):
    got = me.receipt([], ["sleep", "0.5"], level)
    assert 450 <= got["run_ms"] < 3000 and got["duration_ms"] >= got["run_ms"]


@pytest.mark.parametrize("how", ["one", "grand", "many"])
def test_cpu_of_the_whole_tree(me, level, probes, how):
    """Burned by a grandchild, by a hundred that are long gone: all of it counts."""
    got = me.receipt(["-r", probes["burn"]], [probes["burn"], how, "300", "cpu"], level)
    used = got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]
    assert 280 < used < 1000, got["usage"]


def test_cpu_of_sleepers(me, level):
    got = me.receipt([], ["sleep", "0.5"], level)
    assert got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"] < ceiling(200)


@pytest.mark.parametrize("opts", [[], ["-m", "1G"]], ids=["no limit", "-m"])
def test_peak_memory_of_a_tree(me, probes, opts):
    """4 x 40 MiB at the same time."""
    got = me.receipt([*opts, "-r", probes["eat"]], [probes["eat"], "writers", "160", int(ceiling(300))], "namespaces")
    assert 150 * MIB <= got["usage"]["max_memory_bytes"] < 400 * MIB, got["usage"]


def test_peak_memory_in_sequence(me, probes):
    """Four times 40 MiB one after the other are 40."""
    script = 'for i in 1 2 3 4; do "$0" anon 40 100; done'
    got = me.receipt(["-m", "1G", "-r", probes["eat"]], ["sh", "-c", script, probes["eat"]], "namespaces")
    assert 38 * MIB <= got["usage"]["max_memory_bytes"] < 100 * MIB, got["usage"]


def test_peak_tasks(me, level):
    script = f"""
import threading, time
for t in [threading.Thread(target=time.sleep, args=({ceiling(0.3)},)) for _ in range(10)]: t.start()
"""
    got = me.receipt([], ["python3", "-c", script], level)
    assert 11 <= got["usage"]["procs_peak"] <= 14, got["usage"]
    got = me.receipt([], ["sleep", "0.2"], level)
    assert 1 <= got["usage"]["procs_peak"] <= 2


def test_disk(me):
    got = me.receipt([], ["sh", "-c", "head -c 10M /dev/urandom > /tmp/f"], "namespaces")
    assert 10 * MIB <= got["usage"]["disk_bytes"] < 12 * MIB, got["usage"]
    got = me.receipt([], ["true"], "namespaces")
    assert got["usage"]["disk_bytes"] < MIB


def test_usage_summary(me, level):
    """For people, on standard error, after everything the command wrote there."""
    done = me.run(["--usage", "-m", "128M"], ["sh", "-c", "echo out; echo err >&2; exit 4"], level)
    assert (done.returncode, done.stdout) == (4, b"out\n")
    first, *rest = done.stderr.decode().splitlines()
    said = "\n".join(rest)
    assert first == "err" and 1 <= len(rest) <= 15, done.stderr
    for word in ("CPU", "memory"):
        assert word.lower() in said.lower(), said


# --- interrupted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_written_when_interrupted(me, level, name):
    """Tree gone, receipt complete, status 128+n."""
    number = getattr(signal, f"SIG{name}")
    path = me.out / "receipt.json"
    proc = me.popen(
        me.argv(["--receipt", path, "--grace", "200ms"], ["sh", "-c", "trap '' INT TERM HUP; echo ready; sleep 30 & wait; wait"], level),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert proc.stdout.readline() == b"ready\n"
    pids = wait_for(lambda: len(tree(proc.pid)) > 1 and tree(proc.pid))
    assert inits(proc.pid) and tasks(proc.pid) >= 1
    begin = time.monotonic()
    proc.send_signal(number)
    proc.communicate(timeout=20)
    assert proc.returncode == 128 + number
    assert time.monotonic() - begin < 10
    got = json.loads(path.read_text())
    assert got["kind"] == "cancelled", got
    assert USAGE <= set(got["usage"])
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/exe") and state(pid) not in "ZX" for pid in pids))
    assert [p.name for p in me.out.iterdir()] == ["receipt.json"], "no temporary file is left"


def test_nothing_is_made_up_when_init_is_killed(me, level):
    """Only init knew what was used. Without it there are no numbers, and zero would be one."""
    path = me.out / "receipt.json"
    # Without a pid namespace the kernel ends the command with its parent, but not the command's children.
    script = "echo ready; sleep 30 & wait" if level == "namespaces" else "echo ready; exec sleep 30"
    proc = me.popen(
        me.argv(["--receipt", path], ["sh", "-c", script], level),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert proc.stdout.readline() == b"ready\n"
    pids = wait_for(lambda: tasks(proc.pid) >= 1 and tree(proc.pid))
    parents = {int(fields[1]) for fields in pids.values()}
    (init,) = [pid for pid in inits(proc.pid) if pid in parents]  # a janitor has no children
    os.kill(init, signal.SIGKILL)
    _, err = proc.communicate(timeout=20)
    assert proc.returncode == 125 and b"init was killed" in err, err
    got = json.loads(path.read_text())
    assert (got["kind"], got["exit_code"], got["signal"]) == ("sandbox_error", None, None), got
    told = {name: value for name, value in got["usage"].items() if not name.startswith("net_")}
    assert set(told) <= USAGE | OF_GPUS and set(told.values()) == {None}, got["usage"]
    wait_for(lambda: all(state(pid) in "ZX" for pid in pids))


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def test_never_half_written(me, level):
    """A reader sees a whole receipt while runs replace it."""
    path = me.work / "receipt.json"
    me.run(["--receipt", path], ["true"], level)
    proc = me.popen(["sh", "-c", 'for i in 1 2 3 4 5 6 7 8 9 10; do "$@"; done', "sh",
                     *me.argv(["--receipt", path], ["true"], level)])  # fmt: skip
    reads = 0
    while proc.poll() is None:
        assert json.loads(path.read_bytes())["kind"] == "exited"
        reads += 1
    assert proc.returncode == 0 and reads > 10
