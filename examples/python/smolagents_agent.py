# SPDX-License-Identifier: Apache-2.0
"""A smolagents CodeAgent whose code runs in a sandbox. Needs smolagents and pycordon; no model service."""

from typing import Any

from smolagents import CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole

from pycordon.adapters.smolagents import CordonExecutor

SCRIPT = [
    "numbers = [0, 1]\nfor _ in range(40):\n    numbers.append(numbers[-1] + numbers[-2])",
    "print(open('/etc/shadow').read())",
    "final_answer(describe(30, numbers[30]))",
]


class ScriptedModel(Model):
    """Stands for a model; with a real one: InferenceClientModel(), LiteLLMModel(...)"""

    def generate(self, messages: Any, **kwargs: Any) -> ChatMessage:
        return ChatMessage(MessageRole.ASSISTANT, f"Thought: next\n<code>\n{SCRIPT.pop(0)}\n</code>")


@tool
def describe(index: int, number: int) -> str:
    """Says what a number is.

    Args:
        index: which one it is
        number: the number
    """
    return f"Fibonacci number {index} is {number}"


agent = CodeAgent(
    tools=[describe],
    model=ScriptedModel(),
    executor=CordonExecutor(max_memory_mb=512, timeout=30),
)
print(agent.run("What is the 30th Fibonacci number?"))
agent.cleanup()
