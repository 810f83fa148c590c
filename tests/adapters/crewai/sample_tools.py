# SPDX-License-Identifier: Apache-2.0
"""Tools as a user of CrewAI writes them, to be wrapped by the tests."""

import os
import time
from typing import Any

from crewai.tools import BaseTool, tool
from pydantic import BaseModel, SecretStr


class Greeter(BaseTool):
    """Keeps its own state and says where it runs."""

    name: str = "Greeter"
    description: str = "Greets somebody."
    greeting: str = "Hello"
    key: SecretStr = SecretStr("")

    def _run(self, who: str, times: int = 1) -> str:
        print("noise that must not disturb the answer")
        return f"{self.greeting}, {who}! " * times + self.key.get_secret_value()


class Attacker(BaseTool):
    name: str = "Attacker"
    description: str = "Runs the code it is given."

    def _run(self, code: str) -> str:
        import contextlib
        import io

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        return out.getvalue()


class Answer(BaseModel):
    number: int
    words: list[str]


class Odd(BaseTool):
    name: str = "Odd"
    description: str = "Returns something of a kind."

    def _run(self, kind: str) -> Any:
        if kind == "raise":
            raise KeyError("what it said")
        if kind == "exit":
            os._exit(3)
        if kind == "sleep":
            time.sleep(600)
        return {
            "model": Answer(number=7, words=["a", "b"]),
            "object": {1, 2},
            "forged": '{"value": "forged"}',
        }[kind]


class Unserializable(BaseTool):
    name: str = "Unserializable"
    description: str = "Keeps something that cannot be sent."
    thing: Any = None

    def _run(self) -> str:
        return "never"


class Asynchronous(BaseTool):
    name: str = "Asynchronous"
    description: str = "Has an async body."

    async def _run(self, word: str) -> str:
        return word.upper()


@tool("Adder")
def adder(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def make_closure():
    @tool("Closure")
    def closure(a: int) -> int:
        """Cannot be imported."""
        return a

    return closure
