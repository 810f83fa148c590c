# SPDX-License-Identifier: Apache-2.0
"""cordon pool: parked inits of one process that become the sandboxes of others."""

import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import IS_ROOT, ceiling, rounds, unavailable

PROBE = pathlib.Path(__file__).with_name("pool_probe.py")
WARM = "cordon: warm start: a sandbox of the pool"
DIFFERS = "cordon: cold start: this process differs from the pool's"


def place(me):
    run = pathlib.Path("/run/cordon-sessions" if me.uid == 0 else f"/run/user/{me.uid}/cordon-sessions")
    return run if run.exists() else pathlib.Path(f"/tmp/cordon-sessions-{me.uid}")


def files(me):
    return sorted(p.name for p in place(me).glob(".pool*"))


def cli(me, *words, **kw):
    return me.outside([me.cordon, "pool", *words], **kw)


def is_alive(pid):
    """Not a zombie either: those wait for whoever made them."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_true(what, seconds=10):
    end = time.monotonic() + ceiling(seconds)
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.005)
    return False


class Pool:
    def __init__(self, me):
        self.me = me

    def start(self, *opts, before=(), **kw):
        done = self.me.outside([*before, self.me.cordon, "pool", "start", *opts], **kw)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
        return self.pid

    def status(self):
        done = cli(self.me, "status", "--json")
        got = json.loads(done.stdout)
        assert done.returncode == (0 if got["running"] else 1)
        return got["pool"]

    @property
    def pid(self):
        return self.status()["pid"]

    def await_parked(self, count):
        assert await_true(lambda: (self.status() or {}).get("parked") == count), self.status()

    def inits(self):
        """The parked ones: children of the process that serves."""
        pid = self.pid
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if is_alive(c)]

    def run(self, *cmd, opts=(), before=(), **kw):
        """A run with --warm, and how it was started."""
        argv = [*before, self.me.cordon, "run", "--warm", "-v", *opts, "--", *(cmd or ("/bin/true",))]
        done = self.me.outside(argv, **kw)
        assert done.returncode == 0, done
        [line] = [line for line in done.stderr.decode().splitlines() if " start: " in line]
        return line, done.stdout

    def stop(self):
        if cli(self.me, "status").returncode == 0:
            assert cli(self.me, "stop").returncode == 0
        assert files(self.me) == []


@pytest.fixture
def pool(me):
    if not me.can("namespaces"):
        unavailable("level namespaces does not work here")
    if "Seccomp:\t0" not in pathlib.Path("/proc/self/status").read_text():
        unavailable("there are system call filters here, so no pool can be started")
    if cli(me, "status").returncode == 0:
        unavailable("a pool of this user is running")
    pool = Pool(me)
    yield pool
    pool.stop()


def python(me, *words):
    return me.outside(["/usr/bin/python3", PROBE, *words])


# --- the verbs -----------------------------------------------------------------------------------


def test_start_status_stop(me, pool):
    assert cli(me, "status").stdout == b"no pool is running\n"
    pid = pool.start("--size", "3", "--idle", "5m")
    got = pool.status()
    assert (got["size"], got["warm"], got["idle_ms"]) == (3, 0, 300000) and is_alive(pid)
    pool.await_parked(3)
    inits = pool.inits()
    assert len(inits) == 3
    text = cli(me, "status").stdout.decode()
    assert text == f"process {pid}: 3 of 3 sandboxes wait, 0 used so far; ends after 5m without a run\n"
    twice = cli(me, "start")
    assert (twice.returncode, twice.stdout) == (125, b"") and twice.stderr.count(b"\n") == 1
    assert f"a pool is running already (process {pid})".encode() in twice.stderr
    done = cli(me, "stop")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not is_alive(pid) and files(me) == []
    assert await_true(lambda: not any(is_alive(init) for init in inits))
    again = cli(me, "stop")
    assert again.returncode == 125 and again.stderr == b"cordon: no pool is running\n"
    assert json.loads(cli(me, "status", "--json").stdout) == {"running": False, "pool": None}


def test_what_was_used_is_told_at_once(me, pool):
    pool.start()
    at_once = 0
    for n in range(1, 11):
        pool.await_parked(2)
        script = '"$0" run --warm -- /bin/true; "$0" pool status --json'
        done = me.outside(["sh", "-c", script, me.cordon], check=True)
        at_once += json.loads(done.stdout)["pool"]["warm"] == n
        assert await_true(lambda n=n: pool.status()["warm"] == n)
    assert at_once > 5  # the machine may have other things to do


@pytest.mark.parametrize("words, said", [
    (["start", "--size", "0"], "--size"),
    (["start", "--size", "257"], "--size"),
    (["start", "--size", "2x"], "--size"),
    (["start", "--idle", "soon"], "cordon: --idle: 'soon' is not a duration"),
    (["start", "sh", "more"], "takes no argument 'more'"),
    (["start", "--isolation", "landlock"], "level landlock"),
    (["start", "--preset", "nonsense"], "nonsense"),
    (["start", "--private", ""], "--private"),
    (["start", "--", "no-such-program"], ""),
    (["status", "x"], "takes no argument"),
    (["stop", "x"], "takes no argument"),
])
def test_wrong_usage(me, pool, words, said):
    done = cli(me, *words)
    assert done.returncode not in (0, 1) and done.stdout == b""
    assert done.stderr.startswith(b"cordon: ") and done.stderr.count(b"\n") == 1 and said.encode() in done.stderr
    assert files(me) == []


def test_it_ends_when_nobody_comes(me, pool):
    pid = pool.start("--idle", "300ms")
    assert await_true(lambda: not is_alive(pid))
    assert files(me) == [] and pool.run()[0] == "cordon: cold start: no pool is running"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(me, pool, sig):
    pid = pool.start()
    pool.await_parked(2)
    inits = pool.inits()
    os.kill(pid, sig)
    assert await_true(lambda: not is_alive(pid)) and files(me) == []
    assert await_true(lambda: not any(is_alive(init) for init in inits))


def test_what_a_killed_one_leaves_is_noticed(me, pool):
    pid = pool.start()
    pool.await_parked(2)
    inits = pool.inits()
    os.kill(pid, signal.SIGKILL)
    assert await_true(lambda: not is_alive(pid) and not any(is_alive(init) for init in inits))
    assert files(me) == [".pool", ".pool.sock"]
    assert pool.run()[0] == "cordon: cold start: no pool is running"
    assert cli(me, "status").returncode == 1 and files(me) == []
    pid = pool.start()
    os.kill(pid, signal.SIGKILL)
    assert await_true(lambda: not is_alive(pid))
    pool.start()  # over what is left
    pool.await_parked(2)
    assert pool.run()[0] == WARM


def test_it_keeps_nothing_of_its_caller(me, pool):
    read, write = os.pipe()
    with open(read, "rb") as reader:
        pid = pool.start(pass_fds=[write])
        os.close(write)
        assert reader.read() == b""  # it would not end
    assert all(os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null" for fd in range(3))
    assert os.getsid(pid) != os.getsid(0)


# --- runs ----------------------------------------------------------------------------------------


def test_runs_are_the_same(me, pool, tmp_path_factory):
    """Warm and cold: the same view, the same streams, the same account."""
    data = me.mkdir("data")
    script = f"cat; id; pwd; env | sort; ls /tmp ~ /dev /run /; echo x > {data}/new; cat /proc/self/status | grep -E 'Cap|Seccomp|NoNew'; exit 3"
    pool.start()
    got = []
    for warm in ([], ["--warm"]):
        pool.await_parked(2)
        done = me.run([*warm, "-w", data, "--json", "-m", "64M", "-t", "20s"], ["/bin/sh", "-c", script], input=b"in\n")
        receipt = json.loads(done.stdout)
        assert done.returncode == 3 and receipt["kind"] == "exited", receipt
        assert (data / "new").read_text() == "x\n"
        (data / "new").unlink()
        got.append((receipt["stdout"], receipt["stderr"], receipt["isolation"], sorted(receipt)))
    assert got[0] == got[1] and got[0][0].startswith("in\n")
    assert await_true(lambda: pool.status()["warm"] == 1)  # told after the hand-over


def test_each_sandbox_is_used_once(me, pool):
    pool.start()
    for _ in range(5):
        pool.await_parked(2)
        line, out = pool.run("/bin/sh", "-c", "test ! -e /tmp/a && test ! -e ~/b && echo fresh; echo 1 >/tmp/a; echo 1 >~/b")
        assert (line, out) == (WARM, b"fresh\n")
    assert await_true(lambda: pool.status()["made"] >= 7) and pool.status()["warm"] == 5


@pytest.mark.parametrize("opts", [["--net-allow", "example.com"], ["--disk", "8M"], ["--isolation", "landlock"]])
def test_another_policy_starts_cold(me, pool, opts):
    """Those whose view begins otherwise; a pool of the same policy has it."""
    pool.start()
    pool.await_parked(2)
    line, out = pool.run("/bin/echo", "ran", opts=opts)
    assert line.startswith("cordon: cold start: ") and out == b"ran\n"
    assert pool.run()[0] == WARM
    if opts[0] == "--isolation":
        return
    pool.stop()
    pool.start(*opts)
    pool.await_parked(2)
    assert pool.run("/bin/echo", "ran", opts=opts) == (WARM, b"ran\n")


def test_private_directories(me, pool):
    """A pool for runs that have one: each has its own, which the pool has not seen and does not make."""
    script = "echo x >>~/kept; wc -l <~/kept; cat /tmp/note; echo note >/tmp/note"
    first, second = ["--private", me.work / "first"], ["--private", me.work / "second"]
    pool.start()
    pool.await_parked(2)
    line, out = pool.run("/bin/sh", "-c", script, opts=first)
    assert line.startswith("cordon: cold start: ") and out == b"1\n"  # a pool for runs that have none
    pool.stop()
    pool.start("--private", me.work / "pools")
    for opts, said in ((first, b"2\nnote\n"), (second, b"1\n"), (first, b"3\nnote\n")):
        pool.await_parked(2)
        assert pool.run("/bin/sh", "-c", script, opts=opts) == (WARM, said)
    pool.await_parked(2)
    assert pool.run()[0].startswith("cordon: cold start: ")
    assert not (me.work / "pools").exists() and (me.work / "second").exists()


def test_without_the_flag_it_is_not_asked(me, pool):
    pool.start()
    pool.await_parked(2)
    done = me.run(["-v"], ["/bin/true"])
    assert done.returncode == 0 and b" start: " not in done.stderr and pool.status()["warm"] == 0


def test_fifty_at_once(me, pool):
    pool.start("--size", "4")
    pool.await_parked(4)
    runs = [me.popen(me.argv(["--warm", "-v"], ["/bin/sh", "-c", f"echo {i}; sleep 0.05"]), stdout=-1, stderr=-1)
            for i in range(50)]
    said = []
    for i, run in enumerate(runs):
        out, err = run.communicate(timeout=120)
        assert (run.returncode, out) == (0, b"%d\n" % i), err
        said.append(WARM.encode() in err)
    assert 4 <= sum(said) <= 50
    pool.await_parked(4)
    assert len(pool.inits()) == 4 and pool.run()[0] == WARM  # the exits of the others were collected


def test_a_run_outlives_the_pool(me, pool):
    for sig in (signal.SIGKILL, signal.SIGTERM):
        pid = pool.start()
        pool.await_parked(2)
        run = me.popen(me.argv(["--warm", "-v"], ["/bin/sh", "-c", "echo up; read x; echo $x"]), stdin=-1, stdout=-1, stderr=-1)
        assert run.stdout.readline() == b"up\n"
        os.kill(pid, sig)
        assert await_true(lambda: not is_alive(pid))
        out, err = run.communicate(b"still\n", timeout=60)
        assert (run.returncode, out) == (0, b"still\n") and WARM.encode() in err


def test_no_run_is_lost_when_the_pool_is_killed(me, pool):
    """At any moment: before, while and after a sandbox goes over."""
    lines = []

    def client():
        while not done.is_set():
            lines.append(pool.run("/bin/echo", "ran"))

    for _ in range(rounds(12)):
        pid = pool.start("--size", "4")
        done = threading.Event()
        threads = [threading.Thread(target=client) for _ in range(2)]
        before = len(lines)
        for thread in threads:
            thread.start()
        time.sleep(random.random() * 0.04)
        os.kill(pid, signal.SIGKILL)
        assert await_true(lambda: len(lines) > before + 2 and not is_alive(pid))
        done.set()
        for thread in threads:
            thread.join(ceiling(60))
    assert {out for _, out in lines} == {b"ran\n"}  # run() has looked at the status
    assert any(line == WARM for line, _ in lines) and any("cold" in line for line, _ in lines)


def test_the_sandbox_dies_with_its_supervisor(me, pool):
    """Which is the command, as ever, and not the pool."""
    pool.start()
    pool.await_parked(2)
    word = f"{random.randrange(10**6, 10**7)}.5"
    run = me.popen(me.argv(["--warm"], ["/bin/sh", "-c", f"setsid sleep {word} & echo up; sleep {word}"]), stdout=-1)
    assert run.stdout.readline() == b"up\n"

    def guests():
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [path] if path.read_bytes() == f"sleep\0{word}\0".encode() else []
            except OSError:
                continue
        return found

    assert await_true(lambda: len(guests()) == 2)
    run.kill()
    run.wait()
    assert await_true(lambda: not guests(), 2) and pool.run()[0].startswith("cordon: ")
    run.stdout.close()


# --- who differs from the process that made them ----------------------------------------------------


def test_a_caller_with_other_limits_starts_cold(me, pool):
    pool.start()
    pool.await_parked(2)
    for before in ("ulimit -n 200", "ulimit -c 0; ulimit -v 99999999", "umask 027", "renice -n 17 $$ >/dev/null"):
        line, out = pool.run("/bin/sh", "-c", "ulimit -n; umask", before=["/bin/sh", "-c", before + '; exec "$@"', "-"])
        assert line == DIFFERS, before
        cold = me.outside(["/bin/sh", "-c", before + '; exec "$@"', "-", *me.argv([], ["/bin/sh", "-c", "ulimit -n; umask"])])
        assert out == cold.stdout
    assert pool.run()[0] == WARM


def test_a_caller_of_other_groups_starts_cold(me, pool):
    if not IS_ROOT:
        pytest.skip("needs root to give groups")
    pool.start()
    pool.await_parked(2)
    kw = {"groups": [34567]} if me.switch else {"extra_groups": [34567]}
    assert pool.run(**kw)[0] == DIFFERS and pool.run()[0] == WARM


@pytest.mark.parametrize("own, other, why", [
    (["no_new_privs"], [], "this process differs from the pool's"),
    (["no_new_privs", "seccomp"], [], "this process differs from the pool's"),
    ([], ["no_new_privs"], "this process differs from the pool's"),
    (["no_new_privs", "landlock"], ["no_new_privs"], "this process may not look into the pool's"),
    (["no_new_privs"], ["no_new_privs", "landlock"], "the pool may not look into this process"),
    (["no_new_privs", "landlock"], ["no_new_privs", "landlock"], "this process may not look into the pool's"),
])
def test_who_is_more_confined_gets_nothing(me, pool, own, other, why):
    """@own: what the run's process has given up, @other: the pool's. The last case: two domains of the
    same content are not the same."""
    pool.start(before=["/usr/bin/python3", PROBE, *other, "--"])
    pool.await_parked(2)
    line, out = pool.run("/bin/echo", "ran", before=["/usr/bin/python3", PROBE, *own, "--"])
    assert (line, out) == ("cordon: cold start: " + why, b"ran\n")
    assert pool.status()["warm"] == 0


def test_confined_alike_is_no_obstacle(me, pool):
    """The control for the one above: what is in the way is the difference."""
    same = ["/usr/bin/python3", PROBE, "no_new_privs", "--"]
    pool.start(before=same)
    pool.await_parked(2)
    assert pool.run(before=same)[0] == WARM


def test_a_domain_hides_the_proof(me, pool):
    """What the refusal of a process confined by Landlock alone rests on: the name of a memory file."""
    pid = pool.start()
    number = (place(me) / ".pool").read_text().split("\n")[0]
    seen = python(me, "look", str(pid), number).stdout.decode()
    assert seen.startswith("/memfd:cordon-") and len(seen) > 70
    assert python(me, "no_new_privs", "look", str(pid), number).stdout.decode() == seen
    assert python(me, "no_new_privs", "landlock", "look", str(pid), number).stdout == b"errno 13\n"


def test_with_filters_there_is_no_pool(me, pool):
    done = me.outside(["/usr/bin/python3", PROBE, "no_new_privs", "seccomp", "--", me.cordon, "pool", "start"])
    assert done.returncode == 125 and b"system call filters" in done.stderr and done.stderr.count(b"\n") == 1
    assert files(me) == []


def test_another_users_pool_is_out_of_reach(me, pool):
    """Its directory cannot be entered, and each user has a place of its own."""
    if not IS_ROOT:
        pytest.skip("needs root to be another user")
    pool.start()
    pool.await_parked(2)
    other = {"user": 20077, "group": 20077, "extra_groups": []}
    done = subprocess.run([me.cordon, "run", "--warm", "-v", "--", "/bin/true"], cwd="/", env=me.env(HOME="/"),
                          capture_output=True, check=False, timeout=ceiling(60), **other)
    assert b"cold start: no pool is running" in done.stderr, done
    assert pool.status()["warm"] == 0


# A process that has a file locked and waits for its input to end.
LOCKER = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"


def test_stop_ends_no_other_program(me, pool):
    """Who may write to the directory above can make the place first, and give the pool's name to a file
    that another program has locked."""
    place(me).mkdir(mode=0o700, exist_ok=True)
    os.chown(place(me), me.uid, me.gid)
    other = me.popen(["/usr/bin/python3", "-c", LOCKER, place(me) / ".pool"], stdin=-1, stdout=-1)
    assert other.stdout.readline() == b"\n"
    done = cli(me, "stop")
    assert done.returncode == 125 and b"is no pool" in done.stderr and done.stderr.count(b"\n") == 1, done
    assert is_alive(other.pid)
    other.communicate()
    assert other.returncode == 0
    pool.start()


# --- hostile peers -------------------------------------------------------------------------------


def connect(me):
    """As a process of this user: the tests run as root, whose socket would be refused at once."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(ceiling(10))
    sock.connect(str(place(me) / ".pool.sock"))
    return sock


