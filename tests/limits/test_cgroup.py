# SPDX-License-Identifier: Apache-2.0
"""A delegated control group (version 2) holds the limits of the tree, exactly.

Whether the caller has one is found out here, by the kernel's rules and without asking Cordon. Where
there is none, what needs one is skipped, and the rest checks that the receipt does not claim it:
`make test-kernels` has guests of both sorts.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import ceiling, rounds

MIB = 1 << 20
TIME = ["-t", f"{ceiling(100):.0f}s"]

WRITERS = """
import os, sys, time
n, mib = int(sys.argv[1]), int(sys.argv[2])
for i in range(n):
    if os.fork() == 0:
        keep = []
        for _ in range(mib):
            keep.append(bytearray(os.urandom(4096) * 256))
        time.sleep(0.2)
        os._exit(0)
ok = all(os.wait()[1] == 0 for _ in range(n))
print("all written" if ok else "a child was killed")
"""

BURN = """
import os, sys, time
n, seconds = int(sys.argv[1]), float(sys.argv[2])
end = time.monotonic() + seconds
for _ in range(n - 1):
    if os.fork() == 0:
        os.setsid()
        break
while time.monotonic() < end:
    pass
"""

FORKS = """
import os, sys, errno
made, refused = 0, 0
for _ in range(int(sys.argv[1])):
    try:
        pid = os.fork()
    except OSError as e:
        assert e.errno == errno.EAGAIN, e
        refused += 1
        continue
    if pid == 0:
        if sys.argv[2] == "stay":
            import signal
            signal.pause()
        os._exit(0)
    made += 1
    if sys.argv[2] != "stay":
        os.waitpid(pid, 0)
