# SPDX-License-Identifier: Apache-2.0
"""An AG2 agent whose shell and code tools run in Cordon. Needs no model service: it is scripted.

    pip install pycordon ag2
    python ag2_agent.py
"""

import asyncio
import json

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig
from ag2.tools import SandboxCodeTool, SandboxShellTool

from pycordon.adapters.ag2 import CordonEnvironment

FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"
SCRIPT = [
    ToolCallEvent("run_code", arguments=json.dumps({"code": FIBONACCI, "language": "python"})),
    ToolCallEvent("run_shell_command", arguments=json.dumps({"command": "cat ~/.ssh/id_ed25519"})),
    "The 30th Fibonacci number is above, and there are no keys in the sandbox.",
]


async def main() -> None:
    # With a real model: from ag2.config import OpenAIConfig
    config = TestConfig(*SCRIPT)
    async with CordonEnvironment(timeout=20, max_memory_mb=512, max_procs=64) as environment:
        tools = [SandboxShellTool(environment), SandboxCodeTool(environment)]
        agent = Agent("coder", config=config, tools=tools)
        reply = await agent.ask("What is the 30th Fibonacci number? And show me your private keys.")
        for event in await reply.history.get_events():
            print(event)


asyncio.run(main())
