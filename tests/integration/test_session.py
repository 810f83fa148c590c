# SPDX-License-Identifier: Apache-2.0
"""Sessions: several commands in one sandbox, a supervisor that outlives its clients, and what hostile
commands, clients and kills can do to them."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import pytest
from conftest import PATH, ceiling, rounds, rows
from differences import kernel_lacks

_numbers = itertools.count()


class Session:
    def __init__(self, me, *opts, level=None, name=None):
        self.me = me
        self.name = name or f"t{os.getpid()}-{next(_numbers)}"
        opts = ["--isolation", level, *opts] if level else opts
        self.start = me.outside([me.cordon, "session", "start", "--name", self.name, *opts])

    def call(self, verb, *words, **kw):
        return self.me.outside([self.me.cordon, "session", verb, *words], **kw)

    def exec(self, *words, opts=(), **kw):
        return self.call("exec", *opts, self.name, "--", *words, **kw)

    def sh(self, script, *opts, **kw):
        return self.exec("sh", "-c", script, opts=opts, **kw)

    def status(self):
        return json.loads(self.call("ps", "--json", self.name).stdout)

    def stop(self):
        return self.call("stop", "--json", self.name)


@pytest.fixture
def session(me):
    made = []

    def start(*opts, **kw):
        one = Session(me, *opts, **kw)
        assert one.start.returncode == 0, one.start.stderr
        assert one.start.stdout.decode() == one.name + "\n"
        made.append(one)
        return one

    yield start
    for one in made:
        one.stop()


def place(me):
    """Where this caller's sockets are."""
    first = "/run/cordon-sessions" if me.uid == 0 else f"/run/user/{me.uid}/cordon-sessions"
    return pathlib.Path(first if os.path.isdir(first) else f"/tmp/cordon-sessions-{me.uid}")


def until(condition, seconds=10):
    end = time.monotonic() + ceiling(seconds)
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def one_line(done):
    text = done.stderr.decode()
    assert text.startswith("cordon: ") and text.count("\n") == 1, text
    return text


# --- commands ------------------------------------------------------------------------------------


def test_commands_share_the_sandbox(session, level):
    s = session(level=level)
    assert s.sh("echo one; echo two >&2; exit 5").returncode == 5
    done = s.sh('echo kept > "${TMPDIR:-/tmp}/file"; echo out; echo err >&2')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")
    assert s.sh('cat "${TMPDIR:-/tmp}/file"').stdout == b"kept\n"
    assert s.exec("cat", input=b"typed\n").stdout == b"typed\n"
    assert s.sh("kill -TERM $$").returncode == 128 + 15
    assert s.exec("no-such-program").returncode == 127
    assert s.exec("/etc/passwd").returncode == 126
    assert s.sh("echo $A $PWD", "-e", "A=b", "-C", "/usr").stdout == b"b /usr\n"


def test_a_server_for_the_next_command(session):
    s = session()
    assert s.exec("python3", "-m", "http.server", "8123", opts=["-d"]).stdout == b"1\n"
    script = "import urllib.request as u; print(u.urlopen('http://localhost:8123').status)"
    assert until(lambda: s.exec("python3", "-c", script).stdout == b"200\n")
    assert b'"GET / HTTP' in s.call("logs", s.name, "1").stdout
    [command] = [c for c in s.status()["commands"] if c["detached"]]
    assert command["running"] and "http.server" in command["command"]
    assert s.call("kill", s.name, "1").returncode == 0
    assert until(lambda: not s.status()["commands"][0]["running"])


def test_signals_between_commands(session):
    """The layers of each command are its own, and the kernel lets no signal across."""
    s = session()
    assert s.sh("sleep 87.4 & echo $! > /tmp/pid; kill -0 $!").returncode == 0
    done = s.sh("kill $(cat /tmp/pid)")
    assert (done.returncode == 0) is kernel_lacks("landlock-scopes"), done.stderr
    assert s.sh("sleep 87.5", "-d").returncode == 0
    assert s.call("kill", s.name, "3").returncode == 0
    assert until(lambda: s.status()["commands"][-1]["running"] is False)


