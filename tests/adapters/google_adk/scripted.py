# SPDX-License-Identifier: Apache-2.0
"""ADK's runner with a model that says what it was told to."""

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class Scripted(BaseLlm):
    model: str = "scripted"
    turns: list[types.Part]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[self.turns.pop(0)]))


def code(text):
    return types.Part(text=f"```python\n{text}\n```")


def call(name, **arguments):
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


async def events_of(prompt, *turns, **agent_settings):
    """Everything the runner says when the model's turns are these."""
    model = Scripted(turns=list(turns))
    agent = Agent(name="agent", model=model, **agent_settings)
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=prompt)])
    found = runner.run_async(user_id="user", session_id=session.id, new_message=message)
    events = [event async for event in found]
    artifacts = await runner.artifact_service.list_artifact_keys(
        app_name="app", user_id="user", session_id=session.id
    )
    await runner.close()
    return events, artifacts
