# SPDX-License-Identifier: Apache-2.0
"""The sandbox client: confinement, terminals, state, and file operations of the host."""

from __future__ import annotations

import asyncio
import io
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import threading
import time

import pytest
from agents import RunConfig, Runner
from agents.sandbox import Manifest, SandboxAgent, SandboxPathGrant, SandboxRunConfig
from agents.sandbox.errors import ExecTimeoutError, SandboxError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.sandbox.util import tar_utils

from pycordon.adapters import _openai_tar
from pycordon.adapters._openai_tar import unpack_ops
from pycordon.adapters.openai_agents import (
    CordonSandboxClient,
    CordonSandboxClientOptions,
    CordonSandboxSession,
    CordonSandboxSessionState,
)


@pytest.fixture(params=[False, True], ids=["runs", "shared"])
async def session(tmp_path, request):
    client = CordonSandboxClient(shared=request.param)
    made = await client.create(manifest=Manifest(root=str(tmp_path / "work")))
    async with made:
        yield made
    await client.delete(made)


async def run(session, command, **options):
    result = await session.exec(command, **options)
    return result.stdout.decode() + result.stderr.decode()


async def until(condition):
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("waited too long")


async def test_hostile_command_works_in_the_sdks_session_and_fails_in_ours(hostile, everything):
    for client, expected in (
        (UnixLocalSandboxClient(), everything),
        (CordonSandboxClient(), set()),
    ):
        async with await client.create(options=None) as session:
            assert hostile.done(await run(session, hostile.shell)) == expected
            started = await session.pty_exec_start(hostile.shell, yield_time_s=20, tty=True)
            assert hostile.done(started.output.decode()) == expected
            started = await session.pty_exec_start(hostile.shell, yield_time_s=20)
            assert hostile.done(started.output.decode()) == expected
        await client.delete(session)


async def test_workspace_is_at_its_own_path_and_home(session, tmp_path):
    work = tmp_path / "work"
    assert await run(session, 'pwd; echo "$HOME"; echo x > f') == f"{work}\n{work}\n"
    assert (work / "f").read_text() == "x\n"


async def test_tmp_is_the_sessions_own_and_stays(session):
    await run(session, "echo kept > /tmp/kept")
    assert await run(session, "cat /tmp/kept") == "kept\n"
    assert not os.path.exists("/tmp/kept")


async def test_exit_codes_streams_and_missing_programs(session):
    result = await session.exec("echo out; echo err >&2; exit 5")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 5)
    assert (await session.exec("kill -TERM $$")).exit_code == 143
    assert (await session.exec("/no/such/program", shell=False)).exit_code == 127


async def test_timeout_ends_the_tree(session, tmp_path):
    with pytest.raises(ExecTimeoutError):
        await session.exec("(sleep 2; touch late) & sleep 60", timeout=0.5)
    await asyncio.sleep(2.5)  # the time in which it would have written
    assert not (tmp_path / "work" / "late").exists()


