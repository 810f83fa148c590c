# SPDX-License-Identifier: Apache-2.0
"""@NAME@: a LangChain agent whose code and sums run in a sandbox.

python agent.py "QUESTION"
"""

import os
import sys

from langchain.agents import create_agent
from langchain.tools import tool

import scripted
from calculator import calculate
from pycordon.adapters.langchain import code_tool

# The code has a private directory, which lives as long as the tool, no network and nothing of yours.
tools = [
    code_tool(max_memory_mb=512, max_execution_seconds=30),
    tool(parse_docstring=True)(calculate),
]


def model():
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL"):
        return os.environ.get("MODEL", "openai:gpt-5-mini")
    return scripted.model()


def ask(question: str) -> str:
    agent = create_agent(
        model(), tools=tools, system_prompt="Compute with the tools; never guess a number."
    )
    return str(agent.invoke({"messages": [("user", question)]})["messages"][-1].content)


if __name__ == "__main__":
    print(ask(" ".join(sys.argv[1:]) or scripted.QUESTION))
