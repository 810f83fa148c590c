# SPDX-License-Identifier: Apache-2.0
"""The tree dies with the run and with the supervisor, whatever it tries."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import ceiling, settles, survivors

# How long a tree goes on by itself: longer than any deadline here.
LIFE = str(int(ceiling(20)))
# So that a run that hangs fails its test; no run here needs it.
LIMIT = f"{int(ceiling(30))}s"


def heartbeat(me):
    path = me.work / "heartbeat"
    return path.stat().st_size if path.exists() else 0


def test_tree_ends_with_the_command(me, level, probes):
    """Daemons in sessions of their own, a stopped one, and a chain of forks: gone on exit."""
    probe = probes["tree"]
    started = time.monotonic()
    done = me.run(["-r", probe, "-w", me.work], [probe, LIFE, "exit"], level)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < ceiling(2)
    size = heartbeat(me)
    assert size > 0
    time.sleep(0.15)
    assert heartbeat(me) == size, "a daemon still beats"
    assert survivors(0.3) == []


def test_tree_control(me, probes):
    """The same tree without a sandbox does outlive its first process."""
    probe = probes["tree"]
    me.outside([probe, "1", "exit"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = heartbeat(me)
    time.sleep(0.15)
    assert heartbeat(me) > size
    assert survivors(0.0) != []


@pytest.mark.parametrize("how", ["TERM", "INT", "HUP"])
def test_tree_ends_with_a_signal_to_cordon(me, level, probes, how):
    probe = probes["tree"]
    proc = me.popen(
        me.argv(["-r", probe, "-w", me.work], [probe, LIFE], level), stdin=subprocess.DEVNULL
    )
    end = time.monotonic() + ceiling(5)
    while not heartbeat(me) and time.monotonic() < end:
        time.sleep(0.01)
    started = time.monotonic()
    proc.send_signal(getattr(signal, "SIG" + how))
    time.sleep(0.1)
    if proc.poll() is None:  # the tree ignores it, so a second one ends it by force
        proc.send_signal(getattr(signal, "SIG" + how))
    time.sleep(0.1)
    if proc.poll() is None:
        proc.send_signal(signal.SIGTERM)
    code = proc.wait(timeout=15)
    assert time.monotonic() - started < ceiling(12)
    assert code in (128 + getattr(signal, "SIG" + how), 128 + signal.SIGTERM, 137), code
    assert survivors(0.5) == []


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [40])
def test_kill_9_at_any_moment(me, level, probes, rounds):
    """cordon is killed at a random moment, set-up included: nothing of its tree lives 500 ms later. (test_kills.py makes
    many more kills, of a guest that does more to stay.)"""
    probe = probes["tree"]
    random.seed(20240117)
    saw_running = 0
    for turn in range(rounds):
        proc = me.popen(
            me.argv(["-r", probe, "-w", me.work], [probe, LIFE], level),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(
            random.choice([0, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.03])
            * ceiling(0.5 + random.random())
        )
        proc.kill()
        proc.wait()
        left = survivors(0.5)
        assert left == [], f"round {turn}: {left}"
        saw_running += heartbeat(me) > 0
    assert saw_running > 0, "the moments never reached the running command"
    size = heartbeat(me)
    time.sleep(0.1)
    assert heartbeat(me) == size
    litter = [p.name for p in me.work.iterdir() if p.name != "heartbeat"]
    assert litter == [], f"left in the write grant: {litter}"


# One in the caller's group, one in a session of its own (which says that it is), one that the shell waits for.
GROUP = "sleep 77 & setsid sh -c 'echo up $TMPDIR; exec sleep 77' & sleep 77"


def killed_group(me, argv):
    """Starts argv in a session of its own and kills that whole process group; the words it said."""
    proc = me.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    words = proc.stdout.readline().split()
    assert words[:1] == [b"up"] and proc.poll() is None
    # The run's private directory exists as long as it runs.
    private = [pathlib.Path(word.decode()) for word in words[1:]]
    assert all(path.is_dir() for path in private)
    os.killpg(proc.pid, signal.SIGKILL)
    proc.wait(timeout=10)
    proc.stdout.close()
    return private


def test_the_whole_group_is_killed(me, level):
    """SIGKILL to everything that the caller's terminal or service manager can name."""
    private = killed_group(me, me.argv([], ["sh", "-c", GROUP], level))
    assert len(private) == (level == "landlock"), "only level landlock needs a directory on the host"
    assert survivors(2.0) == []
    assert settles(lambda: [path for path in private if path.exists()], 2.0) == []


def test_the_whole_group_is_killed_control(me):
    """Without a sandbox the one in another session stays."""
    killed_group(me, ["sh", "-c", GROUP])
    left = survivors(0.2)
    assert len(left) == 1 and "77" in left[0], left


def test_init_is_immune(me):
    """All 64 signals to PID 1 from inside, and the run goes on to its own end."""
    script = """
import os
for sig in range(1, 65):
    try: os.kill(1, sig)
    except OSError: pass
print(os.getpid(), 'alive'); raise SystemExit(7)
"""
    done = me.run([], ["python3", "-c", script], "namespaces")
    assert done.returncode == 7 and b"alive" in done.stdout, done