print(made, refused)
"""


def words(path):
    try:
        return pathlib.Path(path).read_text().split()
    except OSError:
        return []


def is_marked(path):
    for name in ("trusted.delegate", "user.delegate"):
        try:
            if os.getxattr(path, name) == b"1":
                return True
        except OSError:
            pass
    return False


def delegated(me):
    """The directory in which this caller may make groups, or None."""
    own = [s[3:].strip() for s in open("/proc/self/cgroup") if s.startswith("0::/")]
    mounts = [s.split()[1] for s in open("/proc/mounts") if s.split()[2] == "cgroup2"]
    if not own or not mounts or not os.path.isdir(mounts[0] + own[0]):
        return None
    top = pathlib.Path(mounts[0])
    path, found, marked = top / own[0].strip("/"), None, False
    while path != top and path.stat().st_uid == me.uid:
        marked = marked or is_marked(path)
        if not found and {"memory", "pids"} <= set(words(path / "cgroup.subtree_control")):
            found = path
        path = path.parent
    return found if me.uid != 0 or marked else None


@pytest.fixture
def home(me):
    path = delegated(me)
    if not path:
        pytest.skip(f"{me.name} has no delegated control group here")
    before = groups(path)
    yield path
    assert groups(path) == before, "a control group was left behind"


def groups(path):
    return sorted(p.name for p in path.iterdir() if re.fullmatch(r"cordon-\d+-[0-9a-f]+", p.name))


class Observer:
    """The highest use of memory of any of our groups, as the host sees it."""

    def __init__(self, path):
        self.path, self.highest, self.over = path, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.is_set():
            for name in groups(self.path):
                now = words(self.path / name / "memory.current")
                self.highest = max(self.highest, int(now[0]) if now else 0)
            time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.over.set()
        self.thread.join()


def receipt(me, opts, cmd, level=None, **kw):
    return me.receipt(TIME + opts, cmd, level, timeout=300, **kw)


def python(script, *args):
    return ["/usr/bin/python3", "-c", script, *map(str, args)]


def assert_by_cgroup(got, *limits):
    assert "cgroup" in got["isolation"]["layers"], got
    assert "cgroup" not in got["isolation"]["missing"], got
    for limit in limits:
        assert got["isolation"]["limits"][limit] == "cgroup", got


def denials(got, what):
    return [d for d in got["denials"] if d["what"] == what]


# --- what is said ---------------------------------------------------------------------------------


def test_check(me):
    done = me.outside([me.cordon, "check", "--json"], timeout=300)
    line = next(x for x in json.loads(done.stdout)["layers"] if x["name"] == "cgroup")
    path = delegated(me)
    assert line["state"] == ("yes" if path else "no"), line
    assert (str(path) in line["detail"]) if path else line["remedy"], line


def test_the_receipt_tells_which(me, level):
    got = receipt(me, ["-m", "64M", "--cpus", "1.5", "--cpu-time", "50s"], ["/bin/true"], level)
    path = delegated(me)
    by = "cgroup" if path else "watch"
    limits = got["isolation"]["limits"]
    assert got["kind"] == "exited", got
    assert limits["memory"] == limits["cpu_time"] == by, got
    assert ("cgroup" in got["isolation"]["layers"]) == bool(path), got


def test_check_and_the_receipt_agree(me, level):
    """A run that could use a group lacks it exactly where there is none to be had; one without limits never does."""
    told = json.loads(me.outside([me.cordon, "check", "--json"], timeout=300).stdout)
    lacks = {None: False, "-m": not delegated(me), "--cpu-time": not delegated(me)}
    for option, is_missing in lacks.items():
        opts = {None: [], "-m": ["-m", "64M"], "--cpu-time": ["--cpu-time", "50s"]}[option]
        isolation = receipt(me, opts, ["/bin/true"], level)["isolation"]
        assert ("cgroup" in isolation["missing"]) == is_missing, (option, isolation)
        assert ("cgroup" in isolation["layers"]) == (bool(opts) and not is_missing), (option, isolation)
    assert ("cgroup" in told["missing"][level]) == lacks["-m"], told


def test_no_room_for_a_group(me, home):
    """What is delegated is of no use if nothing can be made in it: no line says that it were."""
    limit = home / "cgroup.max.descendants"
    before = limit.read_text()
    me.outside(["sh", "-c", f"echo 0 >{limit}"], timeout=300, check=True)
    try:
        told = json.loads(me.outside([me.cordon, "check", "--json"], timeout=300).stdout)
        got = receipt(me, ["-m", "64M"], ["/bin/true"], "namespaces")
        required = me.run(["--require", "cgroup"], ["/bin/echo", "ran"], "namespaces", timeout=300)
    finally:
        me.outside(["sh", "-c", f"echo {before.strip()} >{limit}"], timeout=300, check=True)
    line = next(x for x in told["layers"] if x["name"] == "cgroup")
    assert line["state"] == "no" and "descendants" in line["remedy"], line
    assert "cgroup" in told["missing"]["namespaces"] and "cgroup" in got["isolation"]["missing"], (told, got)
    assert (required.returncode, required.stdout) == (125, b""), required


def test_required(me, level):
    done = me.run(["--require", "cgroup"], ["/bin/echo", "ran"], level, timeout=300)
    if delegated(me):
        assert (done.returncode, done.stdout) == (0, b"ran\n"), done
    else:
        assert (done.returncode, done.stdout) == (125, b""), done
        assert b"cgroup" in done.stderr, done


def test_not_for_nothing(me, home):
    got = receipt(me, ["-P", "20"], ["/bin/true"], "namespaces")
    assert "cgroup" not in got["isolation"]["layers"], got


def test_no_grant_reaches_it(me, level, home):
    """A grant to write to the control groups would be one to write limits."""
    for grant in ("/sys/fs/cgroup", home):
        done = me.run(["-m", "64M", "-w", grant], ["/bin/true"], level, timeout=300)
        assert done.returncode == 125, done


# --- memory ---------------------------------------------------------------------------------------


def test_memory_is_exact(me, level, home):
    limit = 96 * MIB
    with Observer(home) as seen:
        got = receipt(me, ["-m", "96M", "-P", "50"], python(WRITERS, 4, 200), level)
    assert (got["kind"], got["status"], got["signal"]) == ("memory", 137, signal.SIGKILL), got
    assert_by_cgroup(got, "memory", "procs")
    assert denials(got, "memory") == [
        {"what": "memory", "target": "96M", "rule": "limits.memory", "fix": "-m 192M", "how": "enforced"}
    ], got
    assert got["stdout"] == "", got
    assert limit // 2 < seen.highest <= limit, seen.highest
    assert got["usage"]["max_memory_bytes"] <= limit, got
    assert got["usage"]["cpu_user_ms"] > 0, got


def test_memory_below_the_limit(me, level, home):
    got = receipt(me, ["-m", "128M"], python(WRITERS, 4, 10), level)
    assert (got["kind"], got["exit_code"], got["stdout"]) == ("exited", 0, "all written\n"), got
    assert got["denials"] == [], got
    assert 40 * MIB < got["usage"]["max_memory_bytes"] < 128 * MIB, got


def test_files_that_were_read_are_no_use_of_memory(me, level, home):
    big = me.work / "big"
    with open(big, "wb") as f:
        for _ in range(160):
            f.write(os.urandom(MIB))
    me.own(big)
    os.sync()
    if os.geteuid() == 0:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")
    got = receipt(me, ["-m", "48M", "-r", big], ["/usr/bin/sum", str(big)], level)
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got["kind"]
    assert got["usage"]["max_memory_bytes"] < 40 * MIB, got["usage"]


def test_a_command_that_looks_away(me, level, home):
    """Only a child is over the limit, and the command ends with 0 by itself."""
    script = 'python3 -c "x = bytearray(200 << 20)" >/dev/null 2>&1; exit 0'
    got = receipt(me, ["-m", "64M"], ["/bin/sh", "-c", script], level)
    assert (got["kind"], got["status"]) == ("memory", 137), got


def test_a_limit_too_small_for_anything(me, level, home):
    got = receipt(me, ["-m", "1M"], python("pass"), level)
    assert got["kind"] in ("memory", "sandbox_error"), got
    assert got["status"] in (125, 137), got


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [2, 10])
def test_procs_are_exact(me, level, home, allowed):
    opts = ["-m", "512M", "-P", str(allowed)]
    got = receipt(me, opts, python(FORKS, 30, "stay"), level)
    made = allowed - 1
    assert got["stdout"] == f"{made} {30 - made}\n", got
    assert got["kind"] == "exited", got
    assert_by_cgroup(got, "procs")
    assert len(denials(got, "procs")) == 1, got
    assert got["usage"]["procs_peak"] == allowed, got


def test_many_short_lived_ones(me, level, home):
    got = receipt(me, ["-m", "512M", "-P", "4"], python(FORKS, 300, "go"), level)
    assert got["stdout"] == "300 0\n", got
    assert denials(got, "procs") == [], got


# --- CPU ------------------------------------------------------------------------------------------


def test_share(me, level, home):
    got = receipt(me, ["--cpus", "0.5"], python(BURN, 3, 3), level)
    used = got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]
    assert got["kind"] == "exited", got
    assert_by_cgroup(got, "cpu")
    assert 0.4 < used / got["run_ms"] < 0.6, got


def test_a_tiny_share_still_ends_in_time(me, level, home):
    start = time.monotonic()
    got = me.receipt(
        ["--cpus", "0.02", "-t", "2s", "--grace", "0s"], python(BURN, 4, 200), level, timeout=300
    )
    assert got["kind"] == "timeout", got
    assert time.monotonic() - start < 60, got


def test_cpu_time(me, level, home):
    got = receipt(me, ["--cpu-time", "1s"], python(BURN, 3, 90), level)
    used = got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]
    assert (got["kind"], got["status"]) == ("cpu_time", 124), got
    assert_by_cgroup(got, "cpu_time")
    assert 950 < used < 1800, got


def test_cpu_time_of_children_nobody_waits_for(me, level, home):
    script = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"""
    got = receipt(me, ["--cpu-time", "1s", "-P", "50"], python(script), level)
    used = got["usage"]["cpu_user_ms"] + got["usage"]["cpu_system_ms"]
    assert got["kind"] == "cpu_time", got
    assert 950 < used < 1800, got


