# SPDX-License-Identifier: Apache-2.0
"""A model for runs without a service: it asks for the same two tools whatever the question is."""

from typing import Any, List

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

QUESTION = "What is the 30th Fibonacci number, and its square root?"
FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"


def call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


class ScriptedModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self

    def _generate(self, messages: List[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        heard = [message.content for message in messages if isinstance(message, ToolMessage)]
        if not heard:
            said = call("execute_code", code=FIBONACCI)
        elif len(heard) == 1:
            said = call("calculate", expression=f"sqrt({heard[0]})")
        else:
            said = AIMessage(f"It is {heard[0]}, and its square root is {heard[1]}.")
        return ChatResult(generations=[ChatGeneration(message=said)])


def model() -> ScriptedModel:
    return ScriptedModel()
