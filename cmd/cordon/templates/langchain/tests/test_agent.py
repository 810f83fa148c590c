# SPDX-License-Identifier: Apache-2.0
import agent
import pytest
import scripted


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MODEL", raising=False)


def run_tool(name, **arguments):
    return next(tool for tool in agent.tools if tool.name == name).invoke(arguments)


def test_the_agent_answers():
    answer = agent.ask(scripted.QUESTION)
    assert answer == "It is 832040, and its square root is 912.1622662662603."


def test_the_tools_work():
    assert run_tool("execute_code", code="print(6 * 7)") == "42"
    assert run_tool("calculate", expression="6 * 7") == "42"


def test_attacks_fail_in_the_code_tool(host, attack):
    answer = run_tool("execute_code", code=host.program(attack))
    assert "Error" in answer
    assert not host.is_harmed(answer)


def test_attacks_fail_in_the_calculator_tool(host, attack):
    assert not host.is_harmed(run_tool("calculate", expression=host.expression(attack)))
