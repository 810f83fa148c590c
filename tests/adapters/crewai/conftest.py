# SPDX-License-Identifier: Apache-2.0
"""CrewAI must neither call home nor look for a model service, and keeps its files in the test's."""

import os

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
    CREWAI_TESTING="true",
)

import pytest  # noqa: E402
from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402


class Scripted(BaseLLM):
    """A model that calls one tool in the format of agents without function calling, then ends."""

    said: list = []
    heard: list = []

    def call(self, messages, *args, **kwargs):
        self.heard.append(
            messages
            if isinstance(messages, str)
            else "\n".join(str(message.get("content")) for message in messages)
        )
        return self.said.pop(0) if self.said else "Thought: I know\nFinal Answer: done"

    def supports_function_calling(self):
        return False


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """ask(tool, arguments) -> what a model heard after it called the tool."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crew"))

    def run(tool, arguments):
        import json

        call = f"Thought: try\nAction: {tool.name}\nAction Input: {json.dumps(arguments)}"
        model = Scripted(model="scripted", said=[call], heard=[])
        agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=[tool])
        task = Task(description="d", expected_output="e", agent=agent)
        result = Crew(agents=[agent], tasks=[task]).kickoff()
        assert "done" in str(result)
        return model.heard[-1]

    return run