def test_supervisor_is_out_of_reach(me, level):
    """The parent, cordon, all its relatives: none takes a signal from inside."""
    script = """
import os, sys
for pid in [os.getppid()] + [int(p) for p in sys.argv[1:]]:
    for sig in (15, 9, 19):
        try: os.kill(pid, sig)
        except OSError: pass
print('alive')
"""
    proc = me.popen(
        ["sh", "-c", 'exec "$@" $$', "sh", *me.argv(["-t", LIMIT], ["python3", "-c", script], level)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = proc.communicate(timeout=15)
    assert (proc.returncode, out) == (0, b"alive\n")


TRICKS = {
    "sleep": "sleep 30",
    "ignores": "trap '' TERM INT HUP; while :; do sleep 0.1; done",
    "stopped": "kill -STOP $$",
    "session": "setsid sh -c 'trap \"\" TERM; sleep 30' & sleep 30",
    "silent-daemon": "(setsid sleep 30 >/dev/null 2>&1 </dev/null &) ; sleep 30",
    "spin": "while :; do :; done",
    "fork-chain": "f() { (f) & }; i=0; while [ $i -lt 10000 ]; do (sleep 0.01 &); i=$((i+1)); done",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_time_limit(me, level, trick):
    started = time.monotonic()
    got = me.receipt(["-t", "300ms"], ["bash", "-c", TRICKS[trick]], level)
    took = time.monotonic() - started
    assert (got["kind"], got["status"]) == ("timeout", 124), got
    assert 0.27 <= took < ceiling(1.6), took


def test_reaping(me):
    """Thousands of orphans: PID 1 reaps them, the process table does not fill."""
    script = """
import os, time
for _ in range(800):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
time.sleep(0.2)
z = 0
for p in os.listdir('/proc'):
    if p.isdigit():
        try: z += open(f'/proc/{p}/stat').read().rpartition(')')[2].split()[0] == 'Z'
        except OSError: pass
print(z)
"""
    done = me.run(["-t", LIMIT], ["python3", "-c", script], "namespaces")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100


def test_process_limit(me, level):
    """A bounded fork bomb stops at the limit."""
    script = """
import os
n = 0
wait, end = os.pipe()
for _ in range(400):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        os.close(end); os.read(wait, 1); os._exit(0)
    n += 1
print(n)
"""
    done = me.run(["-P", "32", "-t", LIMIT], ["python3", "-c", script], level)
    n = int(done.stdout or -1)
    # At level landlock all tasks of the user count.
    assert (0 if level == "landlock" else 20) <= n <= 32, done


def machine_tasks():
    return int(pathlib.Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


@pytest.mark.parametrize("grants", ["read", "write"])
def test_a_chain_is_outrun(me, level, probes, grants):
    """Tasks that make their successor and are gone, faster than they can be listed: the end comes for
    them as well, and they do not fill the machine's table. With a write grant root's run keeps uid 0
    at level landlock, whose tasks the kernel does not count: there init counts, which takes time, and
    ends the run for them. How many there are by then depends on the machine, so only the time counts."""
    probe = probes["chain"]
    opts = ["--json", "-t", "300ms", "--grace", "0", "-r", probe, *(["-w", me.work] if grants == "write" else [])]
    for chains in 1, 60:
        before = most = machine_tasks()
        run = me.popen(me.argv(opts, [probe, chains, LIFE, "0"], level), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        while run.poll() is None:
            most = max(most, machine_tasks())
            time.sleep(0.005)
        got = json.loads(run.communicate()[0])
        as_root = (me.name, level, grants) == ("root", "landlock", "write")
        assert got["kind"] in (("timeout", "procs") if as_root else ("timeout",)), got
        assert got["duration_ms"] < ceiling(5 if as_root else 15) * 1000, got
        assert as_root or most - before < 5000, f"{most - before} tasks at once"
        assert survivors(0.5) == []


def test_a_chain_control(me, probes):
    """Outside it goes on without the process that began it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert me.outside([probes["chain"], "4", "2", "20000", "exit"], **quiet).returncode == 0
    assert survivors(0.0) != []


def test_open_files_limit(me, level):
    script = "import os\nn=0\ntry:\n while n<5000: os.open('/dev/null',0); n+=1\nexcept OSError: pass\nprint(n)"
    got = int(me.run(["--open-files", "64"], ["python3", "-c", script], level).stdout)
    assert 50 <= got <= 64
    script = "ulimit -n 4096 2>/dev/null; ulimit -n"
    assert int(me.run(["--open-files", "64"], ["sh", "-c", script], level).stdout) == 64


def test_caller_that_dies_between(me, level, probes):
    """Not cordon but its parent dies: cordon goes on, being its own supervisor, and can be ended."""
    probe = probes["tree"]
    script = '"$@" & exit 0'
    argv = me.argv(["-t", "400ms", "--grace", "100ms", "-r", probe, "-w", me.work], [probe, LIFE], level)
    done = me.outside(["sh", "-c", script, "sh", *argv], stderr=subprocess.DEVNULL)
    assert done.returncode == 0
    assert survivors(3.0) == []


def test_no_waiting_for_the_dead(me, level):
    """A run of `true` with a thousand zombies' worth of output and no reader of stderr."""
    done = me.run(["-t", LIMIT], ["sh", "-c", "head -c 2000000 /dev/zero >&2; echo ok"], level)
    assert done.stdout == b"ok\n" and len(done.stderr) == 2000000
