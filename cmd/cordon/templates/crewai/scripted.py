# SPDX-License-Identifier: Apache-2.0
"""A model for runs without a service: it asks for the same two tools whatever the question is."""

import json
from typing import Any

from crewai import BaseLLM

QUESTION = "What is the 30th Fibonacci number, and its square root?"
FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"


def action(name: str, **arguments: Any) -> str:
    return f"Thought: use a tool\nAction: {name}\nAction Input: {json.dumps(arguments)}"


class ScriptedModel(BaseLLM):
    heard: list[str] = []

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        said = "\n".join(str(message["content"]) for message in messages)
        self.heard.append(said.rpartition("Observation:")[2].strip().partition("\n")[0])
        if len(self.heard) == 1:
            return action("Code Interpreter", code=FIBONACCI, libraries_used=[])
        if len(self.heard) == 2:
            return action("Calculator", expression=f"sqrt({self.heard[1]})")
        number, root = self.heard[1:3]
        return f"Thought: done\nFinal Answer: It is {number}, and its square root is {root}."

    def supports_function_calling(self) -> bool:
        return False


def model() -> ScriptedModel:
    return ScriptedModel(model="scripted", heard=[])
