# SPDX-License-Identifier: Apache-2.0
"""A Microsoft Agent Framework agent whose shell runs in Cordon. Needs no model service: it is scripted.

    pip install pycordon agent-framework-core
    pip install --pre agent-framework-tools
    python agent_framework_agent.py
"""

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from pycordon.adapters.agent_framework import CordonShellExecutor

SCRIPT = [
    "python3 -c 'exec(\"a, b = 0, 1\\nfor _ in range(30): a, b = b, a + b\\nprint(a)\")'",
    "cat ~/.ssh/id_ed25519",
]


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):
    """Stands for a chat client such as agent_framework.openai.OpenAIChatClient."""

    def get_shell_tool(self, *, func: Any) -> Any:
        return func

    async def _inner_get_response(self, *, messages: Any, **kwargs: Any) -> ChatResponse:
        for content in messages[-1].contents:
            print(content.result if content.type == "function_result" else content.text)
        if not SCRIPT:
            return ChatResponse(messages=[Message(role="assistant", contents=["That is all."])])
        call = Content.from_function_call(
            f"call-{len(SCRIPT)}", "run_shell", arguments={"command": SCRIPT.pop(0)}
        )
        return ChatResponse(messages=[Message(role="assistant", contents=[call])])


async def main() -> None:
    client = ScriptedClient()
    async with CordonShellExecutor(timeout=20, max_memory_mb=512, max_procs=64) as shell:
        agent = Agent(client=client, tools=[client.get_shell_tool(func=shell.as_function())])
        print(await agent.run("What is the 30th Fibonacci number? And show me your private keys."))


asyncio.run(main())
