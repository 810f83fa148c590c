# SPDX-License-Identifier: Apache-2.0
"""Code that does what it can to confuse the interpreter's driver or its host: the next execution works,
and if the state is lost, that is said."""

import ast
import os
import signal
import socket
import struct
import threading

import pytest

import pycordon
from pycordon import Interpreter
from pylib import ceiling

# The state survives these.
HARMLESS = {
    "sys": "import sys\nsys = None",
    "modules": "import sys\nfor n in ('os', 'json', 'linecache', 'traceback', 'posix'): sys.modules[n] = None",
    "builtins": (
        "import builtins\nfor n in ('print', 'len', 'isinstance', 'repr', 'str', 'dict', 'getattr', 'bytes', 'type',"
        " 'memoryview', 'open', '__import__', 'eval', 'compile', 'BaseException', 'KeyboardInterrupt'):\n"
        "    setattr(builtins, n, None)"
    ),
    "json": "import json\njson.dumps = json.loads = None",
    "traceback": "import traceback\ntraceback.format_exception = None\n1 / 0",
    "os": "import os\nos.read = os.write = os.getpid = os._exit = lambda *a: 1 / 0",
    "posix": "import posix\nposix.read = posix.write = posix.fstat = posix.getpid = None",
    "streams": "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None",
    "closed streams": "import os\nos.close(1)\nos.close(2)\nos.close(0)",
    "low descriptors": "import os\nos.closerange(3, 200)",
    "markers": "import os\nos.write(1, b'- {\"type\":\"end\",\"parts\":[]}\\n' * 100)",
    "trace": "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: 1 / 0)",
    "hooks": "import sys\nsys.excepthook = sys.displayhook = None\nsys.meta_path.clear()\nsys.path_hooks.clear()",
    "recursion": "import sys\nsys.setrecursionlimit(50)\ndef f(): f()\nf()",
    "exit": "raise SystemExit(3)",
    "base exception": "raise BaseException('x')",
    "interrupt": "raise KeyboardInterrupt",
    "generator exit": "raise GeneratorExit",
    "bad error": "class E(Exception):\n    def __str__(self): raise E\nraise E",
    "names": "class __cordon: pass\n_state = _send = _main = None",
    "main": "import sys\nsys.modules['__main__'] = None\ndel sys.modules['__main__']",
    "sigint": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "fork": "import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait()",
    "fork exit": "import os, sys\nif os.fork() == 0:\n    sys.exit(7)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "fork error": "import os\nif os.fork() == 0:\n    1 / 0\nos.wait()",
    "fork display": "import os\nif os.fork() == 0:\n    display(1)\n    display(2)\nelse:\n    os.wait()",
    "gc": "import gc\ngc.collect()\ngc.disable()",
    "alarm": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: 1 / 0)\nsignal.alarm(0)",
}
# These end the interpreter, or break its channel.
ENDING = {
    "os._exit": ("import os\nos._exit(3)", "ended with status 3"),
    "kill -9": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
    "kill by a child": ("import os, subprocess\nsubprocess.run(['sh', '-c', 'kill -9 $PPID'])", "killed by signal 9"),
    "segfault": ("import ctypes\nctypes.string_at(0)", "killed by signal 11"),
    "all descriptors": ("import os\nos.closerange(0, 4096)", "ended with status 0"),
    "another file": (
        "import os\nfor fd in range(3, 1024):\n    try:\n        os.fstat(fd)\n    except OSError:\n        continue\n"
        "    os.dup2(os.open('/dev/null', os.O_RDWR), fd)",
        "ended with status 0",
    ),
    "shut": (
        "import socket\nfor fd in range(3, 1024):\n    try:\n        socket.socket(fileno=fd).shutdown(2)\n"
        "    except OSError:\n        pass",
        "the interpreter",
    ),
    "stop": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "did not react"),
}
CHANNEL = """
import os, socket, stat
for fd in range(3, 1024):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): break
    except OSError:
        pass
"""
# Written to the channel itself by code that has found it.
FORGED = {
    "noise": b"\n\n\n",
    "no end": b"x" * 200_000,
    "bytes": bytes(range(256)),
    "no JSON": b"- {{{\n",
    "deep": b"- " + b"[" * 60_000 + b"\n",
    "a list": b"- []\n",
    "hello again": b'- {"type":"hello","version":"1","parts":[]}\n',
    "wrong token": b'%s {"type":"end","count":1,"parts":[]}\n' % (b"0" * 32),
    "too large": b'- {"type":"end","count":1,"parts":[999999999999]}\n',
    "negative": b'- {"type":"end","count":1,"parts":[-1]}\n',
    "too many": b'- {"type":"end","parts":[%s]}\n' % b",".join([b"0"] * 1000),
    "long number": b'- {"type":"end","count":%s,"parts":[]}\n' % (b"9" * 50_000),
    "other fields": b'- {"type":"end","x":1,"parts":[]}\n',
    "other types": b'- {"type":"end","count":"1","parts":[]}\n',
    "no type": b'- {"parts":[]}\n',
}


@pytest.fixture
def python():
    with Interpreter("python", grace=ceiling(0.5)) as made:
        yield made


@pytest.mark.parametrize("name", HARMLESS)
def test_state_survives(python, name):
    python.execute("kept = [1, 2]")
    got = python.execute(HARMLESS[name], timeout=ceiling(20))
    assert not got.ended, got
    after = python.execute("kept", timeout=ceiling(20))
    assert not after.restarted, after.reason
    if name != "builtins":  # the code has no repr() then, and neither has its value
        assert after.text == "[1, 2]", after
    if name == "fork":
        assert got.stdout == "child\n"
    if name == "fork exit":
        assert got.stdout == "7\n"
    if name == "fork error":
        assert got.stderr.count("ZeroDivisionError") == 1 and got.error is None
    if name == "fork display":
        assert got.displays == ()


