# SPDX-License-Identifier: Apache-2.0
import asyncio

import agent
import pytest
import scripted
from autogen_core import CancellationToken


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MODEL", raising=False)


@pytest.fixture
def run_tool(tmp_path_factory):
    """Calls a tool as an assistant does and gives the text that its model would see."""
    work_dir = str(tmp_path_factory.mktemp("work"))

    def run(name, **arguments):
        async def call():
            async with agent.make_executor(work_dir) as executor:
                tool = next(t for t in agent.make_tools(executor) if t.name == name)
                result = await tool.run_json(arguments, CancellationToken())
                return tool.return_value_as_string(result)

        return asyncio.run(call())

    return run


def test_the_agent_answers():
    answer = asyncio.run(agent.ask(scripted.QUESTION))
    assert answer == "It is 832040, and its square root is 912.1622662662603."


def test_the_tools_work(run_tool):
    assert "42" in run_tool("CodeExecutor", code="print(6 * 7)")
    assert run_tool("calculate", expression="6 * 7") == "42"


def test_attacks_fail_in_the_code_tool(host, attack, run_tool):
    answer = run_tool("CodeExecutor", code=host.program(attack))
    assert "Error" in answer
    assert not host.is_harmed(answer)


def test_attacks_fail_in_the_calculator_tool(host, attack, run_tool):
    assert not host.is_harmed(run_tool("calculate", expression=host.expression(attack)))
