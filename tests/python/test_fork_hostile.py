# SPDX-License-Identifier: Apache-2.0
"""Code that wants more from a fork than it has: an image is what the guest made of it, and may do what
the guest may do."""

import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest

import pycordon
from pycordon import Interpreter, SetupError, StateError, _channel, _image, _interpreter
from pylib import ceiling, descendants, start_of, until

# Takes the driver's place at the next request for a fork. `say` writes to the host.
TAKE = """
import gc, os
driver = next(o for o in gc.get_objects() if type(o) is dict and o.get('__name__') == '<cordon>' and '_serve' in o)
state = driver['_state']
def say(data):
    while data: data = data[os.write(state.fd, data):]
def head(token, what, *sizes): say(token + b' {"type":"%s","parts":[%s]}\\n' % (what, b','.join(b'%d' % n for n in sizes)))
def value(token): say(token + b' {"type":"value","kind":"none","parts":[]}\\n')
def evil(token, data):
    CODE
driver['_make_freezable'] = evil
kept = 7
"""


@pytest.fixture
def python(place):
    with Interpreter("python", grace=ceiling(0.5)) as made:
        yield made


def lie(python, code):
    assert python.execute(TAKE.replace("CODE", code)).ok


BAD_IMAGES = {
    "noise": "head(token, b'image', 1 << 20); say(os.urandom(1 << 20)); value(token)",
    "one byte": "head(token, b'image', 1); say(b'x'); value(token)",
    "a script": "head(token, b'image', 17); say(b'#!/bin/sh\\necho hi\\n'[:17]); value(token)",
    "another program": "data = open('/bin/true', 'rb').read(); head(token, b'image', len(data)); say(data); value(token)",
    "no entry": (
        "import struct; data = b'\\x7fELF\\2\\1\\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)"
        " + struct.pack('<IIQQQQQQ', 1, 7, 0, 0x10000, 0x10000, 4096, 4096, 4096) + bytes(4096);"
        " head(token, b'image', len(data)); say(data); value(token)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_an_image_that_is_none(python, name, left):
    """It is executed inside, where it fails; the interpreter goes on."""
    lie(python, BAD_IMAGES[name])
    fork = python.fork()
    for _ in range(2):
        with pytest.raises((SetupError, StateError)):
            fork.execute("1")
    fork.close()
    assert python.execute("kept").text == "7"
    assert len(left()) <= 2


def test_an_image_comes_in_pieces(monkeypatch):
    """However fast it is sent: an event loop must get to its other tasks."""
    monkeypatch.setattr(_channel, "_IMAGE_CHUNK", 1000)
    ours, theirs = socket.socketpair()
    image, channel = _image.Image(), _channel.Channel(ours.fileno(), 1 << 20)
    channel.expect_image(image, 1 << 20)
    theirs.sendall(b't {"type":"image","parts":[50000]}\n')
    assert [message.type for message in channel.receive()] == ["image"]
    theirs.sendall(b"x" * 50000 + b't {"type":"value","kind":"none","parts":[]}\n')
    sizes, found = [], []
    while not found:
        found = channel.receive()
        sizes.append(image.size)
    assert sizes == [16000, 32000, 48000, 50000] and os.pread(image.fd, 60000, 0) == b"x" * 50000
    channel.close()
    image.close()
    ours.close()
    theirs.close()


BROKEN = {
    "too large": "head(token, b'image', 1 << 45)",
    "larger than its limit": "head(token, b'image', 900 << 20)",
    "negative": "say(token + b' {\"type\":\"image\",\"parts\":[-5]}\\n')",
    "in two parts": "head(token, b'image', 5, 5); say(b'x' * 10)",
    "twice": "head(token, b'image', 5); say(b'x' * 5); head(token, b'image', 5); say(b'x' * 5)",
    "more than it said": "head(token, b'image', 5); say(b'x' * 500_000)",
    "for another request": "head(b'0' * 32, b'image', 5); say(b'x' * 5); value(token)",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_ends_it(python, name):
    lie(python, BROKEN[name])
    with pytest.raises(StateError, match="rules of the channel"):
        python.fork()
    assert python.execute("kept").restarted


def test_an_answer_after_a_broken_rule_is_none(python, monkeypatch):
    """It may be in the socket before the interpreter has been ended."""
    monkeypatch.setattr(_channel, "_CHUNK", 64)  # the host takes one message at a time
    wrong = "b'0' * 32 + b' {\"type\":\"image\",\"parts\":[5]}\\nxxxxx'"
    lie(python, f"say({wrong} + token + b' {{\"type\":\"value\",\"kind\":\"none\",\"parts\":[]}}\\n')")
    with pytest.raises(StateError, match="rules of the channel"):
        python.fork()
    assert python.execute("kept").restarted


def test_nothing_comes(python):
    lie(python, "value(token)")
    with pytest.raises(StateError, match="sent nothing"):
        python.fork()
    assert python.execute("kept").text == "7"


def test_what_it_says_is_one_short_line(python):
    lie(python, """say(token + b' {"type":"refused","parts":[1,2000]}\\n' + b'x' + b'\\x1b[2J\\n\\xff' * 500)""")
    with pytest.raises(StateError) as told:
        python.fork()
    assert str(told.value).isprintable() and len(str(told.value)) < 400
    lie(python, """say(token + b' {"type":"value","kind":"none","parts":[1]}\\nx')""")
    with pytest.raises(StateError, match="sent nothing"):
        python.fork()
    assert python.execute("kept").text == "7"


def test_an_image_that_was_not_asked_for(python):
    lie(python, "pass")
    got = python.execute("head(state.token, b'image', 5)\nsay(b'x' * 5)\nimport time; time.sleep(30)", timeout=ceiling(20))
    assert got.ended and "rules of the channel" in got.reason


@pytest.mark.parametrize("code", ["pass", "head(token, b'image', 1 << 20); say(b'x' * 1000)"], ids=["nothing", "a part"])
def test_one_that_never_ends(python, code, monkeypatch):
    monkeypatch.setattr(_interpreter, "FREEZE_SECONDS", 0.5)
    lie(python, code + "\n    import time; time.sleep(600)")
    with pytest.raises(StateError, match="in time"):
        python.fork()
    assert python.execute("kept").restarted


def test_memory_that_is_not_there(python):
    """Reserved memory costs the guest nothing; its image would cost the host."""
    python.execute("import mmap\nm = mmap.mmap(-1, 200 << 30, flags=mmap.MAP_PRIVATE | 0x4000)\nkept = 7")  # MAP_NORESERVE
    with pytest.raises(StateError):
        python.fork()
    assert _image.Image.most(256 << 20) < 1 << 30


def test_the_files_are_bounded(place):
    with Interpreter("python", limits_disk="4M") as python:
        python.execute("open('/tmp/x', 'wb').write(bytes(3 << 20))")
        with python.fork() as fork:
            full = fork.execute("open('/tmp/y', 'wb').write(bytes(3 << 20)); import time; time.sleep(30)", timeout=ceiling(20))
            assert full.ended and "limit of 4M" in full.reason, full


# --- what a fork may do ----------------------------------------------------------------------------

RIGHTS = """
import os, re
def rights():
    status = open('/proc/self/status').read()
    return {k: re.search(rf'^{k}:(.*)$', status, re.M).group(1).split() for k in
            ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')}
def filters(): return int(re.search(r'^Seccomp_filters:(.*)$', open('/proc/self/status').read(), re.M).group(1))
def mounts(): return sorted(re.sub(r'cordon/sandboxes/[^ /]*', '', line.split(' - ')[0].split(' ', 3)[3]) for line in open('/proc/self/mountinfo'))
def attempts():
    found = {}
    for name, work in WORK.items():
        try:
            found[name] = bool(work() or True)
        except OSError as error:
            found[name] = False
    return found
import socket
WORK = {
    'secret': lambda: open(SECRET).read(),
    'write': lambda: open(GRANTED, 'a').write('x'),
    'network': lambda: socket.create_connection(('127.0.0.1', PORT), 2).close(),
    'mount': lambda: os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY),
}
"""


def test_a_fork_may_do_no_more(place, tmp_path):
    os.chmod(tmp_path, 0o755)
    secret, granted = tmp_path / "secret", tmp_path / "granted"
    secret.write_text("canary")
    granted.write_text("x")
    for path in (secret, granted):
        os.chmod(path, 0o644)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        setting = f"SECRET, GRANTED, PORT = {str(secret)!r}, {str(granted)!r}, {server.getsockname()[1]}\n"
        names = {}
        exec(setting + RIGHTS, names)
        outside = names["attempts"]()
        assert outside["secret"] and outside["write"] and outside["network"], "the control works"
        with Interpreter("python", fs_read=[str(granted)]) as python:
            assert python.execute(setting + RIGHTS).ok
            one = python.fork()
            two = one.fork()
            for look in ("rights()", "attempts()", "mounts()"):
                mine, first, second = (each.execute(look) for each in (python, one, two))
                assert mine.ok and mine.text == first.text == second.text, look
            counts = [int(each.execute("filters()").text) for each in (python, one, two)]
            assert 0 < counts[0] <= min(counts)
            assert one.execute("attempts()").text == "{'secret': False, 'write': False, 'network': False, 'mount': False}"
            assert one.execute("open(GRANTED).read()").ok
            for each in (one, two):
                each.close()
    assert granted.read_text() == "xx"[:2] and "canary" == secret.read_text()


def test_limits_hold(place):
    with Interpreter("python", limits_memory="96M", limits_procs=8) as python:
        python.execute("data = bytearray(40 << 20)\nfor i in range(0, len(data), 4096): data[i] = 1")
        one, two = python.fork(2)
        # What it has in common with the others it may write to: that is within the limit.
        assert one.execute("for i in range(0, len(data), 4096): data[i] = 2\nsum(data[::4096])").text == str(2 * 10240)
        grown = two.execute("more = bytearray(130 << 20)\nfor i in range(0, len(more), 4096): more[i] = 1\nimport time; time.sleep(30)")
        assert grown.ended and "memory" in grown.reason, grown
        forked = one.execute("import os, time\nfor n in range(20):\n    if os.fork() == 0: time.sleep(600)")
        assert forked.error and forked.error.name == "BlockingIOError", forked
        assert python.execute("sum(data[::4096])").text == "10240"
        for each in (one, two):
            each.close()


def test_the_image_cannot_be_changed(place):
    """Neither by forks nor by runs beside them. Control: another memory file can."""
    with pycordon.Sandbox() as box, Interpreter("python", sandbox=box) as python:
        python.execute("import os; x = 1")
        one, two = python.fork(2)
        got = one.execute("""
found = []
for work in (lambda: open('/proc/self/exe', 'r+b'), lambda: os.truncate('/proc/self/exe', 0),
             lambda: os.chmod('/proc/self/exe', 0), lambda: os.setxattr('/proc/self/exe', 'user.x', b'1')):
    try:
        work()
        found.append(True)
    except OSError:
        found.append(False)
fd = os.memfd_create('mine')
control = os.write(os.open(f'/proc/self/fd/{fd}', os.O_RDWR), b'x')
open_files = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')]
(found[:2], control, [f for f in open_files if 'cordon' in f], 'memfd:cordon-fork' in os.readlink('/proc/self/exe'))
""")
        assert got.text == "([False, False], 1, [], True)", got
        # What its owner may do to the file itself does not last: the other one starts.
        assert two.execute("x").text == "1"
        looked = box.run("ls -l /proc/*/exe /proc/*/fd 2>/dev/null | grep -c memfd:cordon-fork")
        assert looked.stdout.strip() == "0"
        for each in (one, two):
            each.close()


def test_a_child_that_is_frozen_leaves_nothing(python):
    """The copy that is written has ended, and is no zombie."""
    python.execute("import os")
    python.fork().close()
    assert python.execute("""[p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())
 and not open(f'/proc/{p}/comm').read().startswith('cordon')]""").text == "[]"
    assert python.execute("try:\n    os.wait()\nexcept ChildProcessError:\n    print('none')").stdout == "none\n"


# --- kills -----------------------------------------------------------------------------------------

HOST = """
import sys, time
from pycordon import Interpreter
with Interpreter("python") as python:
    python.execute("data = bytes(30_000_000); mark = 'MARK'")
    print("ready", flush=True)
    while True:
        forks = python.fork(3)
        for fork in forks:
            fork.execute("len(data)")
        python.execute("data += b'x'")
        for fork in forks:
            fork.close()
"""


def test_kills_leave_nothing(place, left):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    env = {**os.environ, "PYTHONPATH": package}
    for _ in range(6):
        host = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, env=env, cwd="/")
        assert host.stdout.readline() == b"ready\n"
        time.sleep(random.uniform(0, 0.25))
        known = {pid: start_of(pid) for pid in descendants(host.pid)}
        host.send_signal(signal.SIGKILL)
        host.wait()
        host.stdout.close()
        until(lambda known=known: all(start_of(p) != s or s is None for p, s in known.items()), "a process is left")
    # What is left of the files goes when somebody makes a sandbox, once it is old enough.
    base = place / "state" / "cordon" / "sandboxes"
    assert left(), "the control: there was something"
    old = time.time() - 1000
    for name in os.listdir(base):
        os.utime(base / name, (old, old))

    def swept():
        with pycordon.Sandbox() as box:
            box.run(["true"])
        for name in os.listdir(base):
            if not name.startswith(".s"):
                os.utime(base / name, (old, old))
        return [name for name in left() if not name.startswith(".s")] == []

    until(swept, "directories are left")