# --- what is left ---------------------------------------------------------------------------------


def test_nothing_is_left(me, level, home):
    for i in range(rounds(50)):
        done = me.run([*TIME, "-m", "64M"], ["/bin/sh", "-c", f"exit {i}"], level, timeout=300)
        assert done.returncode == i, done
    assert groups(home) == []


@pytest.mark.parametrize("command", ["/bin/sh", "/nonexistent/program", "/etc/passwd"])
def test_nothing_is_left_of_what_failed(me, level, home, command):
    """The fixture looks. The second is refused before init has a plan, the third by init."""
    done = me.run([*TIME, "-m", "64M", "--read", "/etc/passwd"], [command], level, timeout=300)
    assert done.returncode == {"/bin/sh": 0, "/nonexistent/program": 127}.get(command, 126), done


def test_many_at_once(me, level, home):
    argv = me.argv([*TIME, "-m", "64M", "--json"], ["/bin/sleep", "3"], level)
    running = [me.popen(argv, stdout=subprocess.PIPE) for _ in range(20)]
    for one in running:
        got = json.loads(one.communicate(timeout=300)[0])
        assert got["kind"] == "exited", got
        assert_by_cgroup(got, "memory")


def wait_until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def test_a_killed_supervisor(me, level, home):
    """It leaves at most an empty directory, which the next run removes."""
    argv = me.argv([*TIME, "-m", "64M"], ["/bin/sleep", "100"], level)
    for _ in range(3):
        one = me.popen(argv)
        wait_until(lambda: any(len(words(home / g / "cgroup.procs")) >= 2 for g in groups(home)))
        one.kill()
        one.wait()
        wait_until(
            lambda: all("0" == words(home / g / "cgroup.events")[1] for g in groups(home))
        )
    assert me.run(["-m", "64M"], ["/bin/true"], level, timeout=300).returncode == 0
    assert groups(home) == []


