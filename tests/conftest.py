# SPDX-License-Identifier: Apache-2.0
"""Harness of the escape and integration suites.

Every test drives the built command from outside and believes what it can see from there: a canary
file, a listener's log, the parent's view of its children. Started as root, the suite runs each test
twice, as root and as an ordinary user; started as a user, only as that user.

Environment: CORDON is the command under test (default build/cordon); CORDON_MUST_WORK=0 lets a test
that this machine cannot carry out skip instead of failing; CORDON_TEST_SLOW multiplies every ceiling
of time, for machines without hardware acceleration; CORDON_TEST_WHO=root or user leaves the other out.
"""

import ctypes
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from differences import kernel_lacks

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROBES = [ROOT / "tests" / suite / "probes" for suite in ("escape", "limits", "net", "workspace")]
MUST_WORK = os.environ.get("CORDON_MUST_WORK", "1") != "0"
IS_ROOT = os.geteuid() == 0
WHO = ["root", "user"] if IS_ROOT else ["user"]
WHO = [who for who in WHO if who in os.environ.get("CORDON_TEST_WHO", "root user").split()]
SLOW = float(os.environ.get("CORDON_TEST_SLOW", "1"))
LEVELS = ["namespaces", "landlock"]
OTHER_UID = 20001  # in no user database: an ordinary user with nothing of its own on the machine
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36


def unavailable(reason):
    """A test that this machine cannot carry out: skipped, or failed where everything must work."""
    if MUST_WORK:
        pytest.fail("cannot be tested here: " + reason)
    pytest.skip(reason)


def needs(*programs):
    """For a test that runs these programs."""
    for program in programs:
        if not shutil.which(program, path=PATH):
            unavailable(f"{program} is not installed")


def ceiling(seconds):
    """How long something may take at most: generous already, and more so on a slow machine."""
    return seconds * SLOW


def rounds(number):
    """How often something is tried that needs chance: fewer times on a slow machine, never just once."""
    return max(3, round(number / SLOW))


def needs_landlock_net():
    """For runs at level landlock with net.allow: Cordon refuses them where Landlock knows no TCP."""
    if kernel_lacks("landlock-tcp"):
        unavailable("net.allow at level landlock needs Landlock ABI 4 (Linux 6.7)")


class Process(subprocess.Popen):
    """A child whose deadlines are ceilings."""

    def wait(self, timeout=None):
        return super().wait(timeout if timeout is None else ceiling(timeout))

    def communicate(self, input=None, timeout=None):
        return super().communicate(input, timeout if timeout is None else ceiling(timeout))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    config.addinivalue_line("markers", "light: a program that `make test` runs, too")
    config.addinivalue_line("markers", "once: long, and the same for every caller: as a user only, unless CORDON_TEST_LONG is 1")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("CORDON_TEST_LONG", "") not in ("", "0"):
        return
    again = [i for i in items if i.get_closest_marker("once") and "[root" in i.name]
    if again:
        config.hook.pytest_deselected(items=again)
        items[:] = [i for i in items if i not in again]


def pytest_sessionstart(session):
    # Orphans of a killed cordon become our children, so a survivor cannot hide from `survivors()`.
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.umask(0o022)
    # nohup ignores hangups, a shell's & interrupts, and every command would do the same.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The settings of the user who runs the tests do not matter.
    for name in [n for n in os.environ if n.startswith(("GIT_", "LC_", "LANGUAGE", "XDG_"))]:
        del os.environ[name]
    os.environ["LANG"] = "C.UTF-8"


def library():
    """The shared library: what was installed, or what was built."""
    for where in (os.environ.get("CORDON_PREFIX"), ROOT / "build/release/src"):
        found = sorted(pathlib.Path(where).glob("**/libcordon.so*")) if where else []
        if found:
            return found[0]
    return unavailable("there is no libcordon.so")


# --- who, at which level -------------------------------------------------------------------------


