# SPDX-License-Identifier: Apache-2.0
"""Google ADK agents whose code and commands run in sandboxes. Runs offline, with a scripted model.

    pip install pycordon google-adk
    python google_adk_agent.py

With a real model: `model="gemini-2.5-flash"` instead of Scripted(...).
"""

import asyncio

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types

from pycordon.adapters.google_adk import CordonCodeExecutor, CordonEnvironment


class Scripted(BaseLlm):
    """Says what it was told to, one part a turn."""

    model: str = "scripted"
    turns: list[types.Part]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[self.turns.pop(0)]))


def calls(command):
    return types.Part(function_call=types.FunctionCall(name="Execute", args={"command": command}))


# Python that the model writes between its sentences is executed.
analyst = Agent(
    name="analyst",
    model=Scripted(
        turns=[
            types.Part(text="```python\nprint(sum(range(10)))\n```"),
            types.Part(text="```python\nprint(open('/etc/shadow').read())\n```"),
            types.Part(text="The sum is 45, and that file is none of my business."),
        ]
    ),
    code_executor=CordonCodeExecutor(max_memory_mb=512, timeout_seconds=30),
)

# Tools for commands and files, in one sandbox.
developer = Agent(
    name="developer",
    model=Scripted(
        turns=[
            calls("echo 'print(6 * 7)' > answer.py && python3 answer.py"),
            calls("curl -s http://example.com || echo no network"),
            types.Part(text="It is 42."),
        ]
    ),
    tools=[EnvironmentToolset(environment=CordonEnvironment(max_memory_mb=512))],
)


async def ask(agent, question):
    runner = InMemoryRunner(agent=agent, app_name="example")
    session = await runner.session_service.create_session(app_name="example", user_id="me")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=message):
        for part in event.content.parts:
            if part.code_execution_result:
                print(part.code_execution_result.outcome.value, part.code_execution_result.output)
            elif part.function_response:
                print(part.function_response.response)
            elif part.text:
                print(part.text)
    await runner.close()  # also removes the sandbox


async def main():
    await ask(analyst, "Add up the numbers below ten.")
    await ask(developer, "What is the answer?")


if __name__ == "__main__":
    asyncio.run(main())
