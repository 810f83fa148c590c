# SPDX-License-Identifier: Apache-2.0
"""@NAME@: an AutoGen assistant whose code and sums run in a sandbox.

python agent.py "QUESTION"
"""

import asyncio
import os
import sys
import tempfile

from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool
from autogen_ext.tools.code_execution import PythonCodeExecutionTool

import scripted
from calculator import calculate
from pycordon.adapters.autogen import CordonCommandLineCodeExecutor


def make_executor(work_dir: str) -> CordonCommandLineCodeExecutor:
    """The code sees `work_dir`, has no network and nothing else of yours."""
    return CordonCommandLineCodeExecutor(
        work_dir=work_dir, timeout=30, max_memory_mb=512, max_procs=64
    )


def make_tools(executor: CordonCommandLineCodeExecutor) -> list:
    return [
        PythonCodeExecutionTool(executor),
        FunctionTool(calculate, description="Evaluates an arithmetic expression."),
    ]


def model():
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL"):
        from autogen_ext.models.openai import OpenAIChatCompletionClient

        return OpenAIChatCompletionClient(model=os.environ.get("MODEL", "gpt-5-mini"))
    return scripted.model()


async def ask(question: str) -> str:
    client = model()
    with tempfile.TemporaryDirectory() as work_dir:
        async with make_executor(work_dir) as executor:
            assistant = AssistantAgent(
                "analyst",
                model_client=client,
                tools=make_tools(executor),
                max_tool_iterations=8,
                system_message="Compute with the tools; never guess a number.",
            )
            result = await assistant.run(task=question)
    await client.close()
    return str(result.messages[-1].content)


if __name__ == "__main__":
    print(asyncio.run(ask(" ".join(sys.argv[1:]) or scripted.QUESTION)))
