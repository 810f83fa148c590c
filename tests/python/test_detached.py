# SPDX-License-Identifier: Apache-2.0
"""Sessions that outlive their maker: the package over the command that it carries."""

import asyncio
import contextlib
import glob
import json
import math
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
import time

import pytest

import pycordon
from pylib import processes_with, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from packageslib import Index, wheel  # noqa: E402

EVERY_BYTE = bytes(range(256)) + "é€😀".encode() + b"\xed\xb3\xbf\xed\xa0\x80"


@contextlib.contextmanager
def made(**settings):
    """A session of this test's own, which is over after it."""
    session = pycordon.DetachedSession.create(idle="5m", lifetime="10m", **settings)
    try:
        yield session
    finally:
        end(session.name)


def end(name):
    with contextlib.suppress(pycordon.StateError):
        pycordon.DetachedSession.attach(name).stop()


@pytest.fixture
def name():
    """A name for a session that somebody makes in the test."""
    chosen = f"t{secrets.token_hex(6)}"
    yield chosen
    end(chosen)


@pytest.fixture(params=["namespaces", "landlock"])
def session(request):
    with made(isolation=request.param) as one:
        yield one


def names():
    return [one["name"] for one in pycordon.DetachedSession.list()]


def supervisor(name):
    (pid,) = [one["pid"] for one in pycordon.DetachedSession.list() if one["name"] == name]
    return pid


def tmp_of(session):
    return session.exec('printf %s "${TMPDIR:-/tmp}"').stdout


# --- commands --------------------------------------------------------------------------------------


def test_commands_are_those_of_a_session(session):
    assert session.exec('echo kept > "${TMPDIR:-/tmp}/x"').ok
    assert session.exec('cat "${TMPDIR:-/tmp}/x"').stdout == "kept\n"
    result = session.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.kind, result.returncode, result.stdout, result.stderr) == ("exited", 3, "out\n", "err\n")
    assert session.exec("cat", stdin="typed").stdout == "typed"
    assert session.exec("echo $A; pwd", env={"A": "b"}, cwd="/usr").stdout == "b\n/usr\n"
    assert session.exec("echo $BASH_VERSION", shell="/bin/bash").stdout > "3"
    assert session.exec("kill -TERM $$").signal == signal.SIGTERM
    missing = session.exec(["no-such-program"])
    assert (missing.kind, missing.returncode) == ("spawn_failed", 127) and "fs_read" in missing.hint
    with pytest.raises(pycordon.RunError):
        session.exec("exit 1", check=True)
    with pytest.raises(pycordon.PathError, match="/no/such"):
        session.exec("true", cwd="/no/such")


def test_results_are_those_of_a_session(session):
    """The same commands in a Session."""
    level = session.exec("true").isolation["level"]
    with pycordon.Session(isolation=level) as other:
        for cmd, options in (
            ("echo a; echo b >&2; exit 4", {}),
            ("echo a; echo b >&2", {"merge": True}),
            (["printf", "%s|", "", " ", "'", '"', "$(id)", "a\nb", "-x", "--"], {}),
            ("sleep 60", {"timeout": 0.2}),
            ("sleep 60", {"timeout": "200ms"}),
            ("seq 100000", {"max_output": 100}),
            ("seq 1000000", {}),
            (["no-such-program"], {}),
            (["/etc/passwd"], {}),
            ("exit 125", {}),
            ("cat; env | grep ^V", {"stdin": EVERY_BYTE, "env": {"V": "x y\n$z", "HOME": "/usr", "PATH": "/bin"}}),
        ):
            ours, theirs = session.exec(cmd, **options), other.exec(cmd, **options)
            for what in ("kind", "returncode", "exit_code", "signal", "stdout_bytes", "stderr_bytes", "merged",
                         "truncated", "total_bytes", "error", "hint"):  # fmt: skip
                assert getattr(ours, what) == getattr(theirs, what), (cmd, what)


