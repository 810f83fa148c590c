# SPDX-License-Identifier: Apache-2.0
"""Every run ends: whatever the command leaves behind, whoever holds its streams, and however slowly
they are read. CORDON_TEST_RUNS sets how many runs by chance are made (each caller's share)."""

import concurrent.futures
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import ceiling, rounds, settles, survivors

RUNS = int(os.environ.get("CORDON_TEST_RUNS") or rounds(80))
SEED = int(os.environ.get("CORDON_TEST_SEED", str(random.randrange(1 << 32))))
BOUND = ceiling(60)  # what ends at all does so in a second or two

# --- someone outside has the other end -------------------------------------------------------------

FULL = """
import os, time
open('up', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
os.write(1, bytes(65536))
"""


def guest_of(mark, caller):
    """The process with this text as its last argument, which Cordon itself has, too."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[-2:-1] == [mark.encode()] and int(path.parent.name) != caller:
            return path.parent
    raise AssertionError("the command is not running")


@pytest.mark.parametrize("opts", [[], ["--json"]], ids=["pipe", "capture"])
def test_a_writer_outside_the_tree_does_not_keep_a_run(me, opts):
    """As much output as is moved in one turn, while another process has the pipe open."""
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    command = ["python3", "-I", "-c", FULL, mark]
    proc = me.popen(
        me.argv([*opts, "-w", me.work], command, "namespaces"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    held = None
    try:
        assert not settles(lambda: not (me.work / "up").exists(), BOUND)
        guest = guest_of(mark, proc.pid)
        held = os.open(guest / "fd" / "1", os.O_WRONLY)
        os.kill(proc.pid, signal.SIGSTOP)
        me.write(me.work / "go")
        assert not settles((guest / "exe").exists, BOUND)
        os.kill(proc.pid, signal.SIGCONT)
        out, _ = proc.communicate(timeout=BOUND)
        assert proc.returncode == 0 and len(out) >= 65536
    finally:
        proc.kill()
        proc.wait()
        if held is not None:
            os.close(held)


# --- runs by chance --------------------------------------------------------------------------------

COMMANDS = {
    "outlived": "sleep 300 & sleep 300 & exit 3",
    "held": "(sleep 300; echo late) & echo now",
    "adopted": "(setsid sh -c 'sleep 300 & sleep 300' &) ; exit 4",
    "suicide": "kill -9 $$",
    "massacre": "sleep 300 & kill -9 -1; kill -9 $$",
    "matricide": "for s in TERM HUP INT KILL STOP; do kill -$s 1; done; exit 5",
    "closed": "exec <&- >&- 2>&-; sleep 0.02; exit 6",
    "large": "head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2",
    "one turn": "head -c 65536 /dev/zero",
    "one turn at once": "exec python3 -Ic 'import os; os.write(1, bytes(65536))'",
    "stopped": "sh -c 'kill -STOP $$' & echo; exit 7",
    "input": "head -c 10 >/dev/null",
    "flood": "yes & sleep 0.05; exit 8",
    "forks": "for i in 1 2 3 4 5 6 7 8; do (sleep 0.0$i; echo $i) & done; exit 9",
    "deaf": "trap '' TERM INT HUP; sleep 300 & sleep 300",
    "nothing": "exit 0",
}
OPTIONS = [[], ["-w", "."], ["-m", "64M"], ["-P", "16"], ["--json"], ["--json", "--max-output", "64K"], ["--usage"],
           ["--publish", "0:8000/tcp"], ["--cpus", "0.5"], ["--receipt", "receipt"], ["--workspace", "."]]  # fmt: skip
TIMED = ["-t", "500ms", "--grace", "100ms"]


def read_all(proc):
    proc.stdout.read()


def read_nothing(proc):
    """The run's time ends this, too."""


def read_a_little(proc):
    proc.stdout.read(10)
    proc.stdout.close()


def close(proc):
    proc.stdout.close()


def read_late(proc):
    time.sleep(0.3)
    proc.stdout.read()


READERS = [read_all, read_all, read_nothing, read_a_little, close, read_late]


def one_run(me, number):
    """A description of what did not end, or None."""
    chance = random.Random(f"{SEED}-{number}")
    name, reader = chance.choice(sorted(COMMANDS)), chance.choice(READERS)
    level, opts = chance.choice(["namespaces", "namespaces", "landlock"]), chance.choice(OPTIONS)
    if opts and opts[0] in ("--publish", "--workspace"):
        level = "namespaces"
    if reader is read_nothing or name in ("deaf", "input") or chance.random() < 0.3:
        opts = opts + TIMED
    argv = me.argv(opts, ["sh", "-c", COMMANDS[name]], level)
    master = slave = None
    if "--json" not in opts and chance.random() < 0.2:
        argv.insert(2, "-i")
        master, slave = os.openpty()
    work = me.mkdir(f"run-{number}")
    proc = me.popen(
        argv,
        cwd=str(work),
        stdin=slave if slave is not None else chance.choice([subprocess.DEVNULL, subprocess.PIPE]),
        stdout=subprocess.PIPE if slave is None else slave,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if slave is None:
            reader(proc)
        else:
            os.close(slave)
            drain(master, proc)
        proc.wait(BOUND)
    except subprocess.TimeoutExpired:
        return f"{argv} read by {reader.__name__} (seed {SEED}, run {number})"
    finally:
        proc.kill()
        proc.wait()
        for stream in (proc.stdin, proc.stdout):
            if stream:
                stream.close()
        if master is not None:
            os.close(master)
    return None


def drain(master, proc):
    os.set_blocking(master, False)
    end = time.monotonic() + BOUND
    while proc.poll() is None and time.monotonic() < end:
        try:
            os.read(master, 65536)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return


@pytest.mark.slow
def test_runs_by_chance_end(me):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        late = [text for text in pool.map(lambda i: one_run(me, i), range(RUNS)) if text]
    assert late == []
    assert survivors(5.0) == []