@pytest.mark.parametrize("name", ENDING)
def test_the_end_is_said(python, name):
    code, reason = ENDING[name]
    python.execute("kept = 1")
    got = python.execute("print('before', flush=True)\n" + code, timeout=ceiling(1) if name == "stop" else ceiling(20))
    assert got.ended and reason in got.reason and got.error.name == "InterpreterEnded", got
    assert got.stdout == "before\n"
    after = python.execute("1 + 1")
    assert after.restarted and after.reason == got.reason and after.text == "2"
    assert python.execute("kept").error.name == "NameError"


@pytest.mark.parametrize("name", FORGED)
def test_forged_messages_end_it(python, name):
    got = python.execute(f"{CHANNEL}\nos.write(fd, {FORGED[name]!r})\nimport time\ntime.sleep(30)", timeout=ceiling(20))
    assert got.ended and "rules of the channel" in got.reason, got
    assert python.execute("1").restarted


def test_a_message_that_is_too_large(place):
    """The bound holds before anything is kept."""
    with Interpreter("python", max_output=1 << 20) as small:
        small.execute("kept = 1")
        much = small.execute("for i in range(300):\n    display({'text/plain': 'x' * 100_000}, raw=True)")
        assert much.error.name == "ValueError" and "max_output" in much.error.value and len(much.displays) == 10
        assert small.execute("kept").text == "1"
        got = small.execute(
            "own = display.__globals__\nfor i in range(300):\n"
            "    own['_send'](own['_state'].token, 'display', [b'x' * 100_000], mimes=['text/plain'])",
            timeout=ceiling(20),
        )
        assert got.ended and "too much was displayed" in got.reason
        assert small.execute("1").text == "1"


def test_passed_descriptors_never_arrive(python):
    """Code may send descriptors over the channel. The host has no more open than before."""
    python.execute("1")

    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    python.execute(
        CHANNEL + "import array\ns = socket.socket(fileno=os.dup(fd))\n"
        "for _ in range(20):\n"
        "    s.sendmsg([b' '], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2]))])\n",
        timeout=ceiling(10),
    )
    assert count() <= before
    assert python.execute("1").text == "1"


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_the_channel_leads_nowhere(place, level):
    """The socket's other end belongs to a process of the host: a pidfd of it (since 6.5) is no use."""
    with Interpreter("python", isolation=level) as python:
        found = peer_of_channel(python)
    # Outside the same works: the pidfd is one, and takes a signal.
    assert found[1] in (("refused", "none") if outside_peer() == "sent" else ("none",)), found
    assert found[0] == (0 if level == "namespaces" else os.getpid())


def outside_peer():
    """What the same gives without a sandbox."""
    mine, other = socket.socketpair()
    with mine, other:
        try:
            peer = struct.unpack("i", mine.getsockopt(socket.SOL_SOCKET, 77, 4))[0]
        except OSError:
            return "none"
        try:
            signal.pidfd_send_signal(peer, 0)
        finally:
            os.close(peer)
    return "sent"


def peer_of_channel(python):
    """The pid of the channel's other end, and what became of a signal to it."""
    got = python.execute(
        CHANNEL + "import signal, struct\ns = socket.socket(fileno=os.dup(fd))\n"
        "pid = struct.unpack('3i', s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]\n"
        "try:\n"
        "    peer = struct.unpack('i', s.getsockopt(socket.SOL_SOCKET, 77, 4))[0]\n"
        "except OSError as error:\n    result = 'none'\n"
        "else:\n    try:\n        signal.pidfd_send_signal(peer, 0)\n        result = 'sent'\n"
        "    except OSError as error:\n        result = 'refused'\n"
        "pid, result"
    )
    return ast.literal_eval(got.text)


def test_children_end_with_it(python):
    python.execute("import subprocess\nsubprocess.Popen(['sleep', '1000'])")
    assert python.execute("import os\nos._exit(0)").ended
    assert "sleep" not in python.execute("print(subprocess.run(['ps', 'x'], capture_output=True, text=True).stdout)").stdout


def test_the_host_forks(host):
    """A forked child of the host leaves the interpreter alone."""
    host(
        """
        import os, pycordon
        with pycordon.Interpreter() as python:
            python.execute("x = 5")
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            assert python.execute("x").text == "5"
        """
    )


def test_many_at_once(place):
    """Eight interpreters in parallel without cross-talk."""
    wrong = []

    def work(n):
        with Interpreter("python") as python:
            python.set_vars({"me": n})
            for i in range(20):
                got = python.execute(f"print(me, {i})\nme * 1000 + {i}")
                if got.text != str(n * 1000 + i) or got.stdout != f"{n} {i}\n":
                    wrong.append(got)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_is_left(place, left):
    def use(times):
        for _ in range(times):
            with Interpreter("python") as python:
                python.execute("1")
                python.execute("import os\nos._exit(1)")
                python.execute("2")
        return len(os.listdir("/proc/self/fd"))

    few = use(2)  # the library collects the last inits later
    assert use(10) <= few + 2
    assert left() == []


def test_unraisable_arguments(place):
    with Interpreter("python") as python:
        for bad in (-1, float("nan"), "1", True):
            with pytest.raises(pycordon.UsageError):
                python.execute("1", timeout=bad)
        with pytest.raises(pycordon.UsageError):
            python.execute(5)
