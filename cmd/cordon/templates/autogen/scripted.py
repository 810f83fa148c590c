# SPDX-License-Identifier: Apache-2.0
"""A model for runs without a service: it asks for the same two tools whatever the question is."""

import json
from typing import Any, Sequence

from autogen_core import FunctionCall
from autogen_core.models import (
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient

QUESTION = "What is the 30th Fibonacci number, and its square root?"
FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"


def result(reason: Any, content: Any) -> CreateResult:
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)


def call(name: str, **arguments: Any) -> CreateResult:
    wanted = FunctionCall(id=name, name=name, arguments=json.dumps(arguments))
    return result("function_calls", [wanted])


class ScriptedModel(ReplayChatCompletionClient):
    async def create(self, messages: Sequence[LLMMessage], **kwargs: Any) -> CreateResult:
        answers = [m for m in messages if isinstance(m, FunctionExecutionResultMessage)]
        heard = [answer.content[0].content.strip() for answer in answers]
        if not heard:
            return call("CodeExecutor", code=FIBONACCI)
        if len(heard) == 1:
            return call("calculate", expression=f"sqrt({heard[0]})")
        return result("stop", f"It is {heard[0]}, and its square root is {heard[1]}.")


def model() -> ScriptedModel:
    info = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=False,
        family=ModelFamily.UNKNOWN,
        structured_output=False,
    )
    return ScriptedModel([], model_info=info)
