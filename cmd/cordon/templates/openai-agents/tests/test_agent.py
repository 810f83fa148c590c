# SPDX-License-Identifier: Apache-2.0
import asyncio
import json

import agent
import pytest
import scripted
from agents import Agent, Runner
from agents.testing import ScriptedModel, assistant_message, function_call


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def run_tool(name, **arguments):
    """Lets an agent call a tool and gives the text that its model would see."""
    call = function_call(name, json.dumps(arguments), call_id="1")
    model = ScriptedModel([[call], [assistant_message("done")]])
    caller = Agent(name="caller", model=model, tools=agent.tools)
    result = asyncio.run(Runner.run(caller, "call it"))
    return next(item["output"] for item in result.to_input_list() if "output" in item)


def test_the_agent_answers():
    answer = asyncio.run(agent.ask(scripted.QUESTION))
    assert answer == "It is 832040, and its square root is 912.1622662662603."


def test_the_tools_work():
    assert run_tool("execute_code", code="print(6 * 7)") == "42"
    assert run_tool("execute_command", command="echo $((6 * 7))") == "42"
    assert run_tool("calculate", expression="6 * 7") == "42"


def test_attacks_fail_in_the_code_tool(host, attack):
    answer = run_tool("execute_code", code=host.program(attack))
    assert "Error" in answer
    assert not host.is_harmed(answer)


def test_attacks_fail_in_the_calculator_tool(host, attack):
    assert not host.is_harmed(run_tool("calculate", expression=host.expression(attack)))
