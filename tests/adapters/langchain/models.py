# SPDX-License-Identifier: Apache-2.0
"""A model that says what it was told to say."""

from __future__ import annotations

import itertools
from typing import Any, List

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

_numbers = itertools.count()


def call(name: str, **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": f"call-{next(_numbers)}", "type": "tool_call"}


class ScriptedModel(BaseChatModel):
    responses: List[AIMessage]
    position: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedModel":
        return self

    def _generate(
        self,
        messages: List[BaseMessage],
        stop: Any = None,
        run_manager: "CallbackManagerForLLMRun | None" = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self.responses[self.position]
        self.position += 1
        return ChatResult(generations=[ChatGeneration(message=message)])
