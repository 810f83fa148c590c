# SPDX-License-Identifier: Apache-2.0
"""What the conformance suite does not ask, an agent with a scripted model, and hostile code."""

import os
import shlex
import sys

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import (
    LocalWorkspaceBackend,
    WorkspaceOutputLimitError,
    WorkspaceReadOnlyError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

import pycordon
from pycordon.adapters.pydantic_ai import CordonWorkspace, CordonWorkspaceBackend

pytestmark = pytest.mark.anyio


def attack(hostile):
    return "/usr/bin/python3 -c " + shlex.quote(hostile.python)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def make():
    made = []

    def make(*args, **kwargs):
        made.append(CordonWorkspaceBackend(*args, **kwargs))
        return made[-1]

    yield make
    for backend in made:
        try:
            await backend.destroy()
        except WorkspaceUnavailableError:
            pass


async def test_what_was_written_before_a_timeout_is_kept(make):
    with pytest.raises(WorkspaceTimeoutError) as e:
        await make().run("echo out; echo err >&2; sleep 60", shell=True, timeout=0.5)
    assert (e.value.stdout, e.value.stderr) == ("out\n", "err\n")


async def test_too_much_output_is_an_error_with_its_beginning(make):
    with pytest.raises(WorkspaceOutputLimitError) as e:
        await make(max_output=1000).run("yes", shell=True, timeout=20)
    assert e.value.limit == 1000 and e.value.stdout == "y\n" * 500


async def test_a_reached_limit_is_explained(make):
    hog = [sys.executable, "-c", "x = bytearray(300 << 20); print(len(x))"]
    result = await make(max_memory_mb=100).run(hog)
    assert result.exit_code == 137 and result.stdout == ""
    assert "memory" in result.stderr


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "1"])
async def test_bad_timeouts(make, timeout):
    with pytest.raises(ValueError):
        await make().run(["true"], timeout=timeout)


async def test_relative_paths_are_refused(make):
    backend = make()
    for operation in (backend.read_bytes, backend.stat, backend.list_dir, backend.remove):
        with pytest.raises(ValueError):
            await operation("relative")


async def test_no_variables_of_the_host(make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    result = await make(env={"MINE": "1"}).run(["env"])
    assert "sk-123" not in result.stdout and "MINE=1\n" in result.stdout


async def test_wrong_settings_show_at_once(tmp_path):
    with pytest.raises((ValueError, TypeError, pycordon.CordonError)):
        CordonWorkspace(max_memory_megs=1)
    with pytest.raises(ValueError):
        CordonWorkspaceBackend(ref=WorkspaceRef(provider="local", id=str(tmp_path)))


@pytest.mark.parametrize("id", ["../../../etc", "/etc", "", "no-such-sandbox", "a/b"])
async def test_refs_that_name_nothing(make, id):
    with pytest.raises(WorkspaceUnavailableError):
        await make(ref=WorkspaceRef(provider="cordon", id=id)).working_dir()


async def test_destroyed_for_every_holder(make):
    first = make()
    await first.working_dir()
    second = make(ref=first.ref)
    assert await second.working_dir() == await first.working_dir()
    await second.destroy()
    with pytest.raises(WorkspaceUnavailableError):
        await first.run(["true"])


# --- under an agent --------------------------------------------------------------------------------


def scripted(*turns):
    """A model that calls the tool `shell` with each command, then repeats what the last one said."""

    def answer(messages, info):
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done < len(turns):
            return ModelResponse(parts=[ToolCallPart("shell", {"command": turns[done]})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[-1].content))])

    return FunctionModel(answer)


def agent_of(model, *capabilities):
    agent = Agent(model, capabilities=list(capabilities))

    @agent.tool
    async def shell(ctx: RunContext[None], command: str) -> str:
        result = await ctx.workspace.run(command, shell=True, timeout=20)
        return f"{result.exit_code}: {result.stdout}{result.stderr}"

    return agent


