# SPDX-License-Identifier: Apache-2.0
"""@NAME@: a CrewAI agent whose code and sums run in a sandbox.

python agent.py "QUESTION"
"""

import os
import sys

from crewai import Agent, Crew, Task
from crewai.tools import tool

import scripted
from calculator import calculate
from pycordon.adapters.crewai import CordonCodeInterpreterTool

# The code has a private empty directory, no network and nothing of yours.
code_tool = CordonCodeInterpreterTool(workdir=True, max_memory_mb=512, max_execution_seconds=30)


@tool("Calculator")
def calculator(expression: str) -> str:
    """Evaluates an arithmetic expression in Python's syntax; the math module's names are there."""
    return calculate(expression)


def model():
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL"):
        return os.environ.get("MODEL", "openai/gpt-5-mini")
    return scripted.model()


def ask(question: str) -> str:
    agent = Agent(
        role="Analyst",
        goal="Answer with numbers that were computed, not guessed",
        backstory="You write short Python programs and read what they print.",
        llm=model(),
        tools=[code_tool, calculator],
    )
    task = Task(description=question, expected_output="A short answer", agent=agent)
    return str(Crew(agents=[agent], tasks=[task]).kickoff())


if __name__ == "__main__":
    print(ask(" ".join(sys.argv[1:]) or scripted.QUESTION))
