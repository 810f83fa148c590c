# SPDX-License-Identifier: Apache-2.0
"""Agents of LangChain and deepagents whose code runs in a sandbox.

Needs: pip install langchain deepagents. Runs offline with a scripted model; for a real one,
write `model="..."` as LangChain names them.
"""

from typing import Any, List

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from pycordon.adapters.langchain import CordonSandbox, code_tool

PROGRAM = """
import pathlib
print("sum:", sum(range(101)))
try:
    print(pathlib.Path("/etc/shadow").read_text())
except OSError as error:
    print("refused:", error)
"""


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self


def script(tool: str, arguments: Any, answer: str) -> ScriptedModel:
    call = {"name": tool, "args": arguments, "id": "1"}
    return ScriptedModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(answer)]))


def show(messages: List[BaseMessage]) -> None:
    for message in messages:
        if isinstance(message, (ToolMessage, AIMessage)) and message.content:
            print(message.content)


def with_a_tool() -> None:
    model = script("execute_code", {"code": PROGRAM}, "The sum is 5050.")
    agent = create_agent(model, tools=[code_tool(max_memory_mb=256, max_execution_seconds=10)])
    show(agent.invoke({"messages": [("user", "What is 1 + 2 + ... + 100?")]})["messages"])


def with_a_backend() -> None:
    command = {"command": "echo draft > report.md; ls; id -u"}
    model = script("execute", command, "The report is written.")
    with CordonSandbox(max_memory_mb=512) as backend:
        agent = create_deep_agent(model=model, backend=backend)
        show(agent.invoke({"messages": [("user", "Write report.md")]})["messages"])


if __name__ == "__main__":
    with_a_tool()
    with_a_backend()