def request(proof, fd=0):
    return struct.pack("QiI96s", 0x31666F2D6E6F6463, fd, 0, proof)


def test_a_request_of_another_program_gets_nothing(me, pool):
    """With the right proof, too: this is Python. The answer says why and brings no descriptor."""
    pid = pool.start()
    pool.await_parked(2)
    number = (place(me) / ".pool").read_text().split("\n")[0]
    proof = os.readlink(f"/proc/{pid}/fd/{number}").encode()
    for what in (b"", b"x", request(proof)[:-1], request(proof) + b"x", bytes(112), os.urandom(112), request(proof),
                 request(proof, 2**31 - 1), request(b"\0" * 96), b"y" * 5000):
        with connect(me) as sock:
            sock.sendmsg([what], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])
            data, ancillary, _, _ = sock.recvmsg(1 << 18, 4096)
            assert ancillary == [] and len(data) in (0, 192), what
            if data:
                assert struct.unpack_from("i", data, 8) == (0,)
    assert pool.status()["warm"] == 0 and pool.run()[0] == WARM


def test_silent_and_many(me, pool):
    """Nobody who says nothing, or half of something, keeps others from being answered."""
    pool.start()
    pool.await_parked(2)
    held = []
    for _ in range(150):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.setblocking(False)
        try:
            sock.connect(str(place(me) / ".pool.sock"))
        except BlockingIOError:
            pass  # its queue is full for the moment
        held.append(sock)
    line, out = pool.run("/bin/echo", "ran")
    assert out == b"ran\n"
    pid = pool.pid
    assert len(os.listdir(f"/proc/{pid}/fd")) < 150
    assert await_true(lambda: pool.run()[0] == WARM)
    for sock in held:
        sock.close()


