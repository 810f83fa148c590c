# SPDX-License-Identifier: Apache-2.0
"""The framework's cases of a local shell, for ours, and what ours is for."""

import asyncio
import os
from pathlib import Path

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    create_harness_agent,
)
from agent_framework_tools.shell import (
    LocalShellTool,
    ShellCommandError,
    ShellExecutor,
    ShellPolicy,
)

from pycordon.adapters.agent_framework import CordonShellExecutor

MODES = ["persistent", "stateless"]


@pytest.fixture(params=MODES)
async def shell(request, work):
    async with CordonShellExecutor(mode=request.param, workdir=work / "p", timeout=20) as made:
        yield made


@pytest.fixture
async def session(work):
    async with CordonShellExecutor(workdir=work / "p", timeout=20) as made:
        yield made


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """A model that calls the shell with given commands, then ends."""

    def __init__(self, *commands):
        super().__init__()
        self.commands = list(commands)
        self.results = []

    def get_shell_tool(self, *, func, **kwargs):
        return func

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        for content in messages[-1].contents:
            if content.type == "function_result":
                self.results.append(str(content.result))
        if not self.commands:
            return ChatResponse(messages=[Message(role="assistant", contents=["done"])])
        call = Content.from_function_call(
            f"call{len(self.commands)}", "run_shell", arguments={"command": self.commands.pop(0)}
        )
        return ChatResponse(messages=[Message(role="assistant", contents=[call])])


# --- the reason for it ------------------------------------------------------------------------------


async def test_hostile_command(hostile, everything, shell):
    async with LocalShellTool() as local:
        assert hostile.done((await local.run(hostile.shell)).stdout) == everything
    assert hostile.done((await shell.run(hostile.shell)).stdout) == set()


async def test_hostile_command_in_an_agent(hostile, everything, session):
    for tool, achieved in (
        (LocalShellTool(approval_mode="never_require", acknowledge_unsafe=True), everything),
        (session, set()),
    ):
        client = Scripted(hostile.shell)
        agent = Agent(client=client, tools=[client.get_shell_tool(func=tool.as_function())])
        assert "done" in (await agent.run("go")).text
        assert hostile.done(client.results[0]) == achieved
    # no `close` of the local tool: its shell ends with this process


# --- commands --------------------------------------------------------------------------------------------


async def test_echo(shell):
    result = await shell.run("echo out; echo err >&2")
    assert (result.stdout.strip(), result.stderr.strip(), result.exit_code) == ("out", "err", 0)
    assert not result.truncated and not result.timed_out and result.duration_ms >= 0


async def test_exit_code(shell):
    assert (await shell.run("(exit 7)")).exit_code == 7


async def test_exit_of_the_shell_itself(work):
    async with CordonShellExecutor(mode="stateless") as shell:
        assert (await shell.run("exit 9")).exit_code == 9


async def test_timeout_is_flagged_and_the_processes_are_gone(shell):
    result = await shell.run("(setsid sleep 4901 &); sleep 4902", timeout=1)
    assert result.timed_out and result.exit_code != 0
    if shell._mode == "stateless":
        assert result.exit_code == 124
        assert not _alive("sleep 4901")
    assert not _alive("sleep 4902")
    assert (await shell.run("echo next")).stdout.strip() == "next"
    await shell.close()
    assert not _alive("sleep 4901")


async def test_command_that_ignores_the_interrupt(session):
    """The session is ended, with all that is in it, and the next command has a new one."""
    result = await session.run(
        "trap '' INT TERM; (trap '' INT TERM; sleep 4911) ; sleep 4912", timeout=1
    )
    assert result.timed_out and result.exit_code == 124
    await _until(lambda: not _alive("sleep 4911") and not _alive("sleep 4912"))
    assert (await session.run("echo next")).stdout.strip() == "next"