def test_others_groups_are_left_alone(me, home):
    """A sweep removes groups that are named as ours are and not in use, and nothing else."""
    argv = me.argv([*TIME, "-m", "64M", "--json"], ["/bin/cat"])
    one = me.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_until(lambda: any(words(home / g / "cgroup.procs") for g in groups(home)))
    keep = [home / "cordon-mine", home / "cordon-1-xyz"]
    gone = home / "cordon-999999-0123456789abcdef"
    for path in [*keep, gone]:
        me.outside(["mkdir", path], check=True)
    try:
        assert me.run(["-m", "64M"], ["/bin/true"], timeout=300).returncode == 0
        assert [p.exists() for p in [*keep, gone]] == [True, True, False]
    finally:
        for path in keep:
            path.rmdir()
    assert json.loads(one.communicate(b"", timeout=300)[0])["kind"] == "exited"


def test_a_killed_tree_at_level_landlock(me, home):
    """Cancelled twice, by signal and by force; the private directory goes, too."""
    before = set(pathlib.Path("/tmp").glob("cordon-????????????????"))
    argv = me.argv([*TIME, "-m", "64M"], python(FORKS, 20, "stay"), "landlock")
    one = me.popen(argv, stdout=subprocess.DEVNULL)
    wait_until(lambda: any(len(words(home / g / "cgroup.procs")) >= 3 for g in groups(home)))
    one.send_signal(signal.SIGTERM)
    assert one.wait(timeout=300) == 128 + signal.SIGTERM
    assert set(pathlib.Path("/tmp").glob("cordon-????????????????")) <= before


def test_root_without_namespaces_can_be_counted(me, home):
    if me.uid != 0:
        pytest.skip("what only root's runs lack without a control group")
    got = receipt(me, ["-P", "5"], python(FORKS, 10, "stay"), "landlock")
    assert got["stdout"] == "4 6\n", got
    assert_by_cgroup(got, "procs")