def test_a_flood(me, pool):
    pool.start()
    pool.await_parked(2)
    for i in range(rounds(600)):
        try:
            with connect(me) as sock:
                sock.send(os.urandom(i % 200))
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass  # the queue is full, or it was dropped to make room
    assert await_true(lambda: pool.run()[0] == WARM)


def test_killed_inits_are_replaced(me, pool):
    pool.start()
    pool.await_parked(2)
    old = pool.inits()
    for init in old:
        os.kill(init, signal.SIGKILL)
    line, out = pool.run("/bin/echo", "ran")
    assert out == b"ran\n"
    assert await_true(lambda: pool.run()[0] == WARM) and not set(old) & set(pool.inits())


@pytest.mark.parametrize("flags", [["-n"], ["-m"], ["-p", "--fork"], ["-r"], ["-r", "-n", "-m"]])
def test_a_caller_in_other_namespaces_gets_nothing(me, pool, flags):
    """Root with one namespace of another kind; a user can have them only with a user namespace."""
    if me.uid != 0 and "-r" not in flags:
        flags = ["-r", *flags]
    before = ["unshare", *flags, "--"]
    if me.outside([*before, "true"]).returncode != 0:
        unavailable("namespaces of one's own are closed here")
    pool.start()
    pool.await_parked(2)
    done = me.outside([*before, me.cordon, "run", "--warm", "-v", "--", "/bin/echo", "ran"])
    assert b"warm start" not in done.stderr and pool.status()["warm"] == 0
    # Some of these cannot make a sandbox at all: then it says so by itself.
    assert done.returncode == 125 or (b"cold start" in done.stderr and done.stdout == b"ran\n"), done
    assert pool.run()[0] == WARM