async def test_cancelling_kills(shell, work):
    task = asyncio.ensure_future(shell.run("echo > started; sleep 4921"))
    await _until((work / "p" / "started").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _until(lambda: not _alive("sleep 4921"), 10)
    assert (await shell.run("echo next")).stdout.strip() == "next"


async def test_denied_by_the_text_policy(work):
    for mode in MODES:
        async with CordonShellExecutor(
            mode=mode, workdir=work / "p", shell_policy=ShellPolicy(denylist=[r"\brm\b"])
        ) as shell:
            with pytest.raises(ShellCommandError, match="rejected"):
                await shell.run("rm -rf x")
            [said] = await shell.as_function().invoke(arguments={"command": "rm x"})
            assert "rejected" in said.text


async def test_allow_list(work):
    for mode in MODES:
        async with CordonShellExecutor(
            mode=mode, shell_policy=ShellPolicy(allowlist=[r"^echo "])
        ) as shell:
            assert (await shell.run("echo yes")).stdout.strip() == "yes"
            with pytest.raises(ShellCommandError):
                await shell.run("ls")


async def test_audit_hook(work):
    for mode in MODES:
        seen = []
        async with CordonShellExecutor(mode=mode, on_command=seen.append) as shell:
            await shell.run("echo one")
        assert seen == ["echo one"]


async def test_output_keeps_head_and_tail(work):
    for mode in MODES:
        async with CordonShellExecutor(mode=mode, max_output_bytes=1000, timeout=20) as shell:
            result = await shell.run("echo HEAD; printf 'x%.0s' $(seq 3000); echo TAIL")
        assert result.truncated and len(result.stdout) < 1200
        assert "HEAD" in result.stdout and "TAIL" in result.stdout and "truncated" in result.stdout


async def test_flood_of_errors_is_bounded(work):
    async with CordonShellExecutor(max_output_bytes=1000, timeout=20) as shell:
        result = await shell.run("head -c 50000000 /dev/zero | tr '\\0' x >&2; echo over")
        assert result.truncated and len(result.stderr) < 5000 and "over" in result.stdout
        assert (await shell.run("echo next")).stdout.strip() == "next"


async def test_memory_limit(work):
    async with CordonShellExecutor(mode="stateless", max_memory_mb=64) as shell:
        result = await shell.run("python3 -c 'b = bytearray(512 << 20); print(len(b))'")
    assert result.exit_code != 0 and "memory" in result.stderr.lower()


async def test_environment(work):
    for mode in MODES:
        async with CordonShellExecutor(mode=mode, env={"GIVEN": "value"}) as shell:
            assert (await shell.run("echo $GIVEN")).stdout.strip() == "value"


# --- the session ------------------------------------------------------------------------------------------


async def test_state_survives(work):
    async with CordonShellExecutor(workdir=work / "p", confine_workdir=False) as shell:
        await shell.run("mkdir -p sub; cd sub; export WORD=kept; f() { echo function; }")
        assert (await shell.run("echo $WORD; f; pwd")).stdout.split() == [
            "kept",
            "function",
            str(work / "p" / "sub"),
        ]


async def test_reanchor(session, work):
    await session.run("cd /usr; export WORD=kept")
    assert (await session.run("pwd; echo $WORD")).stdout.split() == [str(work / "p"), "kept"]


async def test_stateless_keeps_files_only(work):
    async with CordonShellExecutor(mode="stateless") as shell:
        await shell.run("echo here > file; cd /tmp; echo there > file; export WORD=gone")
        result = await shell.run("cat /tmp/file file; echo ${WORD-unset}")
    assert result.stdout.split() == ["there", "here", "unset"]


async def test_concurrent_first_calls_share_one_session(work):
    shell = CordonShellExecutor(workdir=work / "p")
    first, second = await asyncio.gather(shell.run("echo $$"), shell.run("echo $$"))
    assert first.stdout == second.stdout
    await shell.close()
    await shell.close()


async def test_long_session_outlives_the_time_of_a_run(work):
    """A limit of one command's time is not one of the session's."""
    async with CordonShellExecutor(timeout=2) as shell:
        for number in range(3):
            assert (await shell.run(f"sleep 1; echo {number}")).stdout.strip() == str(number)


# --- the framework's side -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["always_require", "never_require"])
def test_function(work, mode):
    shell = CordonShellExecutor(approval_mode=mode)
    assert isinstance(shell, ShellExecutor)
    function = shell.as_function(name="sh")
    assert isinstance(function, FunctionTool)
    assert (function.kind, function.approval_mode, function.name) == ("shell", mode, "sh")
    assert "sandbox" in function.description


async def test_harness_agent(session):
    client = Scripted("echo $((6 * 7))")
    agent = create_harness_agent(client, shell_executor=session, disable_web_search=True)
    await agent.run("go", session=agent.create_session())
    assert any("42" in result for result in client.results)


def test_example(run_example, work):
    assert "832040" in run_example("agent_framework_agent.py", cwd=work)


def _alive(text):
    for entry in os.listdir("/proc"):
        try:
            if (
                Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").strip()
                == text.encode()
            ):
                return True
        except OSError:
            pass
    return False


async def _until(condition, seconds=20):
    async def wait():
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), seconds)
