# SPDX-License-Identifier: Apache-2.0
"""An OpenAI agent whose shell and code run in a sandbox. Needs: pip install openai-agents

Runs offline with a scripted model; for a real one, leave `model=` out (or name one).
"""

import asyncio

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.testing import ScriptedModel, assistant_message, function_call

from pycordon.adapters.openai_agents import CordonSandboxClient, functions_for

PROGRAM = """
import pathlib
print("sum:", sum(range(101)))
try:
    print(pathlib.Path("/etc/shadow").read_text())
except OSError as error:
    print("refused:", error)
"""


async def with_function_tools() -> None:
    tools = [function_tool(f) for f in functions_for(max_memory_mb=256, max_execution_seconds=10)]
    model = ScriptedModel(
        [
            [function_call("execute_code", {"code": PROGRAM}, call_id="1")],
            [assistant_message("The sum is 5050.")],
        ]
    )
    agent = Agent(name="calculator", instructions="Compute with code.", model=model, tools=tools)
    result = await Runner.run(agent, "What is 1 + 2 + ... + 100?")
    print(result.to_input_list()[-2]["output"])
    print(result.final_output)


async def with_a_sandbox_session() -> None:
    model = ScriptedModel(
        [
            [
                function_call(
                    "exec_command", {"cmd": "echo draft > report.md; ls; id -u"}, call_id="1"
                )
            ],
            [assistant_message("The report is written.")],
        ]
    )
    agent = SandboxAgent(name="writer", instructions="Write a report.", model=model)
    config = RunConfig(sandbox=SandboxRunConfig(client=CordonSandboxClient(max_memory_mb=512)))
    result = await Runner.run(agent, "Write report.md", run_config=config)
    print(result.to_input_list()[-2]["output"])
    print(result.final_output)


async def main() -> None:
    set_tracing_disabled(True)
    await with_function_tools()
    await with_a_sandbox_session()


if __name__ == "__main__":
    asyncio.run(main())
