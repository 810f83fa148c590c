# SPDX-License-Identifier: Apache-2.0
"""Shell executor and functions, alone and under an agent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from agents import (
    Agent,
    LocalShellCommandRequest,
    LocalShellTool,
    Runner,
    ShellCommandRequest,
    ShellTool,
    function_tool,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool import ShellActionRequest, ShellCallData
from openai.types.responses import ResponseFunctionShellToolCall
from openai.types.responses.response_output_item import LocalShellCall

import pycordon
from pycordon.adapters.openai_agents import (
    CordonShellExecutor,
    execute_code,
    execute_command,
    functions_for,
)


def request(*commands, timeout_ms=None, max_output_length=None):
    action = ShellActionRequest(list(commands), timeout_ms, max_output_length)
    return ShellCommandRequest(ctx_wrapper=None, data=ShellCallData("call", action))


async def on_the_host(request):
    """What the SDK's examples do."""
    done = subprocess.run(
        request.data.action.commands[0], shell=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def executor():
    with pycordon.Sandbox(workdir=True) as sandbox:
        yield CordonShellExecutor(sandbox)


async def test_commands_of_a_call_share_files(executor):
    result = await executor(request("echo one > f", "cat f; echo err >&2; exit 3"))
    first, second = result.output
    assert first.outcome.type == "exit" and first.outcome.exit_code == 0
    assert (second.stdout, second.stderr, second.outcome.exit_code) == ("one\n", "err\n", 3)
    assert second.command == "cat f; echo err >&2; exit 3"


async def test_timeout_is_an_outcome_and_ends_the_call(executor):
    began = time.monotonic()
    result = await executor(request("echo begun; sleep 60", "echo never", timeout_ms=500))
    assert time.monotonic() - began < 20
    assert [o.outcome.type for o in result.output] == ["timeout"]
    assert result.output[0].stdout == "begun\n"


async def test_models_cannot_ask_for_more_time():
    with pycordon.Sandbox(workdir=True) as sandbox:
        executor = CordonShellExecutor(sandbox, timeout=0.5)
        result = await executor(request("sleep 60", timeout_ms=3_600_000))
        assert result.output[0].outcome.type == "timeout"


async def test_limits_are_explained():
    with pycordon.Sandbox(workdir=True, max_memory_mb=64) as sandbox:
        result = await CordonShellExecutor(sandbox)(
            request("exec python3 -c 'b = b\"x\" * (512 << 20)'")
        )
        (output,) = result.output
        assert output.outcome.exit_code not in (0, None)
        assert "memory" in output.stderr.lower()


async def test_max_output_length_is_passed_on(executor):
    assert (await executor(request("true", max_output_length=5))).max_output_length == 5


async def test_local_shell(executor):
    call = LocalShellCall(
        id="i",
        call_id="c",
        status="completed",
        type="local_shell_call",
        action={
            "type": "exec",
            "command": ["sh", "-c", "echo $A; pwd; exit 4"],
            "env": {"A": "b"},
            "working_directory": "/tmp",
        },
    )
    text = await executor(LocalShellCommandRequest(ctx_wrapper=None, data=call))
    assert text == "b\n/tmp\n[exit code 4]"


async def test_cancelled_call_ends_the_command(executor):
    task = asyncio.create_task(executor(request("touch /tmp/s; sleep 3; touch /tmp/late")))
    while not executor.sandbox.files.exists("/tmp/s"):
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(3.5)  # the time in which it would have gone on
    assert not executor.sandbox.files.exists("/tmp/late")


async def test_functions_share_a_sandbox():
    with pycordon.Sandbox(workdir=True) as sandbox:
        code, command = functions_for(sandbox)
        assert await code("open('f', 'w').write('x'); print(6 * 7)") == "42"
        assert await command("cat f") == "x"
        assert await code("echo $((1 + 1))", "bash") == "2"
        assert "ZeroDivisionError" in await code("1 / 0")


async def test_ready_functions():
    assert await execute_code("print(2)") == "2"
    assert await execute_command("echo 3; exit 1") == "3\n[exit code 1]"


def test_schemas_are_for_models():
    for function in (execute_code, functions_for().execute_code):
        tool = function_tool(function)
        assert tool.name == "execute_code"
        assert tool.params_json_schema["properties"]["code"]["description"]
    assert function_tool(execute_command).params_json_schema["required"] == ["command"]


async def test_hostile_shell_call_under_an_agent(hostile, everything, executor):
    for used, expected in ((on_the_host, everything), (executor, set())):
        shell_call = ResponseFunctionShellToolCall(
            id="s1",
            call_id="c1",
            type="shell_call",
            status="completed",
            action={"commands": [hostile.shell], "timeout_ms": 30_000, "max_output_length": None},
        )
        model = ScriptedModel([[shell_call], [assistant_message("finished")]])
        agent = Agent(name="a", model=model, tools=[ShellTool(executor=used)])
        result = await Runner.run(agent, "go")
        assert result.final_output == "finished"
        assert hostile.done(str(result.to_input_list())) == expected


async def test_hostile_local_shell_call_under_an_agent(hostile, executor):
    local_call = LocalShellCall(
        id="i1",
        call_id="c1",
        status="completed",
        type="local_shell_call",
        action={"type": "exec", "command": ["sh", "-c", hostile.shell], "env": {}},
    )
    model = ScriptedModel([[local_call], [assistant_message("finished")]])
    agent = Agent(name="a", model=model, tools=[LocalShellTool(executor=executor)])
    result = await Runner.run(agent, "go")
    assert hostile.done(str(result.to_input_list())) == set()


async def test_hostile_code_under_an_agent(hostile, everything):
    def execute_on_host(code: str) -> str:
        """Run code."""
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    for function, expected in ((execute_on_host, everything), (execute_code, set())):
        model = ScriptedModel(
            [
                [function_call(function.__name__, {"code": hostile.python}, call_id="c1")],
                [assistant_message("finished")],
            ]
        )
        agent = Agent(name="a", model=model, tools=[function_tool(function)])
        result = await Runner.run(agent, "go")
        assert hostile.done(str(result.to_input_list())) == expected


def test_importing_cordon_imports_no_framework():
    code = "import pycordon, pycordon.adapters, sys; print({'agents', 'openai'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
