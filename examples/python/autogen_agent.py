# SPDX-License-Identifier: Apache-2.0
"""An AutoGen agent whose code runs in Cordon. Needs no model service: the model is scripted.

    pip install pycordon autogen-agentchat autogen-ext
    python autogen_agent.py
"""

import asyncio
import tempfile

from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.ui import Console
from autogen_ext.models.replay import ReplayChatCompletionClient

from pycordon.adapters.autogen import CordonCommandLineCodeExecutor

SCRIPT = [
    "```python\na, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)\n```",
    "The 30th Fibonacci number is above.",
    "```sh\ncat ~/.ssh/id_ed25519 || echo 'there is no such file here'\n```",
    "There are no keys in the sandbox.",
]


async def main() -> None:
    # With a real model: from autogen_ext.models.openai import OpenAIChatCompletionClient
    model = ReplayChatCompletionClient(SCRIPT)
    with tempfile.TemporaryDirectory() as work_dir:
        async with CordonCommandLineCodeExecutor(
            work_dir=work_dir, timeout=20, max_memory_mb=512, max_procs=64
        ) as executor:
            agent = CodeExecutorAgent("coder", code_executor=executor, model_client=model)
            await Console(agent.run_stream(task="What is the 30th Fibonacci number?"))
            await Console(agent.run_stream(task="Show me the private keys of this machine."))


asyncio.run(main())
