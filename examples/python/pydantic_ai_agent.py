# SPDX-License-Identifier: Apache-2.0
"""A Pydantic AI agent whose tools work in a sandbox. Runs offline, with a scripted model.

    pip install pycordon pydantic-ai-slim
    python pydantic_ai_agent.py

With a real model: `model = "anthropic:claude-sonnet-4-5"` instead of the FunctionModel.
"""

import asyncio

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from pycordon.adapters.pydantic_ai import CordonWorkspace, CordonWorkspaceBackend

COMMANDS = [
    "echo 'print(sum(range(10)))' > sum.py && python3 sum.py",
    "cat ~/.ssh/id_* ; curl -s http://example.com || echo no network",
]


def script(messages, info):
    """Calls the tool with one command after the other, then sums up."""
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    if turn < len(COMMANDS):
        return ModelResponse(parts=[ToolCallPart("shell", {"command": COMMANDS[turn]})])
    return ModelResponse(parts=[TextPart("The sum is 45; your keys and the network are out of reach.")])


model = FunctionModel(script)
agent = Agent(model, capabilities=[CordonWorkspace(max_memory_mb=512, max_procs=64)])


@agent.tool
async def shell(ctx: RunContext[None], command: str) -> str:
    """Runs a shell command in the workspace."""
    result = await ctx.workspace.run(command, shell=True, timeout=30)
    print(f"$ {command}\n{result.stdout}{result.stderr}")
    return f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"


async def main():
    result = await agent.run("Add up the numbers below ten.")
    print(result.output)
    # The sandbox outlives the run, so that a conversation can go on in it. This one is over.
    ref = result.all_messages()[-1].workspace_ref
    await CordonWorkspaceBackend(ref=ref).destroy()


if __name__ == "__main__":
    asyncio.run(main())
