# SPDX-License-Identifier: Apache-2.0
"""Sessions whose commands are in one sandbox: what they share, what they do not, and their end."""

import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from agents import RunConfig, Runner
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.errors import ExecTimeoutError, ExecTransportError, SandboxError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.testing import ScriptedModel, assistant_message, function_call

import pycordon
from pycordon.adapters import _openai_shared
from pycordon.adapters.openai_agents import CordonSandboxClient, CordonSandboxClientOptions

SERVE = "echo served > index.html; python3 -m http.server 8124"
FETCH = """python3 -c '
import time, urllib.request
for _ in range({}):
    try:
        print(urllib.request.urlopen("http://localhost:8124/").read().decode())
        break
    except OSError:
        time.sleep(0.05)
'"""


def running(text):
    """Processes of this machine whose command line has that text."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if int(entry) != os.getpid() and text.encode() in line:
            found.append(int(entry))
    return found


async def gone(text):
    for _ in range(400):
        if not running(text):
            return True
        await asyncio.sleep(0.05)
    return False


async def run(session, command, **options):
    result = await session.exec(command, **options)
    return result.stdout.decode() + result.stderr.decode()


async def opened(tmp_path, name="work", **settings):
    return await CordonSandboxClient(**{"shared": True, **settings}).create(
        manifest=Manifest(root=str(tmp_path / name))
    )


@pytest.fixture
async def session(tmp_path):
    async with await opened(tmp_path) as made:
        yield made


async def test_hostile_command_works_in_the_sdks_session_and_fails_in_ours(hostile, everything):
    for client, expected in (
        (UnixLocalSandboxClient(), everything),
        (CordonSandboxClient(shared=True), set()),
    ):
        async with await client.create(options=None) as session:
            assert hostile.done(await run(session, hostile.shell)) == expected
            for tty in (False, True):
                started = await session.pty_exec_start(hostile.shell, yield_time_s=20, tty=tty)
                assert hostile.done(started.output.decode()) == expected
        await client.delete(session)


async def test_server_of_one_command_answers_the_next(tmp_path):
    for is_shared in (False, True):
        fetch = FETCH.format(600 if is_shared else 3)
        async with await opened(tmp_path, shared=is_shared) as session:
            await run(session, f"({SERVE}) >log 2>&1 &")
            assert ("served" in await run(session, fetch)) == is_shared
        async with await opened(tmp_path, shared=is_shared) as session:
            server = await session.pty_exec_start(SERVE, yield_time_s=0.25)
            started = await session.pty_exec_start(fetch, yield_time_s=20)
            assert ("served" in started.output.decode()) == is_shared
            assert server.process_id is not None


async def test_under_an_agent():
    def execute(command, milliseconds):
        arguments = {"cmd": command, "yield_time_ms": milliseconds}
        return [function_call("exec_command", arguments, call_id=f"c{milliseconds}")]

    model = ScriptedModel(
        [execute(SERVE, 250), execute(FETCH.format(600), 20000), [assistant_message("finished")]]
    )
    agent = SandboxAgent(name="a", model=model)
    config = RunConfig(sandbox=SandboxRunConfig(client=CordonSandboxClient(shared=True)))
    result = await Runner.run(agent, "go", run_config=config)
    assert "served" in result.to_input_list()[-2]["output"]
    assert await gone("http.server 8124")


async def test_exposed_port_answers_whatever_has_it():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    client = CordonSandboxClient(shared=True)
    options = CordonSandboxClientOptions((port,))
    async with await client.create(options=options) as session:
        await run(session, f"echo hi > hello; python3 -m http.server {port} >log 2>&1 &")
        endpoint = await session.resolve_exposed_port(port)
        deadline, answer = time.monotonic() + 20, b""
        while not answer.endswith(b"hi\n"):
            assert time.monotonic() < deadline
            try:
                with socket.create_connection((endpoint.host, endpoint.port), 5) as connection:
                    connection.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
                    answer = b"".join(iter(lambda: connection.recv(4096), b""))
            except OSError:
                await asyncio.sleep(0.05)
        started = await session.pty_exec_start("echo terminal", yield_time_s=5, tty=True)
        assert b"terminal" in started.output
        (await session.persist_workspace()).close()
        assert running(f"http.server {port}")
        taken = await client.create(options=options)
        async with taken:
            with pytest.raises(SandboxError) as caught:
                await taken.exec("true")
            assert "\n" not in str(caught.value.__cause__) and str(port) in str(caught.value.__cause__)


async def test_processes_stay_until_the_session_ends(tmp_path):
    client = CordonSandboxClient(shared=True)
    session = await client.create(manifest=Manifest(root=str(tmp_path / "work")))
    async with session:
        await run(session, "sleep 4811.5 & setsid sleep 4811.6 >/dev/null 2>&1 &")
        started = await session.pty_exec_start("sleep 4811.7", yield_time_s=0.25)
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 4811.8", timeout=0.3)
        assert await gone("sleep 4811.8")
        await session.pty_terminate_all()
        assert started.exit_code is None and await gone("sleep 4811.7")
        assert running("sleep 4811.5") and running("sleep 4811.6")
    assert await gone("sleep 4811.")
    await client.delete(session)


async def test_killed_host_leaves_nothing(tmp_path):
    code = f"""