async def test_cancelled_command_is_ended(session, tmp_path):
    task = asyncio.create_task(session.exec("touch begun; sleep 3; touch late"))
    await until((tmp_path / "work" / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(3.5)
    assert not (tmp_path / "work" / "late").exists()


async def test_environment_is_the_manifests_and_what_is_passed(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSED", "yes")
    monkeypatch.setenv("NOT_PASSED", "secret")
    client = CordonSandboxClient(env_pass=["PASSED"])
    manifest = Manifest(root=str(tmp_path), environment={"value": {"OWN": "mine"}})
    async with await client.create(manifest=manifest) as session:
        command = 'echo "$PASSED $OWN ${NOT_PASSED-unset}"'
        assert await run(session, command) == "yes mine unset\n"
        started = await session.pty_exec_start(command, yield_time_s=5)
        assert started.output == b"yes mine unset\n"
        pty = session._inner
        argv = pty._confined_exec_command(
            command_parts=["true"], workspace_root=tmp_path, env={"OWN": "mine"}
        )
        assert not [word for word in argv if "mine" in word]


async def test_standard_input_of_the_application_is_not_the_commands(tmp_path):
    """In a child, whose standard input holds something to steal."""
    code = f"""
import asyncio
from agents.sandbox import Manifest
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from pycordon.adapters.openai_agents import CordonSandboxClient
async def main(client):
    manifest = Manifest(root={str(tmp_path)!r})
    async with await client.create(manifest=manifest, options=None) as session:
        print((await session.exec("head -c 6")).stdout)
        print((await session.pty_exec_start("head -c 6", yield_time_s=5)).output)
asyncio.run(main(eval(__import__("sys").argv[1])()))
"""
    for client, expected in (
        ("UnixLocalSandboxClient", "b'stolen'\nb'stolen'\n"),
        ("CordonSandboxClient", "b''\nb''\n"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, client],
            input="stolenstolen",
            capture_output=True,
            text=True,
        )
        assert done.stdout == expected, done.stderr


async def test_users_are_refused(session, tmp_path):
    work = tmp_path / "work"
    (work / "f").write_text("x")
    path = pathlib.Path("f")
    for attempt in (
        lambda: session.exec("id", user="root"),
        lambda: session.pty_exec_start("id", user="root"),
        lambda: session.read(path, user="root"),
        lambda: session.write(path, io.BytesIO(b"y"), user="root"),
        lambda: session.ls(".", user="root"),
        lambda: session.mkdir("d", user="root"),
        lambda: session.rm("f", user="root"),
        lambda: session.mv("f", "g", user="root"),
    ):
        with pytest.raises((ValueError, SandboxError)) as caught:
            await attempt()
        assert "one user" in str(caught.value) + str(caught.value.__cause__)
    assert (work / "f").read_text() == "x" and sorted(os.listdir(work)) == ["f"]


TERMINAL = """
import os, signal, sys
def resized(*_):
    os.write(1, b"size %d %d\\n" % os.get_terminal_size()[::-1])
signal.signal(signal.SIGWINCH, resized)
print("terminal", os.isatty(0), os.isatty(1), flush=True)
for line in sys.stdin:
    print("got", line.strip(), flush=True)
"""


async def shows(session, number, text, first=b""):
    """Reads from a terminal until the text has come."""
    output = first
    for _ in range(20):
        if text in output:
            return
        update = await session.pty_write_stdin(session_id=number, chars="", yield_time_s=0.5)
        output += update.output
        assert update.process_id == number, output
    raise AssertionError(output)


async def test_terminal_with_input_signal_and_size(session):
    await session.write(pathlib.Path("terminal.py"), io.BytesIO(TERMINAL.encode()))
    started = await session.pty_exec_start("exec python3 terminal.py", tty=True, yield_time_s=0.5)
    number = started.process_id
    await shows(session, number, b"terminal True True", started.output)
    answer = await session.pty_write_stdin(session_id=number, chars="hello\n")
    await shows(session, number, b"got hello", answer.output)
    await session._inner.pty_resize(session_id=number, rows=33, cols=101)
    await shows(session, number, b"size 33 101")
    ended = await session.pty_write_stdin(session_id=number, chars="\x03", yield_time_s=20)
    assert (ended.process_id, ended.exit_code) == (None, 130)
    assert b"KeyboardInterrupt" in ended.output and b"\x1b" not in ended.output


async def test_terminated_pty_takes_everything_along(session, tmp_path, request):
    if "shared" in request.node.callspec.id:
        pytest.skip("what has left its session stays there until the end: see test_shared.py")
    await session.pty_exec_start(
        "touch begun; (setsid sh -c 'sleep 3; touch late' &); sleep 60", yield_time_s=0.25
    )
    await until((tmp_path / "work" / "begun").exists)
    await session.pty_terminate_all()
    await asyncio.sleep(3.5)
    assert not (tmp_path / "work" / "late").exists()


async def test_exposed_port_answers_while_its_process_runs():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    client = CordonSandboxClient()
    session = await client.create(options=CordonSandboxClientOptions((port,)))
    async with session:
        await session.write(pathlib.Path("hello.txt"), io.BytesIO(b"hi"))
        await session.pty_exec_start(
            f"python3 -m http.server {port} --bind 127.0.0.1", yield_time_s=0.25
        )
        endpoint = await session.resolve_exposed_port(port)
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection((endpoint.host, endpoint.port), 5) as connection:
                    connection.sendall(b"GET /hello.txt HTTP/1.0\r\n\r\n")
                    answer = b"".join(iter(lambda: connection.recv(4096), b""))
                if answer.endswith(b"hi"):
                    break
            except OSError:
                pass
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        assert await run(session, "echo meanwhile") == "meanwhile\n"
        started = await session.pty_exec_start("echo also", yield_time_s=5)
        assert started.output == b"also\n"
    await client.delete(session)


async def test_path_grants(tmp_path):
    for name in ("work", "shared", "given", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    manifest = Manifest(
        root=str(tmp_path / "work"),
        extra_path_grants=(
            SandboxPathGrant(path=str(tmp_path / "shared"), read_only=True),
            SandboxPathGrant(path=str(tmp_path / "given")),
        ),
    )
    async with await CordonSandboxClient().create(manifest=manifest) as session:
        output = await run(
            session,
            f"cd {tmp_path}; cat shared/f given/f hidden/f; echo x > shared/f; echo y > given/f",
        )
    assert output.startswith("sharedgiven")
    assert [(tmp_path / n / "f").read_text() for n in ("shared", "given", "hidden")] == [
        "shared",
        "y\n",
        "hidden",
    ]


async def test_state_round_trip_and_snapshot(tmp_path):
    client = CordonSandboxClient()
    snapshot = LocalSnapshotSpec(base_path=tmp_path / "snapshots")
    session = await client.create(manifest=Manifest(), snapshot=snapshot)
    async with session:
        await run(session, "mkdir d; echo 1 > d/one; ln -s one d/link; echo x > s; chmod +x s")
    payload = client.serialize_session_state(session.state)
    assert payload["type"] == "cordon"
    await client.delete(session)
    assert not os.path.exists(session.state.manifest.root)

    state = CordonSandboxClient().deserialize_session_state(payload)
    assert isinstance(state, CordonSandboxSessionState)
    again = CordonSandboxClient()
    resumed = await again.resume(state)
    assert isinstance(resumed._inner, CordonSandboxSession)
    async with resumed:
        assert await run(resumed, "cat d/link; test -x s && readlink d/link") == "1\none\n"
    await again.delete(resumed)
    theirs = await UnixLocalSandboxClient().create(options=None)
    with pytest.raises(TypeError):
        await again.resume(theirs.state)
    with pytest.raises(TypeError):
        await again.delete(theirs)
    await UnixLocalSandboxClient().delete(theirs)


async def test_archive_of_long_names_and_targets(session, tmp_path):
    """More than the hundred bytes that a plain header holds."""
    long = "n" * 200
    root = session.state.manifest.root
    await run(session, f"mkdir {long}; echo x > {long}/{long}; ln -s {root}/{long}/{long} link")
    blob = await session.persist_workspace()
    async with await CordonSandboxClient().create(
        manifest=Manifest(root=str(tmp_path / "again"))
    ) as again:
        await again.hydrate_workspace(blob)
        assert await run(again, "cat link; readlink link") == f"x\n{long}/{long}\n"


async def test_deleted_session_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    client = CordonSandboxClient()
    session = await client.create()
    async with session:
        # deeper than a recursive removal goes, and with a directory that cannot be entered
        await run(
            session,
            "mkdir closed closed/in; chmod 0 closed; touch /tmp/t; python3 -c '\n"
            'import os\nfor i in range(1500): os.mkdir("d"); os.chdir("d")\'',
        )
        root = session.state.manifest.root
    await client.delete(session)
    assert not os.path.exists(root)
    assert not [p for p in (tmp_path / "state").rglob("*") if p.name == "t"]


@pytest.fixture
def outside(tmp_path):
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_text("host secret")
    return directory


async def test_file_operations_do_not_follow_links_out(session, outside):
    await run(
        session, f"ln -s {outside} dir; ln -s {outside}/secret file; mkfifo pipe; ln -s loop loop"
    )
    for name in ("file", "dir/secret", "pipe", "loop"):
        with pytest.raises(Exception) as caught:
            with await asyncio.wait_for(session.read(pathlib.Path(name)), 10) as stream:
                raise AssertionError(stream.read())
        assert not isinstance(caught.value, AssertionError)
        with pytest.raises(Exception):
            await asyncio.wait_for(session.write(pathlib.Path(name), io.BytesIO(b"changed")), 10)
    with pytest.raises(Exception):
        await session.mkdir("dir/new")
    with pytest.raises(Exception):
        await session.rm("dir/secret")
    assert sorted(os.listdir(outside)) == ["secret"]
    assert (outside / "secret").read_text() == "host secret"


SWAP = """
import os, sys
os.mkdir("real")
open("real/secret", "w").write("inside")
open("begun", "w").close()
while True:
    os.rename("real", "d"); os.rename("d", "real")
    os.symlink(sys.argv[1], "d"); os.unlink("d")
"""


async def swapping(session, outside):
    """A command that swaps a directory for a link to the host's, on and on."""
    await session.write(pathlib.Path("swap.py"), io.BytesIO(SWAP.encode()))
    await session.pty_exec_start(f"exec python3 swap.py {outside}", yield_time_s=0.25)
    root = pathlib.Path(session.state.manifest.root)
    await until((root / "begun").exists)
    return root


async def test_swapped_directory_does_not_lead_out(session, outside):
    root = await swapping(session, outside)
    led_out = 0
    deadline = time.monotonic() + 30
    while not led_out and time.monotonic() < deadline:  # what a host does that just opens a path
        try:
            led_out += (root / "d" / "secret").read_text() == "host secret"
        except OSError:
            pass
    assert led_out
    deadline, found = time.monotonic() + 4, set()
    while time.monotonic() < deadline:
        try:
            with await session.read(pathlib.Path("d/secret")) as stream:
                found.add(stream.read())
        except (SandboxError, OSError):
            pass  # nothing there at that moment
        try:
            await session.write(pathlib.Path("d/secret"), io.BytesIO(b"inside"))
        except (SandboxError, OSError):
            pass  # nothing there at that moment
    assert found and found <= {b"inside", b""}  # empty: between two steps of our own write
    assert (outside / "secret").read_text() == "host secret"


async def persisted(session):
    with await session.persist_workspace() as blob:
        with tarfile.open(fileobj=io.BytesIO(blob.read())) as tar:
            files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isreg()}
    return files


async def test_archive_does_not_follow_a_link_that_replaces_a_file(outside, monkeypatch):
    """Between the look at an entry and its reading, a command puts a link there. The SDK's own
    archive has the host's file then."""
    for client, leaks in ((UnixLocalSandboxClient(), True), (CordonSandboxClient(), False)):
        session = await client.create(options=None)
        async with session:
            target = pathlib.Path(session.state.manifest.root) / "victim"
            target.write_text("x" * len("host secret"))
            real = tarfile.TarFile.gettarinfo

            def look(self, *args, **kwargs):
                info = real(self, *args, **kwargs)
                if info.name.endswith("victim") and not target.is_symlink():
                    target.unlink()
                    target.symlink_to(outside / "secret")
                return info

            with monkeypatch.context() as patched:
                patched.setattr(tarfile.TarFile, "gettarinfo", look)
                files = await persisted(session)
            if leaks:
                assert files["./victim"] == b"host secret"
            else:
                assert files.get("./victim", b"x" * 11) == b"x" * 11
                target.unlink()
                target.symlink_to(outside / "secret")
                assert "./victim" not in await persisted(session)
        await client.delete(session)


async def test_archive_under_a_swapping_command(session, outside):
    await swapping(session, outside)
    made, deadline = 0, time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            files = await persisted(session)
        except SandboxError:
            continue
        made += 1
        assert b"host secret" not in files.values()
    assert made


def archive(**entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    out.seek(0)
    return out


async def test_restoring_does_not_write_through_links(session, outside, tmp_path):
    await run(session, f"ln -s {outside} d; ln -s {outside}/secret f")
    with pytest.raises(SandboxError):
        await session.hydrate_workspace(archive(d__secret=b"changed"))
    await session.hydrate_workspace(archive(f=b"replaced"))
    assert (tmp_path / "work" / "f").read_text() == "replaced"
    assert not (tmp_path / "work" / "f").is_symlink()
    assert (outside / "secret").read_text() == "host secret"


async def test_restoring_under_a_swapping_command(session, outside, monkeypatch):
    """The SDK's own extraction looks at the directories and then writes: a link that comes in
    between leads it out."""
    client = UnixLocalSandboxClient()
    theirs = await client.create(options=None)
    look = tar_utils._ensure_no_symlink_parents

    def look_and_swap(**arguments):
        look(**arguments)
        directory = pathlib.Path(theirs.state.manifest.root) / "d"
        if directory.is_dir() and not directory.is_symlink():
            directory.rmdir()
            directory.symlink_to(outside)

    async with theirs:
        (pathlib.Path(theirs.state.manifest.root) / "d").mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(tar_utils, "_ensure_no_symlink_parents", look_and_swap)
            await theirs.hydrate_workspace(archive(d__new=b"x"))
        assert (outside / "new").read_bytes() == b"x"
        (outside / "new").unlink()
    await client.delete(theirs)

    await swapping(session, outside)
    done, deadline = 0, time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            await session.hydrate_workspace(archive(d__secret=b"changed", d__new=b"x"))
            done += 1
        except SandboxError:
            pass
    assert sorted(os.listdir(outside)) == ["secret"]
    assert (outside / "secret").read_text() == "host secret"


async def test_cancelled_restore_waits_for_its_end(session, monkeypatch):
    begun, over = threading.Event(), threading.Event()

    def slow(tar, root):
        begun.set()
        time.sleep(0.5)
        over.set()
        return unpack_ops(tar, root)

    monkeypatch.setattr(_openai_tar, "unpack_ops", slow)
    task = asyncio.create_task(session.hydrate_workspace(archive(f=b"x")))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert over.is_set()


async def test_under_an_agent(hostile, everything):
    def execute(command, call_id):
        return [function_call("exec_command", {"cmd": command}, call_id=call_id)]

    for client, expected in (
        (UnixLocalSandboxClient(), everything),
        (CordonSandboxClient(), set()),
    ):
        model = ScriptedModel(
            [
                execute(hostile.shell, "c1"),
                execute("echo 6 times 7 > note; cat note", "c2"),
                [assistant_message("finished")],
            ]
        )
        agent = SandboxAgent(name="a", model=model)
        result = await Runner.run(
            agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client))
        )
        assert result.final_output == "finished"
        text = str(result.to_input_list())
        assert hostile.done(text) == expected
        assert "6 times 7" in text


async def test_deleting_ends_what_runs():
    client = CordonSandboxClient()
    session = await client.create()
    async with session:
        root = pathlib.Path(session.state.manifest.root)
        task = asyncio.create_task(session.exec("touch begun; sleep 600"))
        await until((root / "begun").exists)
        began = time.monotonic()
        await client.delete(session)
        with pytest.raises(SandboxError):
            await task
        assert time.monotonic() - began < 60
        assert not root.exists()