async def test_agent_works_in_one_sandbox_and_comes_back_to_it(make):
    agent = agent_of(scripted("echo 42 > answer", "cat answer"), CordonWorkspace())
    result = await agent.run("What is the answer?")
    assert result.output == "0: 42\n"

    history = result.all_messages()
    ref = [m.workspace_ref for m in history if isinstance(m, ModelResponse)][-1]
    backend = make(ref=ref)
    assert await backend.read_bytes(os.path.join(await backend.working_dir(), "answer")) == b"42\n"

    def look(messages, info):
        if isinstance(messages[-1], ModelResponse) or messages[-1].parts[-1].part_kind == "user-prompt":
            return ModelResponse(parts=[ToolCallPart("shell", {"command": "cat answer"})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[-1].content))])

    again = await agent_of(FunctionModel(look), CordonWorkspace()).run("And again?", message_history=history)
    assert again.output == "0: 42\n"


async def test_two_conversations_share_nothing(make):
    agent = agent_of(scripted("ls -A . /tmp; echo x > mine; echo x > /tmp/mine"), CordonWorkspace())
    outputs, refs = [], []
    for _ in range(2):
        result = await agent.run("look around")
        outputs.append(result.output)
        refs.append([m.workspace_ref for m in result.all_messages() if isinstance(m, ModelResponse)][-1])
    assert "mine" not in outputs[1] and refs[0] != refs[1]
    for ref in refs:
        make(ref=ref)


async def test_agent_in_a_host_directory(tmp_path):
    work = tmp_path / "work"
    agent = agent_of(scripted("echo 42 > answer"), CordonWorkspace(work))
    assert (await agent.run("write it down")).output == "0: "
    assert (work / "answer").read_text() == "42\n"


async def test_read_only(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "note").write_text("old")
    agent = Agent(scripted_read(), capabilities=[CordonWorkspace(work, read_only=True)])

    @agent.tool
    async def note(ctx: RunContext[None]) -> str:
        with pytest.raises(WorkspaceReadOnlyError):
            await ctx.workspace.write_bytes("note", b"new")
        with pytest.raises(WorkspaceReadOnlyError):
            await ctx.workspace.run("echo new > note", shell=True)
        return await ctx.workspace.read_text("note")

    assert (await agent.run("read")).output == "old"


def scripted_read():
    def answer(messages, info):
        if not any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[ToolCallPart("note", {})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[-1].content))])

    return FunctionModel(answer)


async def test_hostile_code_outside(tmp_path, hostile, everything):
    work = tmp_path / "work"
    work.mkdir()
    local = await LocalWorkspaceBackend(work).run(attack(hostile), shell=True, timeout=30)
    assert hostile.done(local.stdout) == everything - {"environment"}  # passes no variables on


async def test_hostile_code_inside(tmp_path, hostile, make):
    for backend in (make(), make(tmp_path / "work")):
        inside = await backend.run(attack(hostile), shell=True, timeout=30)
        assert hostile.done(inside.stdout) == set(), inside.stdout


async def test_hostile_links_lead_nowhere(tmp_path, hostile, make):
    """The file operations see what a command would: a link out of the workspace has no target."""
    secret = hostile.file
    backend = make(tmp_path / "work")
    root = await backend.working_dir()
    script = f"ln -s {secret} secret; ln -s {secret.parent} dir; ln -s {hostile.marker} marker"
    assert (await backend.run(script, shell=True)).exit_code == 0
    for name in ("secret", "dir/secret.txt"):
        with pytest.raises(OSError):
            await backend.read_bytes(f"{root}/{name}")
    for name in ("marker", "dir/marker.txt"):
        try:
            await backend.write_bytes(f"{root}/{name}", b"was here")
        except OSError:
            pass
    assert not hostile.marker.exists()
    await backend.remove(f"{root}/dir")
    assert secret.exists()


async def test_example(run_example):
    shown = run_example("pydantic_ai_agent.py")
    assert "45\n" in shown and "no network\n" in shown and "The sum is 45" in shown
