# SPDX-License-Identifier: Apache-2.0
"""Sessions: what a client may give at the start, and with a command."""

import json
import os
import signal
import subprocess

from conftest import ceiling
from test_session import Session, one_line, place, session, until  # noqa: F401


def test_a_policy_file(session, me):
    """Flags come on top of it, as for a run; what is wrong with it is said, and nothing is started."""
    granted, files = me.mkdir("granted"), me.mkdir("policies")
    secret = me.write(granted / "secret", "canary")
    policy = {"fs": {"read": [str(granted)]}, "env": {"set": {"A": "file", "B": "file"}}, "limits": {"memory": "64M"}}
    file = me.write(files / "policy.json", json.dumps({"version": 1, **policy}))
    assert session().exec("cat", secret).returncode != 0
    s = session("--policy", file, "--env", "B=flag")
    assert s.exec("cat", secret).stdout == b"canary"
    assert s.sh('echo "$A $B"').stdout == b"file flag\n"
    assert s.sh(f"echo x > {secret}").returncode != 0 and secret.read_text() == "canary"
    assert s.exec("python3", "-c", "bytearray(200 << 20)").returncode in (1, 137)
    bad = me.write(files / "bad.json", '{"version": 1, "limits": {"memmory": "1G"}}')
    done = Session(me, "--policy", bad, name="never")
    assert done.start.returncode == 125 and "memmory" in one_line(done.start)
    assert "never" not in me.outside([me.cordon, "ps", "--json"]).stdout.decode()


def test_descriptors_that_do_not_fit(session, me):
    """Of a request for a command: there are as many as were announced, what is passed on is a pipe, and nothing
    stays open."""
    s = session()
    sock, key = str(place(me) / f"{s.name}.sock"), (place(me) / f"{s.name}.key").read_text()
    program = (
        "import os, socket, struct, sys\n"
        "here, there = os.pipe(); file = os.open('/dev/null', os.O_RDWR); away = os.pipe()[1]\n"
        "def ask(flags, streams, *fds):\n"
        "    words = [sys.argv[2], '', '0', '0', flags, streams, '0', 'sh', '-c', 'echo out; echo channel >&3']\n"
        "    text = b''.join(word.encode() + b'\\0' for word in words)\n"
        "    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.settimeout(20)\n"
        "    socket.send_fds(c, [struct.pack('IIII', 0x31535343, 1, len(text), len(words)) + text], fds)\n"
        "    print(struct.unpack('IIII', c.recv(16))[1], end=' ')\n"
        "    c.recv(1 << 16)\n"
        "    return c\n"
        "one = ask('c', 'npn', there, there)\n"
        "for _ in range(40):\n"
        "    ask('c', 'npn', there)\n"
        "    ask('', 'npp', there)\n"
        "    ask('', 'nnn', there)\n"
        "    ask('c', 'nnn', there, there)\n"
        "    ask('c', 'npn', file, there)\n"
        "    ask('', 'pnn', there)\n"
        "    ask('f', 'nnn', *[away] * 9)\n"
        "got = b''\n"
        "while len(got) < 12: got += os.read(here, 100)\n"
        "print(sorted(got.split()))\n"
    )
    count = lambda: len(os.listdir(f"/proc/{s.status()['pid']}/fd"))  # noqa: E731
    s.sh("true")
    before = count()
    done = me.outside(["python3", "-c", program, sock, key], timeout=120)
    assert done.returncode == 0, done.stderr
    started, *errors, _ = done.stdout.decode().split(" ", 281)
    assert started != errors[0] and len(set(errors)) == 1, done.stdout
    assert done.stdout.endswith(b"[b'channel', b'out']\n")
    assert s.sh("echo alive").stdout == b"alive\n"
    assert until(lambda: count() <= before + 1)


def test_no_file_is_a_channel(session):
    """A file that the caller has open is not the command's by a slip, whatever the policy says."""
    s = session()
    s.me.write(s.me.out / "secret", "canary")
    for opened in f"5<{s.me.out}/secret", f"5<>{s.me.out}/secret", f"5<{s.me.out}", "5>&-":
        done = s.me.outside(["sh", "-c", f'exec {opened}; exec "$0" "$@"', s.me.cordon, "session", "exec", "--channel", "5", s.name, "--",
                             "cat", "/proc/self/fd/3"])  # fmt: skip
        assert done.returncode == 125 and b"canary" not in done.stdout and b"socket" in done.stderr, done


def test_variables_for_later_commands(session):
    """`session env`: for all commands that come; what is no variable, or too much, changes nothing."""
    s = session("--env", "A=start")
    call = lambda *words: s.me.outside([s.me.cordon, "session", "env", s.name, *words])  # noqa: E731
    assert call("A=later", "B=1=2", "C=").returncode == 0
    assert s.sh('echo "$A $B [$C]"').stdout == b"later 1=2 []\n"
    own = s.me.outside([s.me.cordon, "session", "exec", "-e", "A=own", s.name, "--", "sh", "-c", 'echo "$A $B"'])
    assert own.stdout == b"own 1=2\n"
    assert call("B=3").returncode == 0 and s.sh('echo "$A $B"').stdout == b"later 3\n"
    for words in ("novalue",), ("=x",), ("D=1", ""), ("D=" + "x" * 100_000, "E=" + "x" * 100_000, "F=" + "x" * 100_000), tuple(f"V{n}=1" for n in range(62)):
        done = call(*words)
        assert done.returncode == 125 and "NAME=VALUE is needed" in one_line(done), words
    assert s.sh('echo "$A $B [$D]"').stdout == b"later 3 []\n"