def test_json_of_a_command(session, level):
    s = session(level=level)
    done = s.sh("echo out; echo err >&2; exit 3", "--json")
    got = json.loads(done.stdout)
    assert (done.returncode, got["kind"], got["exit_code"]) == (3, "exited", 3)
    assert (got["stdout"], got["stderr"]) == ("out\n", "err\n")
    assert got["isolation"]["level"] == level
    assert "seccomp" in got["isolation"]["layers"]


def test_a_failed_command_is_told_what_it_does_not_see(session, me, level):
    data = me.write(me.out / "data", "x")
    s = session("-r", me.work, level=level)
    line = f"cordon: '{data}' is not shown to the command (show it with -r {data})"
    assert s.sh(f"cat {data}").stderr.decode().splitlines()[1:] == [line]
    assert line not in s.sh(f"cat {data}", "-q").stderr.decode()
    got = json.loads(s.sh(f"cat {data}", "--json").stdout)
    assert [(d["what"], d["target"], d["fix"]) for d in got["denials"]] == [("read", str(data), f"-r {data}")]
    assert json.loads(s.sh("cat nothing; exit 3", "--json").stdout)["denials"] == []
    # Names are read from where the command started.
    me.own((me.work / "sub").mkdir() or me.work / "sub")
    got = json.loads(s.sh("touch new", "--json", "-C", str(me.work / "sub")).stdout)
    assert [(d["what"], d["fix"]) for d in got["denials"]] == [("write", "-w sub")]


def test_time_limit_of_a_command(session, level):
    s = session("--grace", "100ms", level=level)
    begin = time.monotonic()
    assert s.sh("trap '' TERM; sleep 60 & sleep 60", "-t", "300ms").returncode == 124
    assert time.monotonic() - begin < ceiling(5)
    assert s.sh("true").returncode == 0


def test_options_of_a_command_are_those_of_a_run(session):
    s = session()
    for opt, text, said in [
        ("-t", "0", "--timeout must be at least 1ms, not '0'"),
        ("-t", "x", "--timeout: 'x' is not a duration"),
        ("--max-output", "0", "--max-output must be at least 1, not '0'"),
        ("-e", "=x", "--env: a variable's name must not be empty"),
        ("-e", "", "--env: a variable's name must not be empty"),
    ]:
        done = s.sh("true", opt, text)
        assert done.returncode == 125 and said in one_line(done)


def test_why_a_command_ended_is_said(session):
    s = session()
    done = s.sh("sleep 60", "-t", "300ms")
    assert one_line(done) == "cordon: time limit of 300ms reached; the command was ended (raise it with -t)\n"
    done = s.sh("seq 1000", "--max-output", "10")
    assert done.returncode == 0
    assert one_line(done) == "cordon: note: the output was cut at its limit (raise it with --max-output)\n"
    assert s.sh("seq 1000", "-q", "--max-output", "10").stderr == b""
    done = s.exec("no-such-program", opts=["-q"])  # an error of Cordon's
    assert done.returncode == 127 and "not found in the session" in one_line(done)
    for words, hint in [
        (["-d", "true"], "(options come before the session's name)"),
        (["A=b", "true"], "(-e NAME=VALUE, before the session's name, sets a variable)"),
        (["echo hi | cat"], "(a shell's line: cordon session exec NAME -- sh -c 'LINE')"),
    ]:
        assert hint in one_line(s.call("exec", s.name, *words))
    waits = s.me.popen([s.me.cordon, "session", "exec", s.name, "--", "sleep", "60"], stderr=subprocess.PIPE)
    assert until(lambda: any(c["running"] for c in s.status()["commands"]))
    assert s.stop().returncode == 0
    assert b"cordon: the command was ended from outside" in waits.communicate(timeout=30)[1]


@pytest.mark.parametrize(
    "opts, script, said",
    [
        (["-m", "64M"], "head -c 400M /dev/zero | tail", "memory limit"),
        (["--cpu-time", "500ms"], "while :; do :; done", "CPU time limit"),
        (["-t", "1s"], "sleep 60", "time limit"),
    ],
    ids=["memory", "cpu", "time"],
)
def test_a_limit_of_the_session_is_said(session, opts, script, said):
    s = session(*opts)
    done = s.sh(script, "-t", "50s")
    assert done.returncode in (124, 137)
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("cordon: ")]
    assert lines == [
        f"cordon: {said} of the session reached; the session was ended "
        f"(raise it with {opts[0]} of 'cordon session start')"
    ]


