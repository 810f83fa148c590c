# SPDX-License-Identifier: Apache-2.0
"""Interpreters that wait: each is used once, by a thread whose own would be the same."""

import asyncio
import ctypes
import os
import shutil
import threading

import pytest

import pycordon
from pycordon import _stock
from pylib import until


def ready(pool, count):
    until(lambda: len(pool._engine.ahead) == count, f"{len(pool._engine.ahead)} wait, and not {count}")


def is_waiting(interpreter):
    """It was started ahead."""
    return interpreter._live is not None


@pytest.fixture
def pool():
    with pycordon.Pool(interpreters={"python": 2, "bash": 1}, parked=1, limits_memory="512M") as made:
        ready(made, 3)
        yield made


def test_it_has_started_already(pool):
    with pool.interpreter("python") as python, pool.interpreter("bash") as bash:
        assert is_waiting(python) and is_waiting(bash)
        assert python.execute("x = 6 * 7\nx").text == "42"
        assert python.execute("x + 1").text == "43"
        assert bash.execute("y=1; echo $((y + 1))").stdout == "2\n"
    ready(pool, 3)


def test_none_is_used_twice(pool):
    with pool.interpreter("python") as one, pool.interpreter("python") as two:
        one.execute("open('/tmp/left', 'w').close()\nimport sys; sys.left = 1")
        pids = {one.execute("import os; os.getpid()").text, two.execute("import os; os.getpid()").text}
        assert pids  # each has a process table of its own, so that the numbers say nothing
        look = "import os, sys; os.path.exists('/tmp/left') or hasattr(sys, 'left')"
        assert two.execute(look).text == "False"
    for _ in range(4):
        ready(pool, 3)
        with pool.interpreter("python") as next_one:
            assert is_waiting(next_one)
            assert next_one.execute(look).text == "False"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_javascript():
    with pycordon.Pool(interpreters={"javascript": 1}, parked=1, limits_memory="1G") as pool:
        ready(pool, 1)
        with pool.interpreter("javascript") as node:
            assert is_waiting(node)
            assert node.execute("const a = 20; a + 1").text == "21"


def test_without(pool):
    """Languages that do not wait, other limits, and pools without any: started when they are used."""
    with pycordon.Pool(parked=1) as plain, plain.interpreter() as python:
        assert not is_waiting(python) and python.execute("1 + 1").text == "2"
    with pool.interpreter("python", max_output=1 << 20) as python:
        assert not is_waiting(python) and python.execute("1 + 1").text == "2"
    assert len(pool._engine.ahead) == 3


def test_the_policy_holds():
    with pycordon.Pool(interpreters={"python": 1}, parked=1, fs_deny=["/usr/share"]) as pool:
        ready(pool, 1)
        with pool.interpreter("python") as python:
            assert is_waiting(python)
            assert python.execute("import os; os.listdir('/usr/share')").error.name in ("FileNotFoundError", "PermissionError")
            code = "import socket; socket.create_connection(('127.0.0.1', 1), 1)"
            assert not python.execute(code).ok


def test_one_that_has_ended_is_not_handed_out(pool):
    (_, live), *_ = pool._engine.ahead._waiting["python"]
    live._started.run.cancel()
    with pool.interpreter("python") as python:
        assert is_waiting(python) and python._live is not live
        assert python.execute("1 + 1").text == "2"


def test_old_ones_are_not_used(pool, monkeypatch):
    monkeypatch.setattr(_stock, "AGE_SECONDS", 0.0)
    with pool.interpreter("python") as python:
        assert not is_waiting(python)
        assert python.execute("1 + 1").text == "2"


def test_a_changed_environment_gets_a_new_one(pool, monkeypatch):
    monkeypatch.setenv("LC_NUMERIC", "POSIX")
    with pool.interpreter("bash") as bash:
        assert not is_waiting(bash) and bash.execute("echo $LC_NUMERIC").stdout == "POSIX\n"


def test_a_changed_caller_gets_a_new_one(pool):
    """Control: as long as nothing has changed it is handed out, to any thread."""
    got = []

    def take():
        with pool.interpreter("python") as python:
            got.append((is_waiting(python), python.execute("import os; os.umask(0)").text))

    def in_thread():
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        return got.pop()

    before = os.umask(0o22)
    try:
        assert in_thread() == (True, "18")
        ready(pool, 3)
        os.umask(0o77)
        assert in_thread() == (False, "63")
    finally:
        os.umask(before)


def confine_this_thread():
    """A Landlock domain for one thread, in which nothing may be executed but what a rule allows: none."""
    libc = ctypes.CDLL(None, use_errno=True)
    rights = (ctypes.c_uint64 * 1)(1 << 12)  # removing directories: ABI 1
    fd = libc.syscall(444, rights, ctypes.sizeof(rights), 0)
    if fd < 0:
        return False
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.syscall(446, fd, 0) == 0, os.strerror(ctypes.get_errno())
    os.close(fd)
    return True


def test_a_confined_thread_gets_none():
    """An interpreter of the process's would not have the thread's domain."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.prctl(38, 1, 0, 0, 0) == 0  # so that the domain is all that changes
            pool = pycordon.Pool(interpreters={"python": 1}, parked=1).start()
            ready(pool, 1)
            got = []

            def take():
                if not confine_this_thread():
                    got.append(None)
                    return
                got.append(is_waiting(pool.interpreter("python")))

            thread = threading.Thread(target=take)
            thread.start()
            thread.join()
            ready(pool, 1)
            assert got == [False] or got == [None], got
            with pool.interpreter("python") as python:  # control: this thread is not confined
                assert is_waiting(python)
            pool.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_has_none(pool):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with pool.interpreter("python") as python:
                status = 0 if not is_waiting(python) and python.execute("2 + 2").text == "4" else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    with pool.interpreter("python") as python:
        assert is_waiting(python) and python.execute("1 + 1").text == "2"


def children():
    """Of all threads, without those that have ended and were not collected yet."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            found |= set(file.read().split())
    return {pid for pid in found if not ended(pid)}


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_closing_ends_all():
    before = children()
    pool = pycordon.Pool(interpreters={"python": 2}, parked=1).start()
    ready(pool, 2)
    taken = pool.interpreter("python")
    pool.close()
    with pytest.raises(pycordon.ClosedError):
        pool.interpreter("python")
    assert not taken.execute("1").ok or taken._live is None
    until(lambda: children() <= before, "processes are left")


def test_closed_while_they_start():
    for _ in range(5):
        pool = pycordon.Pool(interpreters={"python": 3}, parked=1).start()
        pool.close()
        assert len(pool._engine.ahead) == 0


def test_asyncio():
    async def main():
        async with pycordon.AsyncPool(interpreters={"python": 1}, parked=1) as pool:
            while len(pool._engine.ahead) < 1:
                await asyncio.sleep(0.005)
            async with pool.interpreter("python") as python:
                assert is_waiting(python)
                assert (await python.execute("1 + 1")).text == "2"

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad", [["javascript"], {"cobol": 1}, {"python": 0}, {"python": 65}, {"python": "2"}, {"python": True}]
)
def test_bad_arguments(bad):
    with pytest.raises(pycordon.UsageError):
        pycordon.Pool(interpreters=bad)