def test_the_end_of_a_command(session):
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 83.{}'"
    session.exec("sleep 83.1 &")
    assert session.exec(look.format(1)).stdout == "1\n"
    session.exec("sleep 83.2 &", orphans="kill")
    assert session.exec(look.format(2)).stdout == "0\n"


def test_standard_input(session, place):
    big = os.urandom(3 << 20)
    assert session.exec("cat", stdin=big, max_output="8M").stdout_bytes == big
    assert session.exec("cat").stdout == ""
    (place / "here" / "file").write_bytes(EVERY_BYTE)
    with open(place / "here" / "file", "rb") as file:
        assert session.exec("cat", stdin=file).stdout_bytes == EVERY_BYTE
    # Nobody reads it, and somebody goes on who could.
    before = time.monotonic()
    assert session.exec("sleep 60 <&0 & exit 7", stdin=big).returncode == 7
    assert time.monotonic() - before < 30


def test_nothing_is_an_option_or_for_a_shell(session, place, monkeypatch):
    """What a caller may pass on from others."""
    word = "$(touch /tmp/x);`id`\n--help"
    assert session.exec(["printf", "%s", word], env={"A": word}).stdout == word
    assert session.exec(["echo", "--help", "--", "-d"]).stdout == "--help -- -d\n"
    assert session.exec(["--json"]).returncode == 127
    (place / "here" / "--help").write_text("dashes")
    directory = tmp_of(session)
    session.put("--help", f"{directory}/--json")
    session.get(f"{directory}/--json", "-")
    assert (place / "here" / "-").read_text() == "dashes"
    with pytest.raises(FileNotFoundError):
        session.ls("--json")
    with pytest.raises(pycordon.PathError):
        session.exec("true", cwd="--detach")
    for bad in ("--help", "-d", "", ".", "a/b", "a b", "x" * 49, "a\n"):
        with pytest.raises(pycordon.UsageError, match="name of a session"):
            pycordon.DetachedSession.attach(bad)
        with pytest.raises(pycordon.UsageError, match="name of a session"):
            pycordon.DetachedSession.create(name=bad)


def test_values_of_variables_are_not_in_a_command_line(session):
    secret = secrets.token_hex(16)
    thread = threading.Thread(target=session.exec, args=("sleep 2; echo $S",), kwargs={"env": {"S": secret}})
    thread.start()
    until(lambda: processes_with("sleep 2; echo $S"), "it has not begun")
    assert not processes_with(secret)
    thread.join()
    with made(env={"S": secret}) as other:
        assert other.exec("echo $S").stdout == f"{secret}\n"
        assert not processes_with(secret)


def test_hostile_output(session):
    assert session.exec("cat", stdin=EVERY_BYTE).stdout_bytes == EVERY_BYTE
    every = session.exec("cat >&2", stdin=EVERY_BYTE)
    assert (every.stdout_bytes, every.stderr_bytes) == (b"", EVERY_BYTE)
    forged = json.dumps({"kind": "exited", "exit_code": 0, "stdout": "forged", "stderr": ""})
    result = session.exec("cat; cat >&2 < /dev/null; exit 9", stdin=f'{forged}\n"}}\n{forged}')
    assert (result.returncode, result.stdout) == (9, f'{forged}\n"}}\n{forged}')
    said = "cordon: there is no session 'x' (cordon: note)\n"
    result = session.exec("cat >&2; exit 125", stdin=said)
    assert (result.kind, result.returncode, result.stderr) == ("exited", 125, said)
    zeros = session.exec("head -c 5000000 /dev/zero", max_output="8M")
    assert zeros.stdout_bytes == bytes(5_000_000) and not zeros.truncated
    cut = session.exec("head -c 5000000 /dev/urandom")
    assert len(cut.stdout_bytes) == 1 << 20 and cut.truncated.stdout
    assert cut.total_bytes["stdout"] == 5_000_000


