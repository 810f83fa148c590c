# SPDX-License-Identifier: Apache-2.0
"""Sessions from Python: commands that share a sandbox, in threads and in an event loop."""

import asyncio
import threading
import time

import pytest

import pycordon
from pylib import ceiling


@pytest.fixture(params=["namespaces", "landlock"])
def session(request):
    with pycordon.Session(isolation=request.param) as made:
        yield made


def test_commands_share_files(session):
    assert session.exec('echo kept > "${TMPDIR:-/tmp}/x"').ok
    assert session.exec('cat "${TMPDIR:-/tmp}/x"').stdout == "kept\n"
    result = session.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert session.exec("echo a; echo b >&2", merge=True).stdout == "a\nb\n"
    assert session.exec("cat", stdin="typed").stdout == "typed"
    assert session.exec("echo $A; pwd", env={"A": "b"}, cwd="/usr").stdout == "b\n/usr\n"
    assert session.exec(["no-such-program"]).returncode == 127
    with pytest.raises(pycordon.RunError):
        session.exec("exit 1", check=True)


def test_a_server_for_the_next_command(session):
    server = session.start(["python3", "-m", "http.server", "8124", "--bind", "127.0.0.1"])
    code = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8124').status)"
    if session.exec("true").isolation["level"] == "landlock":
        server.kill()  # no network of its own there
    else:
        end = time.monotonic() + 20
        while session.exec(["python3", "-c", code]).stdout != "200\n":
            assert time.monotonic() < end
        assert server.running
        server.kill()
    result = server.wait(20)
    assert result is not None and not server.running


def test_time_limit_of_a_command(session):
    assert session.exec("sleep 60", timeout=0.3).kind == "timeout"
    assert session.exec("sleep 60", timeout="300ms").returncode == 124
    assert session.exec("true").ok


def test_background(session):
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 97.{}'"
    session.exec("sleep 97.1 &")
    assert session.exec(look.format(1)).stdout == "1\n"
    session.exec("sleep 97.2 &", orphans="kill")
    assert session.exec(look.format(2)).stdout == "0\n"


def test_files(session, place):
    tmp = session.exec('printf %s "${TMPDIR:-/tmp}"').stdout
    source = place / "here" / "data"
    source.write_bytes(bytes(range(256)) * 1000)
    session.put(source, f"{tmp}/d/data")
    session.get(f"{tmp}/d/data", place / "here" / "back")
    assert (place / "here" / "back").read_bytes() == source.read_bytes()
    assert [f.name for f in session.ls(f"{tmp}/d")] == ["data"]
    with pytest.raises(FileNotFoundError):
        session.files.read(f"{tmp}/none")


def test_pause_usage_stop(session):
    command = session.start("sleep 60")
    session.pause()
    assert session.usage()["paused"] and session.usage()["commands"] == 1
    with pytest.raises(pycordon.CordonError, match="paused"):
        session.exec("true")
    session.resume()
    receipt = session.stop()
    assert receipt is not None and receipt["kind"] == "cancelled"
    with pytest.raises(pycordon.ClosedError):
        command.wait()
    with pytest.raises(pycordon.ClosedError):
        session.exec("true")


def test_many_threads(session):
    got = {}

    def one(i):
        got[i] = session.exec(f"sleep 0.1; echo {i}; exit {i}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(got[i].returncode, got[i].stdout) for i in range(10)] == [(i, f"{i}\n") for i in range(10)]


def test_limits_end_the_session():
    with pycordon.Session(max_memory_mb=64) as session:
        assert session.exec("head -c 400M /dev/zero | tail").kind == "memory"
        with pytest.raises(pycordon.CordonError, match="over"):
            session.exec("true")


def test_a_policy_that_cannot_be(place):
    with pytest.raises(pycordon.CordonError):
        pycordon.Session(fs_read=["/no/such/path"])


def test_a_list_of_commands():
    """No shell is needed for it."""
    with pycordon.Session(allowed_commands=["cat"]) as session:
        assert session.exec(["cat"], stdin="typed").stdout == "typed"
        assert session.exec(["ls"]).returncode == 126
        assert session.exec("echo x").returncode == 126


def test_path_is_the_callers(place, monkeypatch):
    tools = place / "tools"
    tools.mkdir()
    (tools / "mytool").write_text("#!/bin/sh\necho mine")
    (tools / "mytool").chmod(0o755)
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with pycordon.Session() as session:
        assert session.exec(["mytool"]).returncode == 127
    with pycordon.Session(fs_read=[str(tools)]) as session:
        assert session.exec(["mytool"]).stdout == "mine\n"
        assert session.exec("echo $PATH").stdout.endswith(f"{tools}:/usr/bin:/bin\n")


def test_async():
    async def main():
        async with pycordon.AsyncSession() as session:
            assert (await session.exec("echo hello > /tmp/x; cat /tmp/x")).stdout == "hello\n"
            got = await asyncio.gather(*(session.exec(f"sleep 0.1; exit {i}") for i in range(10)))
            assert [r.returncode for r in got] == list(range(10))
            await session.files.write("/tmp/y", "data")
            assert await session.files.read_text("/tmp/y") == "data"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.exec("sleep 96.1"), 0.3)
            end = time.monotonic() + 10
            look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 96.1'"
            while (await session.exec(look)).stdout != "0\n":
                assert time.monotonic() < end
            assert (await session.usage())["uptime_ms"] > 0
            receipt = await session.stop()
            assert receipt is not None and receipt["kind"] == "cancelled"
        assert session.closed

    asyncio.run(main())


def test_nothing_is_left(host):
    host(
        """
        import os, pycordon
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pycordon.Session() as s:
                assert s.exec("true").ok
        del s
        assert len(os.listdir("/proc/self/fd")) <= before + 4
        pycordon.Session().start("sleep 60")
        """
    )


def test_a_signal_right_after_the_start_arrives(session):
    """The command may not have become one yet."""
    for _ in range(20):
        command = session.start(["sleep", "30"])
        command.signal(15)
        got = command.wait(ceiling(10))
        assert got is not None and (got.kind, got.signal) == ("signaled", 15), got