def test_joining_needs_a_channel_and_pipes(session):
    s = session()
    for words in (["--interpreter", "x"], ["--interpreter", "x", "--channel", "5", "-d"], ["--interpreter", "X Y", "--channel", "5"]):
        line = f'exec 5<>/dev/null; "$0" session exec {" ".join(repr(w) for w in words)} {s.name} -- true 2>&1 | cat'
        done = s.me.outside(["sh", "-c", line, s.me.cordon])
        assert b"cordon: " in done.stdout and s.status()["commands"] == [], (words, done)


def test_requests_to_join_that_are_not_to_be_understood(session, me):
    """Names, numbers of strings and descriptors: each is refused, nothing starts, nothing stays open."""
    s = session()
    sock, key = str(place(me) / f"{s.name}.sock"), (place(me) / f"{s.name}.key").read_text()
    program = (
        "import os, socket, struct, sys\n"
        "a, b = socket.socketpair(); r, w = os.pipe(); null = os.open('/dev/null', os.O_RDWR)\n"
        "def ask(words, *fds):\n"
        "    text = b''.join(word.encode() + b'\\0' for word in [sys.argv[2], *words])\n"
        "    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.settimeout(20)\n"
        "    socket.send_fds(c, [struct.pack('IIII', 0x31535343, 15, len(text), len(words) + 1) + text], fds)\n"
        "    head = c.recv(16)\n"
        "    return struct.unpack('IIII', head)[1] if len(head) == 16 else 0\n"
        "rest = ['', '0', '0', 'cr', 'npp', '0', 'sleep', '60']\n"
        "bad = [([], []), (['x'], []), (['x', *rest], [w, w]), (['x', *rest], [w, w, null]), (['x', *rest], [w, null, b.fileno()]),\n"
        "       (['', *rest], [w, w, b.fileno()]), (['../x', *rest], [w, w, b.fileno()]), (['x' * 33, *rest], [w, w, b.fileno()]),\n"
        "       (['x', *rest[:6]], [w, w, b.fileno()])]\n"
        "for _ in range(20):\n"
        "    print(sorted({ask(words, *fds) for words, fds in bad}))\n"
    )
    count = lambda: len(os.listdir(f"/proc/{s.status()['pid']}/fd"))  # noqa: E731
    s.sh("true")
    before = count()
    done = me.outside(["python3", "-c", program, sock, key], timeout=120)
    assert done.returncode == 0 and len(set(done.stdout.splitlines())) == 1, done
    assert b"12" not in done.stdout, "one was started"
    assert s.sh("echo alive").stdout == b"alive\n" and s.status()["commands"] == []
    assert until(lambda: count() <= before + 1)


def test_a_supervisor_that_does_not_answer(session, me):
    """It keeps nobody waiting: a list has it without figures, and who asks it hears which process it is."""
    s, other = session(), session()
    pid = s.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = [me.popen([me.cordon, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for words in (["session", "ps", s.name], ["session", "env", s.name, "A=1"], ["session", "stop", s.name], ["ps"], ["ps", "--json"])]  # fmt: skip
        *verbs, table, listed = [(one.communicate(timeout=ceiling(30)), one.returncode) for one in asked]
    finally:
        os.kill(pid, signal.SIGCONT)
    for (_, error), code in verbs:
        assert code == 125 and f"process {pid}, is stopped" in error.decode() and f"kill -CONT {pid}" in error.decode(), error
    lines = {line.split()[0]: line for line in table[0][0].decode().splitlines() if line}
    assert table[1] == 0 and lines[s.name].endswith("does not answer") and lines[other.name].endswith("running")
    assert {"type": "session", "name": s.name, "answers": False} in json.loads(listed[0][0])


def test_more_clients_than_it_takes(session, me):
    """128 may stay. The next one hears why not, and who only asks is still answered, 'stop' as well."""
    s = session()
    sock, key = str(place(me) / f"{s.name}.sock"), (place(me) / f"{s.name}.key").read_text()
    program = (
        "import os, socket, struct, sys\n"
        "w = os.pipe()[1]\n"
        "def ask(kind, *words, fds=()):\n"
        "    text = b''.join(word.encode() + b'\\0' for word in [sys.argv[2], *words])\n"
        "    c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.settimeout(20)\n"
        "    socket.send_fds(c, [struct.pack('IIII', 0x31535343, kind, len(text), len(words) + 1) + text], fds)\n"
        "    return c\n"
        "ours, theirs = socket.socketpair(); there = theirs.fileno()\n"
        "held = [ask(15, 'x', '', '0', '0', 'cr', 'npp', '0', 'sleep', '60', fds=(w, w, there)) for _ in range(128)]\n"
        "for _ in range(20): held.append(ask(2)); held[-1].recv(16)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    many = me.popen(["python3", "-c", program, sock, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert many.stdout.readline() == b"ready\n"
        done = s.exec("true")
        assert done.returncode == 125 and f"session '{s.name}' has 128 clients already (end some of them)" in one_line(done)
        assert [command["running"] for command in s.status()["commands"]] == [True]
        assert s.stop().returncode == 0
    finally:
        many.communicate(timeout=ceiling(20))
