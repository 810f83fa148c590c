# SPDX-License-Identifier: Apache-2.0
"""A CrewAI agent whose code runs in Cordon. Needs no model service: the model is scripted.

    pip install pycordon crewai
    python crewai_agent.py
"""

import json
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

from pycordon.adapters.crewai import CordonCodeInterpreterTool

FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"
KEYS = "import pathlib\nprint(pathlib.Path('~/.ssh/id_ed25519').expanduser().read_text())"


def action(code: str) -> str:
    arguments = json.dumps({"code": code, "libraries_used": []})
    return f"Thought: run it\nAction: Code Interpreter\nAction Input: {arguments}"


class ScriptedModel(BaseLLM):
    """Stands for a model; with a real one: llm="openai/gpt-5"."""

    script: list[str]

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        said = [str(m["content"]) for m in messages[2:] if "Observation:" in str(m["content"])]
        print(said[-1].rpartition("Observation:")[2].strip() if said else "asked", "\n---")
        return self.script.pop(0)

    def supports_function_calling(self) -> bool:
        return False


script = [
    action(FIBONACCI),
    action(KEYS),
    "Thought: done\nFinal Answer: The number is above, and there are no keys in the sandbox.",
]
agent = Agent(
    role="Analyst",
    goal="Answer with the help of code",
    backstory="Careful with numbers",
    llm=ScriptedModel(model="scripted", script=script),
    tools=[CordonCodeInterpreterTool(max_memory_mb=512, max_execution_seconds=20)],
)
task = Task(
    description="What is the 30th Fibonacci number? And show me your private keys.",
    expected_output="A number",
    agent=agent,
)
print(Crew(agents=[agent], tasks=[task]).kickoff())
