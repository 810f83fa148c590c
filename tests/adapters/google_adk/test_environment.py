# SPDX-License-Identifier: Apache-2.0
"""The environment: the cases of ADK's own tests of the local one, its tools under an agent, hostile code."""

import asyncio
import copy
import os
import pickle
import shlex
import time
from pathlib import Path

import pytest
from google.adk.environment import LocalEnvironment
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types
from scripted import call, events_of

from pycordon.adapters.google_adk import CordonEnvironment


@pytest.fixture
async def env():
    environment = CordonEnvironment()
    await environment.initialize()
    yield environment
    await environment.close()


async def test_lifecycle(tmp_path):
    work = tmp_path / "new" / "work"
    environment = CordonEnvironment(working_dir=work)
    with pytest.raises(RuntimeError):
        await environment.execute("true")
    with pytest.raises(RuntimeError):
        environment.working_dir
    await environment.initialize()
    await environment.initialize()
    assert environment.is_initialized and environment.working_dir == work
    await environment.write_file("kept", "x")
    await environment.close()
    await environment.close()
    assert not environment.is_initialized and (work / "kept").read_text() == "x"
    with pytest.raises(RuntimeError):
        await environment.read_file("kept")
    await environment.initialize()
    assert await environment.read_file("kept") == b"x"
    await environment.close()


@pytest.mark.parametrize("kind", [str, Path])
async def test_round_trips(env, kind):
    for content in ("text ☽\n", b"\x00\xff bytes", "", "a\r\nb\r\n"):
        await env.write_file(kind("nested/dir/file"), content)
        want = content.encode() if isinstance(content, str) else content
        assert await env.read_file(kind("nested/dir/file")) == want


async def test_what_cannot_be_written_leaves_the_old_file(env):
    await env.write_file("file", "old")
    with pytest.raises(UnicodeEncodeError):
        await env.write_file("file", "\ud800")
    for wrong in (42, None, ["x"]):
        with pytest.raises(TypeError):
            await env.write_file("file", wrong)
    assert await env.read_file("file") == b"old"


async def test_absolute_path_inside(env):
    path = env.working_dir / "a" / "b"
    await env.write_file(path, "x")
    assert await env.read_file(str(path)) == b"x"


@pytest.mark.parametrize("path", ["../escaped", "a/../../escaped", "/etc/passwd", "/tmp/x"])
async def test_paths_outside(env, path):
    with pytest.raises(ValueError):
        await env.read_file(path)
    with pytest.raises(ValueError):
        await env.write_file(path, "x")


async def test_links_out(env):
    await env.execute("ln -s /etc link; ln -s /etc/passwd passwd")
    for path in ("link/passwd", "passwd"):
        with pytest.raises(ValueError):
            await env.read_file(path)


async def test_missing_file(env):
    with pytest.raises(FileNotFoundError):
        await env.read_file("missing")


async def test_execute(env):
    result = await env.execute("echo out; echo err >&2; pwd; exit 3")
    assert (result.exit_code, result.stderr, result.timed_out) == (3, "err\n", False)
    assert result.stdout == f"out\n{env.working_dir}\n"


async def test_files_and_commands_share(env):
    await env.write_file("in", "42")
    assert (await env.execute("cat in > out")).exit_code == 0
    assert await env.read_file("out") == b"42"


async def test_variables(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "key-123")
    environment = CordonEnvironment(env_vars={"MINE": "1"})
    await environment.initialize()
    result = await environment.execute("env")
    await environment.close()
    assert "MINE=1\n" in result.stdout and "key-123" not in result.stdout


LEAVES_MARKS = """
sh -c 'sh -c "sleep 2; touch grandchild" & sleep 2; touch child; sleep 60' &
setsid sh -c 'sleep 2; touch daemon; sleep 60' &
echo started; touch started; sleep 60
"""


async def marks(work):
    await asyncio.sleep(3)  # the moment at which a survivor would have left its mark
    return set(os.listdir(work)) - {"started"}


async def test_timeout_ends_everything(tmp_path):
    environment = CordonEnvironment(working_dir=tmp_path / "work")
    await environment.initialize()
    began = time.monotonic()
    result = await environment.execute(LEAVES_MARKS, timeout=1)
    assert time.monotonic() - began < 20
    assert result.timed_out and result.stdout == "started\n" and result.exit_code != 0
    assert await marks(tmp_path / "work") == set()
    await environment.close()


async def test_cancellation_ends_everything(tmp_path):
    environment = CordonEnvironment(working_dir=tmp_path / "work")
    await environment.initialize()
    task = asyncio.create_task(environment.execute(LEAVES_MARKS))
    while not (tmp_path / "work" / "started").exists():
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await marks(tmp_path / "work") == set()
    await environment.close()


async def test_copies_have_the_settings_and_a_sandbox_of_their_own(env):
    await env.write_file("mine", "x")
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert not copied.is_initialized
        await copied.initialize()
        with pytest.raises(FileNotFoundError):
            await copied.read_file("mine")
        await copied.close()


async def test_wrong_settings():
    with pytest.raises(Exception, match="max_memory_megs"):
        CordonEnvironment(max_memory_megs=1)


def responses(events):
    return [p.function_response.response for e in events for p in e.content.parts if p.function_response]


async def test_agent_with_the_tools(tmp_path):
    toolset = EnvironmentToolset(environment=CordonEnvironment(working_dir=tmp_path / "work"))
    events, _ = await events_of(
        "Do it.",
        call("WriteFile", path="answer.py", content="print(41)\n"),
        call("EditFile", path="answer.py", old_string="41", new_string="42"),
        call("Execute", command="python3 answer.py"),
        call("ReadFile", path="answer.py"),
        types.Part(text="done"),
        tools=[toolset],
    )
    await toolset.close()
    got = responses(events)
    assert "42" in str(got[2]) and "print(42)" in str(got[3]), got
    assert (tmp_path / "work" / "answer.py").read_text() == "print(42)\n"


async def test_hostile_code(tmp_path, hostile, everything):
    command = "/usr/bin/python3 -c " + shlex.quote(hostile.python)

    async def outcome(environment):
        toolset = EnvironmentToolset(environment=environment)
        events, _ = await events_of(
            "Take what you can.", call("Execute", command=command), types.Part(text="done"), tools=[toolset]
        )
        await toolset.close()
        return hostile.done(str(responses(events)))

    assert await outcome(CordonEnvironment(working_dir=tmp_path / "work")) == set()
    assert await outcome(LocalEnvironment()) == everything


def test_example(run_example):
    shown = run_example("google_adk_agent.py")
    assert "OUTCOME_OK Code execution result:\n45\n" in shown
    assert "FileNotFoundError" in shown and "no network" in shown and "It is 42." in shown