class Me:
    """One caller (root or a user) with directories of its own."""

    def __init__(self, name, base, cordon):
        self.name = name
        self.switch = name == "user" and IS_ROOT
        self.uid = OTHER_UID if self.switch else os.geteuid()
        self.gid = OTHER_UID if self.switch else os.getegid()
        self.cordon = str(cordon)
        self.base = pathlib.Path(base)
        self.home = self.mkdir("home")
        self.work = self.mkdir("work")  # current directory of runs
        self.out = self.mkdir("outside")  # never granted: canaries live here

    def mkdir(self, name, mode=0o755):
        path = self.base / name
        path.mkdir(parents=True)
        os.chmod(path, mode)
        self.own(path)
        return path

    def own(self, path):
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path

    def write(self, path, data="", mode=0o644):
        path = pathlib.Path(path)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        os.chmod(path, mode)
        self.own(path)
        return path

    def env(self, **more):
        env = {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8"}
        env.update(more)
        return env

    def _popen_args(self, kw):
        env = kw.pop("env", None)
        kw["env"] = self.env(**(env or {}))
        kw.setdefault("cwd", str(self.work))
        if self.switch:
            kw.update(user=self.uid, group=self.gid, extra_groups=kw.pop("groups", []))
        else:
            kw.pop("groups", None)
        return kw

    def popen(self, argv, **kw):
        return Process([str(a) for a in argv], **self._popen_args(kw))

    def outside(self, argv, timeout=60, check=False, **kw):
        """Runs argv as this caller without any sandbox: the positive control."""
        kw.setdefault("stdin", subprocess.DEVNULL if "input" not in kw else None)
        if kw["stdin"] is None:
            del kw["stdin"]
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(
            [str(a) for a in argv], timeout=ceiling(timeout), check=check, **self._popen_args(kw)
        )

    def argv(self, opts, cmd, level=None):
        argv = [self.cordon, "run"]
        if level:
            argv += ["--isolation", level]
        return argv + [str(o) for o in opts] + ["--"] + [str(c) for c in cmd]

    def run(self, opts, cmd, level=None, **kw):
        return self.outside(self.argv(opts, cmd, level), **kw)

    def receipt(self, opts, cmd, level=None, **kw):
        """The run's receipt as a dict; `.status` holds the exit status."""
        done = self.run(["--json", *opts], cmd, level, **kw)
        try:
            got = json.loads(done.stdout)
        except ValueError:
            pytest.fail(f"no receipt (exit {done.returncode}): {done.stdout!r} {done.stderr!r}")
        got["status"] = done.returncode
        return got

    def can(self, level):
        """False where the level does not work for this caller."""
        return self.run([], ["/bin/true"], level).returncode == 0


def _usable_by_other(path):
    """The command as the other user can reach it: some trees are below a closed home directory."""
    if not IS_ROOT:
        return path
    ok = subprocess.run(
        ["test", "-x", str(path)], user=OTHER_UID, group=OTHER_UID, extra_groups=[], check=False
    )
    return path if ok.returncode == 0 else None


@pytest.fixture(scope="session")
def session_dir():
    path = pathlib.Path(tempfile.mkdtemp(prefix="cordon-tests-", dir="/tmp"))
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def cordon_path(session_dir):
    path = pathlib.Path(os.environ.get("CORDON", ROOT / "build" / "cordon")).resolve()
    if not path.exists():
        unavailable(f"{path} is not built")
    usable = _usable_by_other(path)
    if usable is None:
        usable = session_dir / "cordon"
        shutil.copy2(path, usable)
        os.chmod(usable, 0o755)
    return usable


_counter = itertools.count()


@pytest.fixture(params=WHO)
def me(request, session_dir, cordon_path):
    base = session_dir / f"{request.param}-{next(_counter)}"
    base.mkdir()
    os.chmod(base, 0o755)
    caller = Me(request.param, base, cordon_path)
    caller.own(base)
    yield caller
    left = survivors(2.0)
    subprocess.run(["rm", "-rf", str(base)], check=False)
    assert not left, f"processes outlived the test: {left}"


@pytest.fixture(params=LEVELS)
def level(request):
    return request.param


# --- probes --------------------------------------------------------------------------------------


class Probes:
    """C probes, compiled on first use into a directory everybody can read."""

    def __init__(self, directory):
        self.dir = directory
        self.dir.mkdir()
        os.chmod(self.dir, 0o755)

    def __getitem__(self, name):
        binary = self.dir / name
        if not binary.exists():
            made = pathlib.Path(os.environ.get("CORDON_TEST_PROBES", "/nonexistent"), name)
            if made.exists():
                shutil.copy2(made, binary)
                return str(binary)
            source = next(d / (name + ".c") for d in PROBES if (d / (name + ".c")).exists())
            done = subprocess.run(
                ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-static", "-Wall", "-Wextra"]
                + ["-Werror", "-o", str(binary), str(source), "-lpthread"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            os.chmod(binary, 0o755)
        return str(binary)


@pytest.fixture(scope="session")
def probes(session_dir):
    return Probes(session_dir / "probes")


def rows(data):
    """`name allowed` / `name denied EPERM` / `name killed SIGSYS` lines, as a dict."""
    if isinstance(data, bytes):
        data = data.decode(errors="replace")
    got = {}
    for line in data.splitlines():
        name, _, verdict = line.partition(" ")
        assert name not in got, f"row {name} twice"
        got[name] = verdict
    return got


def _holds(verdict, want):
    if want == "any":
        return True
    if want == "denied":
        return verdict.startswith(("denied", "killed"))
    if want.startswith("denied:"):
        return verdict.removeprefix("denied ") in want[7:].split("|")
    return verdict == want


def expect(got, table, level=None):
    """Compares rows with a table: value = one verdict, or a pair (namespaces, landlock)."""
    bad = []
    for name, want in table.items():
        if isinstance(want, tuple):
            want = want[LEVELS.index(level)]
        verdict = got.get(name, "(no such row)")
        if not _holds(verdict, want):
            bad.append(f"{name}: {verdict}, wanted {want}")
    bad += [
        f"{name}: {verdict}, not in the table" for name, verdict in got.items() if name not in table
    ]
    assert not bad, "\n" + "\n".join(bad)


def control(got, table, but=()):
    """The same rows outside: all allowed, except those named (which need a reason beside them)."""
    bad = [
        f"{n}: {got.get(n, '(no such row)')}"
        for n in table
        if n not in but and got.get(n) != "allowed"
    ]
    assert not bad, "positive control failed outside:\n" + "\n".join(bad)


# --- what is left behind -------------------------------------------------------------------------

_known = set()  # children the harness itself started and still owns


def known_child(pid):
    _known.add(pid)


def _children():
    kids = []
    for task in os.listdir("/proc/self/task"):
        try:
            kids += map(int, pathlib.Path(f"/proc/self/task/{task}/children").read_text().split())
        except OSError:
            pass
    return [k for k in kids if k not in _known]


def _describe(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        state = stat.rpartition(")")[2].split()[0]
        comm = stat[stat.index("(") + 1 : stat.rindex(")")]
        cmd = (
            pathlib.Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
        )
        return state, f"{pid} {state} {comm} [{cmd.strip()[:120]}]"
    except (OSError, ValueError):
        return "X", ""


def _reap():
    """Reaps the dead among the orphans; the living ones as (pid, description)."""
    alive = []
    for pid in _children():
        state, text = _describe(pid)
        if state in "ZX":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        else:
            alive.append((pid, text))
    return alive


def survivors(patience=0.5):
    """Living orphans that came to us, after waiting `patience` seconds. Dead ones are reaped."""
    end = time.monotonic() + ceiling(patience)
    while True:
        alive = _reap()
        if not alive or time.monotonic() > end:
            for pid, _ in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return [text for _, text in alive]
        time.sleep(0.01)


def _descendants():
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(pid))
    found, todo = [], [os.getpid()]
    while todo:
        kids = parents.get(todo.pop(), [])
        found += kids
        todo += kids
    return found


def namespaces_alive():
    """Namespaces that a descendant of ours is in or that a mount holds. A survivor of a run
    becomes our child, and other programs on this machine do not count."""
    _reap()  # a zombie of ours would still show two of them
    seen = {
        line
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        if " nsfs " in line
    }
    for pid in _descendants():
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            try:
                seen.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                pass
    return seen


def settles(probe, patience=5.0):
    """Polls probe() until it is empty; returns what stayed. Other programs may come and go."""
    end = time.monotonic() + ceiling(patience)
    while True:
        left = probe()
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


# --- things outside that the inside must not reach -------------------------------------------------


class Listener:
    """Accepts on TCP, UDP or unix sockets of the host and logs every contact."""

    def __init__(self):
        self.log = []
        self._stop = threading.Event()
        self._socks = []
        self._threads = []

    def _serve(self, sock, label, stream):
        sock.settimeout(0.05)
        while not self._stop.is_set():
            try:
                if stream:
                    conn, _ = sock.accept()
                    self.log.append(label)
                    conn.close()
                else:
                    sock.recv(2048)
                    self.log.append(label)
            except socket.timeout:
                continue
            except OSError:
                return

    def add(self, family, kind, address, label):
        sock = socket.socket(family, kind)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.IPPROTO_TCP, 23, 16)  # TCP_FASTOPEN: a server that takes it
        sock.bind(address)
        if family == socket.AF_UNIX and address[0] != "\0":
            os.chmod(address, 0o777)
        stream = kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
        if stream:
            sock.listen(64)
        self._socks.append(sock)
        thread = threading.Thread(target=self._serve, args=(sock, label, stream), daemon=True)
        thread.start()
        self._threads.append(thread)
        return sock.getsockname()

    def seen(self):
        """The log after everything that is under way has arrived; the log is emptied."""
        time.sleep(0.15)
        got, self.log[:] = sorted(set(self.log)), []
        return got

    def close(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for sock in self._socks:
            sock.close()


@pytest.fixture
def listener():
    got = Listener()
    yield got
    got.close()


@pytest.fixture
def canary_process(me):
    """A process of the same caller outside, with a secret in its environment and its arguments."""
    secret = "canary-" + os.urandom(8).hex()
    # SIGURG is ignored by default; this process records it.
    script = f"""
import signal, time
def note(*_): open({str(me.out / "signalled")!r}, "a").write("hit")
signal.signal(signal.SIGURG, note)
print("ready", flush=True)
while True: time.sleep(60)
"""
    proc = me.popen(
        ["python3", "-S", "-c", script, secret],
        env={"SECRET": secret}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    known_child(proc.pid)
    proc.secret = secret
    assert proc.stdout.readline() == b"ready\n"
    yield proc
    proc.kill()
    proc.wait()
    proc.stdout.close()
    _known.discard(proc.pid)


# --- the simulated internet (tests/net/rig.py) ---------------------------------------------------------


@pytest.fixture(scope="session")
def internet(session_dir, probes):
    import rig  # of the suite that asks for it

    made = rig.make(session_dir, probes)
    yield made
    made.stop()


@pytest.fixture
def net(internet):
    """The internet with empty logs."""
    internet.forget()
    return internet


@pytest.fixture
def home(me, net):
    """A caller that lives in it."""
    import rig

    return rig.Home(me, net)
