# SPDX-License-Identifier: Apache-2.0
import agent
import pytest
import scripted


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MODEL", raising=False)


def run_code(code):
    return str(agent.code_tool.run(code=code, libraries_used=[]))


def test_the_agent_answers():
    answer = agent.ask(scripted.QUESTION)
    assert answer == "It is 832040, and its square root is 912.1622662662603."


def test_the_code_tool_works():
    assert run_code("print(6 * 7)").strip() == "42"


def test_attacks_fail_in_the_code_tool(host, attack):
    answer = run_code(host.program(attack))
    assert "Error" in answer
    assert not host.is_harmed(answer)


def test_attacks_fail_in_the_calculator_tool(host, attack):
    assert not host.is_harmed(str(agent.calculator.run(expression=host.expression(attack))))
