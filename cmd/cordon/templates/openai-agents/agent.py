# SPDX-License-Identifier: Apache-2.0
"""@NAME@: an agent of the OpenAI Agents SDK whose code and sums run in a sandbox.

python agent.py "QUESTION"
"""

import asyncio
import os
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled

import scripted
from calculator import calculate
from pycordon.adapters.openai_agents import functions_for

# The code has a private directory, which lives as long as the agent, no network and nothing of yours.
execute_code, execute_command = functions_for(max_memory_mb=512, max_execution_seconds=30)
tools = [function_tool(execute_code), function_tool(execute_command), function_tool(calculate)]


def model():
    if os.environ.get("OPENAI_API_KEY"):
        return os.environ.get("MODEL")  # None: the SDK's default
    set_tracing_disabled(True)
    return scripted.model()


async def ask(question: str) -> str:
    agent = Agent(
        name="analyst",
        instructions="Compute with the tools; never guess a number.",
        model=model(),
        tools=tools,
    )
    return str((await Runner.run(agent, question)).final_output)


if __name__ == "__main__":
    print(asyncio.run(ask(" ".join(sys.argv[1:]) or scripted.QUESTION)))
