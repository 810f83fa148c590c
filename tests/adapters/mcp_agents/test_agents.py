# SPDX-License-Identifier: Apache-2.0
"""Agents of two frameworks do a small coding task through `cordon mcp --workspace`, each with its
framework's own client of MCP. What the model would say is written down; everything else is real."""

import json
import pathlib
import shlex
import subprocess
import sys

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

CORDON = str(pathlib.Path(sys.executable).with_name("cordon"))
ENOUGH_S = 60
set_tracing_disabled(True)  # it would be sent

BUG = "def mean(values):\n    return sum(values) / (len(values) - 1)\n"
TEST = """import unittest
from stats import mean
class Tests(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3]), 2)
"""
RUN_TESTS = {"command": ["python3", "-B", "-m", "unittest", "-q", "tests"]}
TASK = [
    ("write_file", {"path": "stats.py", "content": BUG}),
    ("run_command", RUN_TESTS),
    ("edit_file", {"path": "stats.py", "old_text": "(len(values) - 1)", "new_text": "len(values)"}),
    ("run_command", RUN_TESTS),
    ("workspace_diff", {}),
]


async def pydantic_ai(words, calls):
    """What Pydantic AI's model is told of each call's result."""

    def answer(messages, info):
        assert {name for name, _ in calls} <= {tool.name for tool in info.function_tools}
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done < len(calls):
            return ModelResponse(parts=[ToolCallPart(*calls[done])])
        return ModelResponse(parts=[TextPart("finished")])

    transport = StdioTransport(words[0], words[1:], keep_alive=False)
    agent = PydanticAgent(FunctionModel(answer), toolsets=[MCPToolset(transport, tool_error_behavior="failed")])
    result = await agent.run("Write stats.py so that the tests pass.")
    assert result.output == "finished"
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


async def openai_agents(words, calls):
    """What the OpenAI Agents SDK's model is told of each call's result."""
    script = [[function_call(name, arguments, call_id=f"c{n}")] for n, (name, arguments) in enumerate(calls)]
    model = ScriptedModel([*script, [assistant_message("finished")]])
    params = {"command": words[0], "args": words[1:]}
    async with MCPServerStdio(params, use_structured_content=True, client_session_timeout_seconds=ENOUGH_S) as server:
        agent = OpenAIAgent(name="a", model=model, mcp_servers=[server])
        result = await Runner.run(agent, "Write stats.py so that the tests pass.")
    assert result.final_output == "finished" and model.remaining_steps == 0
    outputs = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]
    return [output if isinstance(output, str) else json.dumps(output) for output in outputs]


FRAMEWORKS = pytest.mark.parametrize("framework", [pydantic_ai, openai_agents])


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)  # clients of MCP do not pass it on
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "tests.py").write_text(TEST)
    return directory


@FRAMEWORKS
async def test_a_coding_task(framework, project):
    said = await framework([CORDON, "mcp", "--workspace", str(project), "-t", f"{ENOUGH_S}"], TASK)
    assert len(said) == len(TASK), said
    first, second, diff = said[1], said[3], said[4]
    assert "1.0 != 2" not in second and "3.0 != 2" in first and "FAILED" in first
    assert json.loads(first)["exit_code"] == 1 and json.loads(second)["exit_code"] == 0
    assert [one["path"] for one in json.loads(diff)["changes"]] == ["stats.py"]
    # Nothing is in the directory until a person commits it.
    assert [one.name for one in project.iterdir()] == ["tests.py"]
    subprocess.run([CORDON, "workspace", "commit", str(project)], check=True, stdin=subprocess.DEVNULL)
    assert (project / "stats.py").read_text() == BUG.replace("(len(values) - 1)", "len(values)")


@FRAMEWORKS
async def test_a_mistake_comes_back_to_the_model(framework, project):
    wrong = [("edit_file", {"path": "tests.py", "old_text": "not there", "new_text": "x"}), ("list_files", {})]
    said = await framework([CORDON, "mcp", "--workspace", str(project)], wrong)
    assert "not there" in said[0] or "old_text" in said[0], said
    assert "tests.py" in said[1]


@FRAMEWORKS
async def test_hostile_code_under_an_agent(framework, project, hostile, everything):
    outside = subprocess.run([sys.executable, "-c", hostile.python], capture_output=True, text=True)
    assert hostile.done(outside.stdout) == everything
    command = "/usr/bin/python3 -c " + shlex.quote(hostile.python)
    said = await framework([CORDON, "mcp", "--workspace", str(project)], [("run_command", {"command": command})])
    assert hostile.done(json.loads(said[0])["stdout"]) == set()