import asyncio
from agents.sandbox import Manifest
from pycordon.adapters.openai_agents import CordonSandboxClient
async def main():
    client = CordonSandboxClient(shared=True)
    async with await client.create(manifest=Manifest(root={str(tmp_path)!r})) as session:
        await session.exec("setsid sleep 4822.5 >/dev/null 2>&1 &")
        await session.pty_exec_start("sleep 4822.6", yield_time_s=0.25)
        print("ready", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as host:
        assert host.stdout.readline() == b"ready\n"
        assert running("sleep 4822.5") and running("sleep 4822.6")
        host.send_signal(signal.SIGKILL)
    assert await gone("sleep 4822.")


async def test_another_session_is_out_of_reach(tmp_path):
    async with await opened(tmp_path) as one, await opened(tmp_path, "other") as other:
        await run(one, f"echo secret > /tmp/mine; ({SERVE}) >log 2>&1 &")
        assert "served" in await run(one, FETCH.format(600))
        attack = (
            "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || kill -9 ${p#/proc/}; done 2>/dev/null; "
            f"{FETCH.format(3)}; cat /tmp/mine {tmp_path / 'work'}/index.html"
        )
        said = await run(other, attack)
        assert "No such file" in said and "served" not in said and "secret" not in said
        await run(other, "(while :; do kill -9 -1; setsid true; done) >/dev/null 2>&1 &")
        assert (await run(one, FETCH.format(1) + "; cat /tmp/mine")).split() == ["served", "secret"]


async def test_memory_limit_holds_for_all_and_a_new_one_begins(tmp_path):
    async with await opened(tmp_path, max_memory_mb=96) as session:
        await run(session, "echo kept > here; sleep 4844.5 >/dev/null 2>&1 &")
        result = await session.exec("head -c 400M /dev/zero | tail")
        assert result.exit_code == 137 and b"every process of this environment ended" in result.stderr
        assert await gone("sleep 4844.5")
        assert await run(session, "cat here") == "kept\n"
        started = await session.pty_exec_start("head -c 400M /dev/zero | tail", yield_time_s=20)
        assert started.exit_code == 137 and b"memory" in started.output


async def test_lifetime_is_that_of_the_session(tmp_path):
    async with await opened(tmp_path, max_execution_seconds=1) as session:
        await session.pty_exec_start("sleep 60", yield_time_s=20)
        with pytest.raises(ExecTransportError) as caught:
            for _ in range(100):
                with contextlib.suppress(ExecTimeoutError):  # it ran when the time was over
                    await session.exec("sleep 0.1")
        cause = str(caught.value.__cause__)
        assert "over" in cause and "1s" in cause and "\n" not in cause


async def test_output_that_nobody_takes_is_bounded(session, monkeypatch):
    monkeypatch.setattr(_openai_shared, "OUTPUT_MAX", 1 << 20)
    started = await session.pty_exec_start(
        "while ! [ -e go ]; do sleep 0.05; done; head -c 8000000 /dev/zero; touch done; sleep 600",
        yield_time_s=0.25,
    )
    root = pathlib.Path(session.state.manifest.root)
    (root / "go").touch()
    for _ in range(400):
        if (root / "done").exists():
            break
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    entry = session._inner._pty_processes[started.process_id]
    assert sum(map(len, entry.output_chunks)) < 2 << 20
    assert entry.output_chunks[-1].endswith(b"[output was cut]\n")


async def test_snapshot_is_made_beside_what_runs_and_resumed_without(tmp_path):
    client = CordonSandboxClient(shared=True)
    snapshot = LocalSnapshotSpec(base_path=tmp_path / "snapshots")
    session = await client.create(manifest=Manifest(), snapshot=snapshot)
    async with session:
        await run(session, "echo 1 > one; sleep 4855.5 >/dev/null 2>&1 &")
    payload = client.serialize_session_state(session.state)
    await client.delete(session)
    assert await gone("sleep 4855.5") and not os.path.exists(session.state.manifest.root)
    again = CordonSandboxClient(shared=True)
    resumed = await again.resume(again.deserialize_session_state(payload))
    async with resumed:
        assert await run(resumed, "cat one") == "1\n"
    await again.delete(resumed)


async def test_deleting_ends_what_runs():
    client = CordonSandboxClient(shared=True)
    session = await client.create()
    async with session:
        root = pathlib.Path(session.state.manifest.root)
        task = asyncio.create_task(session.exec("touch begun; sleep 600"))
        while not (root / "begun").exists():
            assert not task.done()
            await asyncio.sleep(0.02)
        await client.delete(session)
        with pytest.raises(SandboxError):
            await task
        assert not root.exists()


@pytest.mark.parametrize("setting", [{"parked": 1}, {"keep": True}, {"fs_workspace": "/usr"}])
def test_what_cannot_be_combined_is_one_line(setting):
    with pytest.raises(pycordon.UsageError) as caught:
        CordonSandboxClient(shared=True, **setting)
    (name,) = setting
    assert f"shared=True cannot be combined with {name}" in str(caught.value)
    assert "\n" not in str(caught.value)