def test_output_that_cannot_be_written_is_a_failure(session):
    s = session()
    with open("/dev/full", "w") as full:
        done = s.sh("echo out", stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 125
        assert one_line(done) == "cordon: cannot write the command's output: no space left on device\n"
        assert s.sh("echo out; exit 3", stdout=full, stderr=subprocess.PIPE).returncode == 3
        assert s.sh("echo out", "-d").stdout == b"3\n"
        assert until(lambda: s.call("logs", s.name, "3").stdout == b"out\n")
        done = s.call("logs", s.name, "3", stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 125 and "cannot write standard output" in one_line(done)


def test_numbers_of_commands(session):
    s = session()
    assert s.exec("no-such-program", opts=["-d"]).stdout == b"1\n"
    assert until(lambda: not s.status()["commands"][0]["running"])
    done = s.call("logs", s.name, "1")  # the only place where this is said
    assert done.returncode == 125 and "command 'no-such-program' not found" in one_line(done)
    text = s.call("ps", s.name).stdout.decode().splitlines()
    assert [line.index("COMMAND") for line in text[:1]] == [line.index("no-such-program") for line in text[1:]]
    for verb in ("kill", "logs"):
        done = s.call(verb, s.name, "x")
        assert done.returncode == 125 and "'x' is not the number of a command" in one_line(done)
        assert f"'cordon session ps {s.name}' lists" in one_line(s.call(verb, s.name, "99"))
    assert s.sh("sleep 60", "-d").stdout == b"2\n"
    assert s.call("kill", s.name, "2", "sigterm").returncode == 0


def test_background_kept_or_killed(session, level):
    s = session(level=level)
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 87.{}'"
    assert s.sh("sleep 87.1 & exit 0").returncode == 0
    assert s.sh(look.format(1)).stdout == b"1\n"
    assert s.sh("sleep 87.2 & exit 0", "--kill-rest").returncode == 0
    assert s.sh(look.format(2)).stdout == b"0\n"
    # A server that goes on writing to its standard output must not die of that.
    assert s.sh('(sleep 0.2; echo late; echo alive > "${TMPDIR:-/tmp}/alive") &').returncode == 0
    assert until(lambda: s.sh('cat "${TMPDIR:-/tmp}/alive"').stdout == b"alive\n")


def test_ten_at_once(session, level):
    s = session(level=level)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        got = list(pool.map(lambda i: s.sh(f"sleep 0.2; echo {i}; exit {i}"), range(10)))
    assert [(d.returncode, d.stdout) for d in got] == [(i, b"%d\n" % i) for i in range(10)]


def test_pause_and_resume(session, level):
    s = session(level=level)
    s.sh('while :; do echo x >> "${TMPDIR:-/tmp}/ticks"; sleep 0.02; done', "-d")
    count = lambda: int(s.sh('wc -c < "${TMPDIR:-/tmp}/ticks"').stdout or b"0")  # noqa: E731
    assert until(lambda: count() > 4)
    assert s.call("pause", s.name).returncode == 0
    assert s.status()["paused"]
    refused = s.sh("true")
    assert refused.returncode == 125 and "paused" in one_line(refused)
    time.sleep(0.3)
    assert s.call("resume", s.name).returncode == 0
    before = count()
    assert until(lambda: count() > before)


def test_files(session, me, level):
    s = session(level=level)
    tmp = s.sh('echo "${TMPDIR:-/tmp}"').stdout.decode().strip()
    data = os.urandom(300_000)
    source = me.write(me.work / "data", data, 0o640)
    assert s.call("put", s.name, source, f"{tmp}/a/b").returncode == 0
    assert s.call("get", s.name, f"{tmp}/a/b", "-").stdout == data
    assert s.call("get", s.name, f"{tmp}/a/b", me.work / "back").returncode == 0
    assert (me.work / "back").read_bytes() == data
    listed = json.loads(s.call("ls", "--json", s.name, f"{tmp}/a").stdout)
    assert [(f["name"], f["size"]) for f in listed] == [("b", 300_000)]
    missing = s.call("get", s.name, f"{tmp}/none", me.work / "none")
    assert missing.returncode == 125 and not (me.work / "none").exists()
    # A new file takes the name, so whatever has it now must be one, too: as root this could be a device.
    os.mkfifo(me.work / "fifo")
    done = s.call("get", s.name, f"{tmp}/a/b", me.work / "fifo")
    assert done.returncode == 125 and "not a regular file ('-' is standard output)" in one_line(done)
    assert (me.work / "fifo").is_fifo()
    assert "cat > PATH" in one_line(s.call("put", s.name, me.work / "fifo", f"{tmp}/x"))
    assert "tar x" in one_line(s.call("put", s.name, me.work, f"{tmp}/x"))
    # The rights are a command's: what is not granted is not there.
    secret = me.write(me.out / "secret", "secret")
    assert b"secret\n" not in s.call("get", s.name, secret, "-").stdout
    s.call("put", s.name, source, me.out / "new")  # at most in a private /tmp
    assert not (me.out / "new").exists()


def test_path_is_that_of_a_run(session, me, level):
    tools = me.mkdir("tools")
    me.write(tools / "mytool", "#!/bin/sh\necho mine\n", 0o755)
    path = {"PATH": f"{tools}:{PATH}"}

    def start(*opts):
        name = f"t{os.getpid()}-path"
        done = me.outside([me.cordon, "session", "start", "--name", name, "--isolation", level, *opts], env=path)
        assert done.returncode == 0, done
        return Session(me, name=name)  # for its verbs: it runs already

    for opts, said in ((["-r", tools], b"mine\n"), ([], b"")):
        s = start(*opts)
        try:
            done = s.exec("mytool")
            assert done.stdout == said and (done.returncode == 0) == bool(said), done
            inside = s.sh("echo $PATH").stdout
            assert inside == me.run(opts, ["sh", "-c", "echo $PATH"], level, env=path).stdout
        finally:
            assert s.stop().returncode == 0


def test_private_files_stay(session, me, level):
    """Of a session and of the next one, and of a run."""
    kept = me.work / "kept"
    one = session("--private", kept, level=level)
    assert one.sh('echo x >> ~/log; echo note > "${TMPDIR:-/tmp}/note"').returncode == 0
    assert one.stop().returncode == 0
    two = session("--private", kept, level=level)
    assert two.sh('cat ~/log "${TMPDIR:-/tmp}/note"').stdout == b"x\nnote\n"
    assert two.stop().returncode == 0
    assert me.run(["--private", kept], ["sh", "-c", "cat ~/log"], level).stdout == b"x\n"
    wrong = me.outside([me.cordon, "session", "start", "--private", ""])
    assert wrong.returncode == 125 and "--private needs a directory" in one_line(wrong)


# --- the same layers -----------------------------------------------------------------------------

STATE = (
    "grep -E '^(Seccomp|Seccomp_filters|NoNewPrivs|Cap[A-Z][a-z]+|Uid|Gid|Groups|SigBlk|SigIgn):' /proc/self/status;"
    "ulimit -a; umask; cut -d' ' -f3-6 /proc/self/mountinfo; ls /proc/self/fd; cat /proc/self/oom_score_adj"
)


def test_state_is_that_of_a_run(session, me, level):
    run = me.run([], ["sh", "-c", STATE], level, input=b"").stdout.decode().splitlines()
    s = session(level=level)
    for _ in range(2):
        got = s.sh(STATE, input=b"").stdout.decode().splitlines()
        # Device numbers differ from sandbox to sandbox; so may the tasks that the user has besides.
        clean = lambda lines: [re.sub(r"^\d+:\d+ |^process .*", "", x) for x in lines]  # noqa: E731
        assert clean(got) == clean(run)
    assert any(x.startswith("Seccomp:") and x.endswith("2") for x in run)


def test_descriptors_are_those_of_a_run(session, me, level, probes):
    probe = probes["fds"]
    extra = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        outside = rows(me.outside([probe], pass_fds=[extra]).stdout)
        assert [n for n in outside if n.startswith("open-")] != ["open-0-1-2"]  # the control
        run = rows(me.run(["-r", probe], [probe], level, pass_fds=[extra]).stdout)
        s = session("-r", probe, level=level)
        got = rows(s.exec(probe, pass_fds=[extra]).stdout)
        assert got == run
        assert [n for n in got if n.startswith("open-")] == ["open-0-1-2"]
    finally:
        os.close(extra)


def test_landlock_holds(session, me, level):
    canary = me.write(me.out / "canary", "canary")
    assert me.outside(["cat", canary]).stdout == b"canary"  # the control
    s = session(level=level)
    done = s.sh(f"cat {canary}; echo x > {me.out}/new; echo x >> {canary}")
    assert b"canary" not in done.stdout and not (me.out / "new").exists()
    assert canary.read_text() == "canary"


# --- hostile commands ----------------------------------------------------------------------------


def test_kill_everything(session, level):
    s = session(level=level)
    assert s.sh("sleep 60", "-d").returncode == 0
    # At level landlock kill -1 may be refused; what matters is that the session lives.
    s.sh("trap '' TERM; kill -9 -1; kill -9 1; sleep 0.1")
    assert s.sh("echo alive").stdout == b"alive\n"


def test_a_neighbour_that_stops_all(session):
    """A guest may stop a command's process before it executes anything: init must not wait for it."""
    s = session("--grace", "100ms")
    s.sh("(trap '' TERM HUP INT; while :; do kill -STOP -1; done) >/dev/null 2>&1 &")
    for _ in range(5):
        assert s.sh("echo here", "-t", "500ms").returncode in (0, 124)
    begin = time.monotonic()
    assert s.stop().returncode == 0
    assert time.monotonic() - begin < ceiling(10)


def test_memory_limit_under_a_neighbour_that_stops_all(session):
    """The watch goes on while commands cannot start."""
    s = session("-m", "64M")
    # Once the command that starts it has ended, or that is stopped, too.
    s.sh("(trap '' TERM HUP; while kill -0 $$; do :; done; while :; do kill -STOP -1; done) >/dev/null 2>&1 &")
    subprocess_done = s.sh("head -c 400M /dev/zero | tail", "-t", "20s")
    assert subprocess_done.returncode in (124, 125, 137)


def test_fork_bomb_under_the_sessions_limit(session, level):
    s = session("-P", "40", level=level)
    s.sh("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.3", "-t", "2s")
    assert s.stop().returncode == 0


def test_memory_limit_ends_the_session(session, level):
    s = session("-m", "64M", level=level)
    done = s.sh("head -c 400M /dev/zero | tail")
    assert done.returncode == 137, done
    assert until(lambda: s.sh("true").returncode == 125)


def test_full_pipes_and_closed_descriptors(session, level):
    s = session(level=level)
    assert s.sh("exec <&- >&- 2>&-; sleep 0.1; exit 6").returncode == 6
    done = s.sh("head -c 5000000 /dev/zero; exit 7")
    assert (done.returncode, len(done.stdout)) == (7, 5_000_000)
    slow = s.me.popen(
        [s.me.cordon, "session", "exec", s.name, "--", "sh", "-c", "head -c 9000000 /dev/zero"], stdout=subprocess.PIPE
    )
    assert s.sh("echo meanwhile").stdout == b"meanwhile\n"  # nobody reads the other one
    assert len(slow.communicate(timeout=30)[0]) == 9_000_000


def test_a_guest_has_no_way_to_the_socket(session, me, level):
    """The positive control is the same program outside, which is answered."""
    s = session(level=level)
    sock, key = place(me) / f"{s.name}.sock", place(me) / f"{s.name}.key"
    program = (
        "import socket, struct, sys\n"
        "try: key = open(sys.argv[2]).read()\n"
        "except OSError as e: key = sys.argv[3]; print('key', type(e).__name__)\n"
        "try:\n"
        "    s = socket.socket(socket.AF_UNIX)\n"
        "    s.connect(sys.argv[1])\n"
        "    text = key.encode() + b'\\0'\n"
        "    s.sendall(struct.pack('IIII', 0x31535343, 2, len(text), 1) + text)\n"
        "    print('got', len(s.recv(4096)))\n"
        "except OSError as e: print('no', type(e).__name__)\n"
    )
    control = me.outside(["python3", "-c", program, sock, key, ""]).stdout.decode()
    assert re.search(r"got [1-9]", control), control
    # The key on its command line, as if it had leaked; and the directory granted, as far as it can be.
    known = me.outside(["cat", key]).stdout.decode()
    for grant in ([], ["-r", place(me)], ["-w", place(me)], ["-r", place(me).parent]):
        done = me.run(grant, ["python3", "-c", program, sock, key, known], level)
        if done.returncode == 125:
            continue  # refused altogether
        assert "got 0" in done.stdout.decode() or "no " in done.stdout.decode(), (grant, done)
        if level == "namespaces":
            assert "key " in done.stdout.decode(), (grant, done)
    inside = s.exec("python3", "-c", program, str(sock), str(key), known).stdout.decode()
    assert "got 0" in inside or "no " in inside, inside
    assert s.sh("true").returncode == 0


# Takes on a filter that allows everything, then asks for the status with the right key.
FILTERED = """
import ctypes, os, socket, struct, sys
if sys.argv[3] == "filtered":
    rows = [(0x06, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.addressof(prog), 0, 0) == 0
text = open(sys.argv[2], "rb").read() + bytes(1)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(struct.pack("IIII", 0x31535343, 2, len(text), 1) + text)
    print(len(s.recv(4096)))
except OSError:
    print(0)
"""


def test_who_is_more_confined_is_refused(session, me):
    """Even with the key: a sandboxed command has filters that the supervisor has not."""
    s = session()
    files = [place(me) / f"{s.name}.sock", place(me) / f"{s.name}.key"]
    assert int(me.outside(["python3", "-c", FILTERED, *files, "plain"]).stdout) > 0
    assert me.outside(["python3", "-c", FILTERED, *files, "filtered"]).stdout == b"0\n"


# --- names, lifetimes, kills ---------------------------------------------------------------------


def test_names(session, me):
    s = session()
    second = me.outside([me.cordon, "session", "start", "--name", s.name])
    assert second.returncode == 125 and "is running already" in one_line(second)
    assert "there is no session" in one_line(me.outside([me.cordon, "session", "exec", "none-such", "true"]))
    assert "cannot be the name" in one_line(me.outside([me.cordon, "session", "start", "--name", "../x"]))
    assert s.stop().returncode == 0
    session(name=s.name)  # free again at once


def test_a_set_up_that_fails(me):
    done = me.outside([me.cordon, "session", "start", "-r", "/no/such/file"])
    assert done.returncode == 125 and "/no/such/file" in one_line(done)
    assert me.outside([me.cordon, "session", "start", "--cwd", "/no/such"]).returncode == 125
    done = me.outside([me.cordon, "session", "start", "no-such-thing"])
    assert done.returncode == 125 and "the name of a session is given with --name" in one_line(done)
    done = me.outside([me.cordon, "session", "start", "sh", "more"])
    assert done.returncode == 125 and "usage: cordon session start" in one_line(done)
    done = me.outside([me.cordon, "session", "start", "--idle", "-1"])
    assert done.returncode == 125 and one_line(done).startswith("cordon: --idle: '-1' is not a duration")


def test_a_published_port_is_told_once(session):
    s = session("--publish", "0:8000")
    assert re.fullmatch(rb"cordon: port 8000 is at 127\.0\.0\.1:\d+ \(tcp, udp\)\n", s.start.stderr)


def test_receipt_at_the_end(session, me):
    receipt = me.work / "receipt"
    s = session("--receipt", receipt)
    s.sh("true")
    got = json.loads(s.stop().stdout)
    assert got["session"] == {"name": s.name, "ended_by": "stop", "commands": 1}
    assert got["receipt"]["kind"] == "cancelled" and got["receipt"]["error"] is None
    assert json.loads(receipt.read_text()) == got


def test_ps(session, me):
    one, two = session(), session()
    two.sh("sleep 60", "-d")
    listed = json.loads(me.outside([me.cordon, "ps", "--json"]).stdout)
    listed = {s["name"]: s for s in listed if s["type"] == "session"}
    assert {one.name, two.name} <= set(listed)
    assert listed[two.name]["tasks"] >= 1 and listed[two.name]["memory_bytes"] > 0
    assert listed[one.name]["tasks"] == 0 and listed[one.name]["uptime_ms"] > 0
    text = me.outside([me.cordon, "ps"]).stdout.decode()
    assert text.startswith("NAME") and one.name in text


def test_ps_counts_cpu_time(session):
    """That of commands that are over, and of one that goes on; by what the kernel says of them, not by a clock."""
    s = session()
    before = s.status()["cpu_ms"]
    spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
    used = json.loads(s.sh(spin, "--json").stdout)["usage"]
    used = used["cpu_user_ms"] + used["cpu_system_ms"]
    assert used > 5
    after = s.status()["cpu_ms"]
    assert before + 0.9 * used <= after < before + 3 * used + 100
    s.sh("while :; do :; done", "-d")
    assert until(lambda: s.status()["cpu_ms"] > after + 100)
    assert s.call("pause", s.name).returncode == 0
    stopped = s.status()["cpu_ms"]
    time.sleep(0.5)
    assert s.status()["cpu_ms"] < stopped + 200, "what stands still uses nothing"


def test_eight_without_cross_talk(session):
    many = [session() for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda s: s.sh(f"echo {s.name} > /tmp/mine; sleep 0.1"), many))
        got = list(pool.map(lambda s: s.sh("cat /tmp/mine; ls /tmp; ls /proc | grep -c '^[0-9]'"), many))
    for s, done in zip(many, got):
        lines = done.stdout.decode().splitlines()
        assert lines[0] == s.name and "mine" in lines and int(lines[-1]) < 8


def test_idle_and_lifetime(session, me):
    idle = session("--idle", "400ms")
    assert until(lambda: idle.sh("true").returncode == 0)
    busy = idle.sh("sleep 1")
    assert busy.returncode == 0  # a command is no idleness
    gone = lambda s: s.name not in me.outside([me.cordon, "ps", "--json"]).stdout.decode()  # noqa: E731
    time.sleep(0.6)
    assert until(lambda: not (place(me) / f"{idle.name}.key").exists())
    short = session("-t", "1s")
    begin = time.monotonic()
    assert short.sh("sleep 60").returncode == 124
    assert time.monotonic() - begin < ceiling(10)
    assert until(lambda: gone(short))


def test_killed_supervisor(session, me, level):
    s = session(level=level)
    canary = me.mkdir("canary")
    w = session("-w", canary, level=level)
    w.sh(f"while :; do date +%s%N > {canary}/tick; sleep 0.02; done", "-d")
    assert until(lambda: (canary / "tick").exists())
    os.kill(w.status()["pid"], signal.SIGKILL)
    time.sleep(0.5)
    before = (canary / "tick").read_text()
    time.sleep(0.2)
    assert (canary / "tick").read_text() == before  # the sandbox went with it
    done = w.sh("true")
    assert done.returncode == 125 and b"its supervisor was killed" in done.stderr
    assert not list(place(me).glob(w.name + ".*"))
    assert s.sh("true").returncode == 0
    session(name=w.name, level=level)


@pytest.mark.parametrize("keep", [False, True])
def test_killed_client(session, me, keep):
    s = session()
    opts = ["--keep"] if keep else []
    script = "echo begun; sleep 1; echo done > /tmp/done"
    client = me.popen(
        [me.cordon, "session", "exec", *opts, s.name, "--", "sh", "-c", script], stdout=subprocess.PIPE
    )
    assert client.stdout.readline() == b"begun\n"
    client.kill()
    client.wait()
    time.sleep(1.5)
    assert (s.sh("cat /tmp/done").returncode == 0) == keep
    assert s.sh("echo alive").stdout == b"alive\n"
    client.stdout.close()


def guests(word):
    """The commands that sleep for so long."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if path.read_bytes() == f"sleep\0{word}\0".encode() else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize("victim", ["supervisor", "clients", "starter"])
def test_killed_at_any_moment(session, me, victim):
    """While commands begin and run, or the session itself begins: nothing is left of what was to end, nobody
    hangs, and the next call works."""
    name = f"t{os.getpid()}-killed"
    begun = 0
    for _ in range(rounds(12)):
        word = f"{random.randrange(10**6, 10**7)}.5"
        if victim == "starter":
            start = me.popen([me.cordon, "session", "start", "--name", name], stdout=-1, stderr=-1)
            time.sleep(random.random() * 0.012)
            start.kill()
            start.communicate(timeout=20)
            # It may have come so far that the session is there.
            s = Session(me, name=name)
            assert s.start.returncode == 0 or "is running already" in one_line(s.start)
            assert until(lambda s=s: s.sh("true").returncode == 0)
            assert s.stop().returncode == 0
            continue
        s = session()
        supervisor = s.status()["pid"]
        script = f"echo begun; sleep {word} & exec sleep {word}"
        clients = [
            me.popen([me.cordon, "session", "exec", s.name, "--", "sh", "-c", script], stdout=-1, stderr=-1)
            for _ in range(3)
        ]
        time.sleep(random.random() * 0.03)
        if victim == "supervisor":
            os.kill(supervisor, signal.SIGKILL)
        else:
            for client in clients:
                client.kill()
        for client in clients:
            out, err = client.communicate(timeout=20)  # it does not wait for ever
            begun += out == b"begun\n"
            assert client.returncode == (125 if victim == "supervisor" else -signal.SIGKILL), err
        assert until(lambda word=word: not guests(word))
        done = s.sh("echo alive")
        if victim == "supervisor":
            assert done.returncode == 125 and not list(place(me).glob(s.name + ".*")), done
            session(name=s.name)
        else:
            assert done.stdout == b"alive\n"
            assert until(lambda s=s: not any(c["running"] for c in s.status()["commands"]))
    assert begun or victim == "starter", "the control: some had begun"


def test_signals_of_the_client(session, me):
    s = session()
    script = "trap 'echo tidy; exit 9' INT; echo begun; while :; do sleep 0.05; done"
    client = me.popen([me.cordon, "session", "exec", s.name, "--", "sh", "-c", script], stdout=subprocess.PIPE)
    assert client.stdout.readline() == b"begun\n"
    client.send_signal(signal.SIGINT)
    assert client.communicate(timeout=20)[0] == b"tidy\n"
    assert client.returncode == 9


def test_clients_that_talk_nonsense(session, me):
    s = session()
    sock, key = str(place(me) / f"{s.name}.sock"), (place(me) / f"{s.name}.key").read_text()
    program = (
        "import os, socket, struct, sys\n"
        "key = sys.argv[2].encode() + b'\\0'\n"
        "def say(data):\n"
        "    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.settimeout(0.2)\n"
        "    try: c.sendall(data); c.recv(100)\n"
        "    except OSError: pass\n"
        "head = lambda t, size, n: struct.pack('IIII', 0x31535343, t, size, n)\n"
        "for t in range(0, 20):\n"
        "    say(head(t, len(key), 1) + key); say(head(t, 4, 1) + b'key\\0')\n"
        "    say(head(t, 2**31, 1)); say(head(t, 10, 60000) + b'\\0' * 10); say(head(t, len(key) + 7, 8) + key + b'\\0' * 7)\n"
        "for _ in range(200): say(os.urandom(64))\n"
    )
    # Without "stop", which is a request like another.
    program = program.replace("range(0, 20)", "[x for x in range(0, 20) if x != 5]")
    assert me.outside(["python3", "-c", program, sock, key], timeout=120).returncode == 0
    s.call("resume", s.name)
    assert s.sh("echo alive").stdout == b"alive\n"


def test_another_user(me, session):
    if not me.switch:
        pytest.skip("needs a second user")
    s = session()
    name = str(place(me) / f"{s.name}.sock")
    # Root passes the modes, but is not the same user.
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(name)
        c.settimeout(ceiling(5))
        assert c.recv(10) == b""


# --- the page ------------------------------------------------------------------------------------


def test_examples_of_the_page_run(me):
    """Every command of docs/sessions.md, with the output that stands below it."""
    bin_dir = me.mkdir("bin")
    os.symlink(me.cordon, bin_dir / "cordon")
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/sessions.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            done = me.outside(["sh", "-c", command], env={"PATH": f"{bin_dir}:{PATH}"})
            assert (done.returncode, done.stdout.decode()) == (0, expected), (command, done)
