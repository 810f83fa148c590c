# SPDX-License-Identifier: Apache-2.0
"""A model for runs without a service: it asks for the same two tools whatever the question is."""

from typing import Any

from agents.testing import ScriptedModel as BaseModel
from agents.testing import assistant_message, function_call

QUESTION = "What is the 30th Fibonacci number, and its square root?"
FIBONACCI = "a, b = 0, 1\nfor _ in range(30):\n    a, b = b, a + b\nprint(a)"


class ScriptedModel(BaseModel):
    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any):
        items = [] if isinstance(input, str) else input
        heard = [item["output"] for item in items if "output" in item]
        if not heard:
            step = function_call("execute_code", {"code": FIBONACCI}, call_id="1")
        elif len(heard) == 1:
            step = function_call("calculate", {"expression": f"sqrt({heard[0]})"}, call_id="2")
        else:
            step = assistant_message(f"It is {heard[0]}, and its square root is {heard[1]}.")
        self.enqueue([step])
        return await super().get_response(system_instructions, input, *args, **kwargs)


def model() -> ScriptedModel:
    return ScriptedModel()