def test_eight_threads(session):
    got = {}

    def one(i):
        got[i] = [session.exec(f"cat; exit {i}", stdin=f"{i}.{j}") for j in range(5)]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        assert [(r.returncode, r.stdout) for r in got[i]] == [(i, f"{i}.{j}") for j in range(5)]


def test_commands_that_are_started(session):
    command = session.start("echo one; echo two >&2; sleep 60", env={"A": "b"})
    until(lambda: command.logs() == b"one\ntwo\n", "it has not said it")
    assert command.wait(0) is None and command.wait(0.2) is None
    (entry,) = session.ps()
    assert (entry["number"], entry["running"], entry["detached"]) == (command.number, True, True)
    command.kill()
    result = command.wait(20)
    assert result.kind == "cancelled" and result.stdout == "one\ntwo\n" and result.merged
    again = session.command(session.start("printf '\\377'; exit 3").number)
    assert (again.wait().returncode, again.wait().stdout_bytes, again.wait().exit_code) == (3, b"\xff", 3)
    mark = f"5{secrets.randbelow(10**9):09d}"
    asleep = session.start(["sleep", mark])
    until(lambda: processes_with(mark), "it has not begun")
    asleep.signal(signal.SIGTERM)
    assert (asleep.wait().kind, asleep.wait().signal) == ("signaled", signal.SIGTERM)
    assert session.start("sleep 60", timeout=0.2).wait().kind == "timeout"
    cut = session.start("seq 100000", max_output=100).wait()
    assert len(cut.stdout_bytes) == 100 and cut.truncated
    missing = session.start(["no-such-program"]).wait()
    assert (missing.kind, missing.returncode) == ("spawn_failed", 127) and "no-such-program" in missing.error
    for call in (session.logs, session.kill, lambda n: session.command(n).wait()):
        with pytest.raises(pycordon.StateError) as caught:
            call(4_000_000)
        assert "cordon " not in str(caught.value)
        with pytest.raises(pycordon.UsageError, match="number"):
            call("1; true")


# --- its life --------------------------------------------------------------------------------------


def test_it_survives_its_maker(host, name, place):
    """With what its commands have left running."""
    host(
        """
        import pycordon, sys
        session = pycordon.DetachedSession.create(name=sys.argv[1], idle="5m", lifetime="10m", env={"A": "b"})
        assert session.exec("echo data > /tmp/file").ok
        print(session.start("while :; do date > /tmp/new; sleep 0.1; done").number)
        """,
        name,
    )
    session = pycordon.DetachedSession.attach(name)
    assert session.exec("cat /tmp/file; echo $A").stdout == "data\nb\n"
    (entry,) = session.ps()
    assert entry["running"]
    session.exec("rm -f /tmp/new", check=True)
    until(lambda: session.exec("cat /tmp/new").ok, "it does not go on")
    session.command(entry["number"]).kill()
    session.close()
    session.close()
    for call in (session.ps, session.stop, lambda: session.exec("true")):
        with pytest.raises(pycordon.ClosedError):
            call()
    with pycordon.DetachedSession.attach(name) as again:
        assert again.exec("cat /tmp/file").ok
    assert again.closed and name in names()
    receipt = pycordon.DetachedSession.attach(name).stop()
    assert receipt["kind"] == "cancelled" and receipt["session"]["ended_by"] == "stop"
    assert name not in names()
    with pytest.raises(pycordon.StateError, match="there is no session"):
        pycordon.DetachedSession.attach(name)


