# SPDX-License-Identifier: Apache-2.0
"""Sessions: what a client may give at the start, and with a command."""

import json
import os

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