def test_a_killed_maker(name, host):
    done = host(
        """
        import os, pycordon, signal, sys
        session = pycordon.DetachedSession.create(name=sys.argv[1], idle="5m", lifetime="10m")
        assert session.exec("echo data > /tmp/file").ok
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        name, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert pycordon.DetachedSession.attach(name).exec("cat /tmp/file").stdout == "data\n"


def test_idle_and_lifetime(name):
    pycordon.DetachedSession.create(name=name, idle=0.5)
    until(lambda: not glob.glob(f"/*/cordon-sessions*/{name}.*") + glob.glob(f"/run/user/*/*/{name}.*"), "it is there")
    assert name not in names()
    for short in ({"lifetime": 1}, {"max_execution_seconds": 1}):
        session = pycordon.DetachedSession.create(name=name, idle=math.inf, **short)
        until(lambda: name not in names(), "it goes on")
        with pytest.raises(pycordon.ClosedError, match="there is no session"):
            session.exec("true")


def test_a_killed_supervisor(session):
    mark = f"8{secrets.randbelow(10**9):09d}"
    session.start(["sleep", mark])
    until(lambda: processes_with(mark), "it has not begun")
    os.kill(supervisor(session.name), signal.SIGKILL)
    until(lambda: not processes_with(mark), "a command goes on")
    with pytest.raises(pycordon.ClosedError, match="its supervisor was killed"):
        session.exec("true")
    with pytest.raises(pycordon.ClosedError, match="there is no session"):
        session.usage()


def test_a_supervisor_that_is_killed_meanwhile(session):
    caught = []

    def wait():
        try:
            session.exec("sleep 60")
        except pycordon.CordonError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: session.usage()["commands"] == 1, "it has not begun")
    os.kill(supervisor(session.name), signal.SIGKILL)
    thread.join(30)
    assert type(caught[0]) is pycordon.ClosedError and "has ended" in caught[0].message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_who_waits(host, session, number):
    """An exception ends the command. A process that is killed cannot say anything: the command goes on."""
    mark = f"7{secrets.randbelow(10**9):09d}"
    code = f"import pycordon; pycordon.DetachedSession.attach({session.name!r}).exec(['sleep', '{mark}'])"
    thread = threading.Thread(target=lambda: host(code, check=False))
    thread.start()
    until(lambda: any(words(pid).startswith(b"sleep\0") for pid in processes_with(mark)), "it has not begun")
    (client,) = [pid for pid in processes_with(mark) if words(pid).split(b"\0")[1:2] == [b"-c"]]
    os.kill(int(client), number)
    if number == signal.SIGINT:
        until(lambda: not processes_with(mark), "it goes on")
        thread.join()
    else:
        until(lambda: client not in processes_with(mark), "it is there")
        (entry,) = session.ps()
        assert entry["running"]
        session.kill(entry["number"])
        until(lambda: not processes_with(mark), "it goes on")
        thread.join()
    assert session.exec("true").ok


def words(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def test_pause_usage_limits(session, name):
    session.start("sleep 60")
    usage = session.usage()
    with pycordon.Session() as other:
        assert usage.keys() == other.usage().keys()
    assert usage["commands"] == 1 and not usage["paused"]
    session.pause()
    assert session.usage()["paused"]
    with pytest.raises(pycordon.StateError, match=r"paused \(resume\(\) first\)"):
        session.exec("true")
    session.resume()
    assert session.exec("true").ok
    with made(name=name, max_memory_mb=64) as small:
        assert small.exec("head -c 400M /dev/zero | tail").kind == "memory"
        until(lambda: name not in names(), "it goes on")
        with pytest.raises(pycordon.ClosedError):
            small.exec("true")


# --- files -----------------------------------------------------------------------------------------


def test_files(session, place):
    tmp = tmp_of(session)
    source = place / "here" / "data"
    source.write_bytes(EVERY_BYTE * 1000)
    source.chmod(0o640)
    session.put("data", f"{tmp}/d/data")
    session.get(f"{tmp}/d/data", "back")
    assert (place / "here" / "back").read_bytes() == source.read_bytes()
    session.exec(["ln", "-s", "/usr", f"{tmp}/d/link"], check=True)
    link, data = sorted(session.ls(f"{tmp}/d"), key=lambda info: info.type == "file")
    assert (data.name, data.path, data.size, data.mode) == ("data", f"{tmp}/d/data", 1000 * len(EVERY_BYTE), 0o640)
    assert data.is_file and (link.name, link.type) == ("link", "link")
    bytes_name = os.fsdecode(b"\xff")
    session.exec(["touch", f"{tmp}/d/{bytes_name}"], check=True)
    assert bytes_name in [info.name for info in session.ls(f"{tmp}/d")]
    for error, path, call in (
        (FileNotFoundError, f"{tmp}/none", lambda: session.get(f"{tmp}/none", "x")),
        (FileNotFoundError, f"{tmp}/none", lambda: session.ls(f"{tmp}/none")),
        (NotADirectoryError, "/etc/passwd", lambda: session.ls("/etc/passwd")),
        (IsADirectoryError, "/usr", lambda: session.get("/usr", "x")),
        (FileNotFoundError, str(place / "here" / "none"), lambda: session.put("none", f"{tmp}/x")),
        (IsADirectoryError, str(place), lambda: session.put(place, f"{tmp}/x")),
        (IsADirectoryError, str(place), lambda: session.get(f"{tmp}/d/data", place)),
        (FileNotFoundError, str(place / "n" / "x"), lambda: session.get(f"{tmp}/d/data", place / "n" / "x")),
        (OSError, "/usr/zz", lambda: session.put("data", "/usr/zz")),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.filename == path


# --- settings --------------------------------------------------------------------------------------


def test_settings_are_those_of_a_session(place, name):
    """What is granted, hidden and set, from a policy, in a working directory of the host."""
    work = place / "work"
    (work / "sub").mkdir(parents=True)
    (work / "a.key").write_text("key")
    (place / "here" / "read").write_text("granted")
    place.chmod(0o755)
    policy = pycordon.Policy("agent", fs_read=["read"], fs_deny=["*.key"], env_set={"A": "x y\n"})
    os.environ["B_PASSED"] = "passed"
    try:
        with made(config=policy, name=name, workdir=work, env_pass=["B_PASSED"], limits_open_files=77,
                  limits_procs=50, env={"C": "d"}) as session:  # fmt: skip
            assert session.name == name and repr(session) == f"<DetachedSession {name}>"
            result = session.exec("pwd; cat a.key; echo $A $B_PASSED $C; ulimit -n; cat " + str(place / "here/read"))
            assert result.stdout == f"{work}\nx y passed d\n77\ngranted", result.stderr
            assert session.exec("echo made > sub/file", check=True) and (work / "sub" / "file").exists()
            assert session.exec("cat a.key", max_output=5).policy is not None
    finally:
        del os.environ["B_PASSED"]


def test_more_settings(name, place):
    with made(allowed_commands=["cat"]) as session:
        assert session.exec(["cat"], stdin="typed").stdout == "typed"
        assert session.exec(["ls"]).returncode == 126
        assert session.exec("echo x").returncode == 126
    with made(limits_memory=math.inf, net_publish=["0:8080"]) as session:
        assert session.exec("true").ok
    with made(config=pycordon.SandboxConfig(), program="python3") as session:
        assert session.exec(["python3", "-c", "print(1)"]).stdout == "1\n"
    workspace = place / "project"
    workspace.mkdir()
    (workspace / "f").write_text("old")
    with made(fs_workspace=str(workspace)) as session:
        assert session.exec("cat f; echo new > f; cat f").stdout == "oldnew\n"
        assert (workspace / "f").read_text() == "old"


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_memmory_mb": 5}, {"fs_read": ["/no/such/path"]}, {"isolation": "none"}, {"config": "pyton"},
        {"persist": False}, {"keep": True}, {"id": "s1"}, {"allow_overrides": True}, {"parked": 1},
        {"preload": ["os"]}, {"timeout": 5}, {"stdin": b""}, {"max_queue": 1}, {"workdir": ""}, {"workdir": "/no/such"},
        {"idle": "soon"}, {"idle": -1}, {"idle": None}, {"idle": True}, {"lifetime": 0}, {"lifetime": math.inf},
        {"lifetime": None}, {"lifetime": "1y"}, {"max_execution_seconds": math.inf}, {"program": "no-such-program"},
        {"program": ""}, {"program": 5}, {"env": {"A=": "b"}}, {"env": {"A": 5}}, {"limits_memory": "a lot"},
        {"packages": "six"}, {"packages": [5]}, {"build_packages": True}, {"name": 5},
    ],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_wrong_settings_start_nothing(wrong, monkeypatch):
    def popen(*args, **options):
        raise AssertionError("something was started")

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises((pycordon.UsageError, pycordon.PolicyError, pycordon.PathError, pycordon.CommandNotFoundError)):
        pycordon.DetachedSession.create(**wrong)


@pytest.fixture
def index(place, monkeypatch):
    made = Index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for variable, value in made.env.items():
        monkeypatch.setenv(variable, value)
    yield made
    made.close()


def test_packages(index, place, name):
    """They are the supervisor's own, and in use as long as it lives."""
    place.chmod(0o755)
    digest = index.add(wheel("one"))
    (place / "here" / "requirements.txt").write_text(f"one==1.0 --hash=sha256:{digest}\n")
    for packages in (["one==1.0"], ["requirements.txt"]):
        with made(name=name, packages=packages) as session:
            assert session.exec(["python3", "-c", "import one; print(one.VERSION)"]).stdout == "1.0\n"
    with pytest.raises(pycordon.SetupError, match="nosuch") as caught:
        pycordon.DetachedSession.create(name=name, packages=["nosuch"])
    assert "No matching distribution found" in str(caught.value)
    assert name not in names()


def test_a_cancelled_installation(index, name):
    async def main(delay):
        with pytest.raises(asyncio.TimeoutError):
            made = pycordon.AsyncDetachedSession.create(name=name, idle="5m", lifetime="10m", packages=["one"])
            await asyncio.wait_for(made, delay)

    index.add(wheel("one"))
    for delay in (0.02, 0.1):
        asyncio.run(main(delay))
        assert name not in names()


def test_an_interrupted_creation_leaves_nothing(name, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        communicate = subprocess.Popen.communicate
        turns = iter([interrupted, communicate])
        patch.setattr(subprocess.Popen, "communicate", lambda *args, **options: next(turns)(*args, **options))
        with pytest.raises(KeyboardInterrupt):
            pycordon.DetachedSession.create(name=name, idle="5m", lifetime="10m")
        assert next(turns, None) is None, "it was stopped"
    assert name not in names()
    with made(name=name):
        assert name in names(), "the control"


def test_a_name_that_is_taken(name):
    with made(name=name):
        with pytest.raises(pycordon.StateError, match="running already") as caught:
            pycordon.DetachedSession.create(name=name)
        assert caught.value.hint == f"choose another name=, or end it with DetachedSession.attach('{name}').stop()"


def test_arguments_of_commands_are_checked(session):
    for wrong in (
        {"cmd": []}, {"cmd": [""]}, {"cmd": b"true"}, {"cmd": ["a\0b"]}, {"cmd": "a\0b"}, {"cmd": 5},
        {"env": {"A": 1}}, {"orphans": "kepe"}, {"stdin": ["x"]}, {"timeout": "soon"}, {"max_output": -1},
        {"shell": ""}, {"cmd": ["echo", "x" * (1 << 20)]},
    ):  # fmt: skip
        with pytest.raises((pycordon.UsageError, pycordon.PolicyError)):
            session.exec(**{"cmd": "true", **wrong})


def test_another_user_has_none_of_it(host, session):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = """
        import os, pycordon, sys
        os.setgroups([]); os.setgid(20062); os.setuid(20062)
        os.environ["HOME"] = "/"
        assert sys.argv[1] not in [one["name"] for one in pycordon.DetachedSession.list()]
        try:
            pycordon.DetachedSession.attach(sys.argv[1])
        except pycordon.StateError as error:
            assert str(error) == f"there is no session '{sys.argv[1]}' (DetachedSession.list() lists the sessions)", error
        else:
            raise SystemExit("it could attach")
        """
    host(code, session.name, cwd="/")
    assert session.name in names(), "the control"


def test_the_command_is_not_there(monkeypatch, session):
    with monkeypatch.context() as patch:
        patch.setattr("pycordon._detached.command", lambda: "/no/such/cordon")
        with pytest.raises(pycordon.SystemCallError, match="cannot start the cordon command"):
            session.exec("true")
    assert session.exec("true").ok, "the control"


def test_only_create_and_attach_make_one():
    for kind in (pycordon.DetachedSession, pycordon.AsyncDetachedSession):
        with pytest.raises(TypeError, match=r"create\(\) or .attach\(\)"):
            kind()


# --- in an event loop ------------------------------------------------------------------------------


def test_async(name, place):
    async def main():
        made = await pycordon.AsyncDetachedSession.create(name=name, idle="5m", lifetime="10m")
        async with made as session:
            assert (await session.exec("cat > /tmp/x; cat /tmp/x", stdin=EVERY_BYTE)).stdout_bytes == EVERY_BYTE
            got = await asyncio.gather(*(session.exec(f"sleep 0.1; exit {i}") for i in range(8)))
            assert [r.returncode for r in got] == list(range(8))
            command = await session.start("echo said; sleep 0.2; exit 3")
            assert await command.wait(0) is None
            result = await command.wait()
            assert (result.returncode, result.stdout, await command.logs()) == (3, "said\n", b"said\n")
            mark = f"5{secrets.randbelow(10**9):09d}"
            asleep = session.command((await session.start(["sleep", mark])).number)
            until(lambda: processes_with(mark), "it has not begun")
            await asleep.signal(signal.SIGTERM)
            assert (await asleep.wait()).signal == signal.SIGTERM
            assert (await session.ps())[-1]["number"] == asleep.number
            await session.put(__file__, "/tmp/file")
            assert "file" in [info.name for info in await session.ls("/tmp")]
            await session.get("/tmp/file", "copy")
            await session.pause()
            assert (await session.usage())["paused"]
            await session.resume()
            with pytest.raises(pycordon.RunError):
                await session.exec("exit 1", check=True)
        with pytest.raises(pycordon.ClosedError):
            await session.usage()
        assert name in [one["name"] for one in await pycordon.AsyncDetachedSession.list()]
        again = await pycordon.AsyncDetachedSession.attach(name)
        assert (await again.stop())["session"]["ended_by"] == "stop"
        with pytest.raises(pycordon.StateError, match="there is no session"):
            await pycordon.AsyncDetachedSession.attach(name)

    asyncio.run(main())
    assert (place / "here" / "copy").read_bytes() == open(__file__, "rb").read()


def test_a_cancelled_task_ends_its_command(session):
    async def main():
        mine = await pycordon.AsyncDetachedSession.attach(session.name)
        mark = f"6{secrets.randbelow(10**9):09d}"
        task = asyncio.ensure_future(mine.exec(["sleep", mark]))
        while (await mine.usage())["commands"] != 1:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        until(lambda: not processes_with(mark), "it goes on")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(mine.exec(["sleep", mark]), 0.3)
        until(lambda: not processes_with(mark), "it goes on")
        assert (await mine.exec("true")).ok

    asyncio.run(main())


def test_a_cancelled_creation_leaves_nothing(name):
    async def main(delay):
        task = asyncio.ensure_future(pycordon.AsyncDetachedSession.create(name=name, idle="5m", lifetime="10m"))
        await asyncio.sleep(delay)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return
        await (await pycordon.AsyncDetachedSession.attach(name)).stop()

    for delay in (0, 0.001, 0.005, 0.01, 0.02, 0.04):
        asyncio.run(main(delay))
        assert name not in names(), delay


def test_nothing_is_left_open(session):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        session.exec("true", stdin=b"x")
        session.start("true").wait()
    assert len(os.listdir("/proc/self/fd")) == before
