# SPDX-License-Identifier: Apache-2.0
"""OpenAI Agents SDK: shell executor, function tools and a sandbox client.

* `CordonShellExecutor` runs the commands of `ShellTool` (and of the older `LocalShellTool`).
* `execute_code` and `execute_command` are plain functions for `function_tool`; `functions_for()`
  makes a pair that is bound to a sandbox of one's own.
* `CordonSandboxClient` gives a `SandboxAgent` sessions that are confined on Linux.
"""

from __future__ import annotations

import threading
from typing import Any, Awaitable, Callable, List, NamedTuple, Optional, Union

from agents import (
    LocalShellCommandRequest,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
)

from pycordon import Result, Sandbox

from ._common import remark
from ._openai_client import CordonSandboxClient
from ._openai_session import (
    CordonSandboxClientOptions,
    CordonSandboxSession,
    CordonSandboxSessionState,
)
from ._tools import Async, answer, cut_note, open_sandbox, limit_for

__all__ = [
    "CordonSandboxClient",
    "CordonSandboxClientOptions",
    "CordonSandboxSession",
    "CordonSandboxSessionState",
    "CordonShellExecutor",
    "Functions",
    "execute_code",
    "execute_command",
    "functions_for",
]


class CordonShellExecutor:
    """`ShellTool(executor=CordonShellExecutor(max_memory_mb=512))`.

    Every command of a call is one run in the same sandbox: files in the working directory, /tmp and
    home stay, processes do not. `sandbox` is a `pycordon.Sandbox` to share, or its config; without
    one the executor has its own. `timeout` (seconds) holds where the model names none, and above
    what it names. Also an executor for `LocalShellTool`, which wants text.
    """

    def __init__(self, sandbox: Any = None, *, timeout: float = 120, **settings: Any) -> None:
        self.sandbox: Sandbox = open_sandbox(sandbox, **settings)
        self._async = Async(self.sandbox)
        self._timeout = timeout

    async def __call__(
        self, request: Union[ShellCommandRequest, LocalShellCommandRequest]
    ) -> Union[str, ShellResult]:
        if isinstance(request, LocalShellCommandRequest):
            return await self._local(request)
        action = request.data.action
        timeout = self._seconds(action.timeout_ms)
        outputs: List[ShellCommandOutput] = []
        for command in action.commands:
            result = await self._async().run(command, timeout=timeout)
            outputs.append(_output(command, result))
            if result.kind == "timeout":
                break  # the commands of one call build on each other
        return ShellResult(output=outputs, max_output_length=action.max_output_length)

    async def _local(self, request: LocalShellCommandRequest) -> str:
        action = request.data.action
        result = await self._async().run(
            list(action.command),
            timeout=self._seconds(action.timeout_ms),
            cwd=action.working_directory or None,
            env=dict(action.env or {}),
            merge=True,
        )
        return answer(result)

    def _seconds(self, milliseconds: Optional[int]) -> Optional[float]:
        wanted = min(milliseconds / 1000, self._timeout) if milliseconds else self._timeout
        return limit_for(self.sandbox, "limits.wall", wanted)


def _output(command: str, result: Result) -> ShellCommandOutput:
    stderr = result.stderr
    for note in (cut_note(result), remark(result)):
        if note:
            stderr = f"{stderr.rstrip()}\n{note}\n".lstrip("\n")
    outcome = (
        ShellCallOutcome(type="timeout")
        if result.kind == "timeout"
        else ShellCallOutcome(type="exit", exit_code=result.returncode)
    )
    return ShellCommandOutput(stdout=result.stdout, stderr=stderr, outcome=outcome, command=command)


class Functions(NamedTuple):
    """Two functions for `function_tool`, bound to one sandbox."""

    execute_code: Callable[..., Awaitable[str]]
    execute_command: Callable[..., Awaitable[str]]


def functions_for(sandbox: Any = None, **settings: Any) -> Functions:
    """`[function_tool(f) for f in functions_for(workdir="project")]` are an agent's tools.

    The sandbox (a `pycordon.Sandbox`, or its config and settings) is shared by both functions, and
    its working directory, /tmp and home live from call to call.
    """
    box = Async(open_sandbox(sandbox, **settings))

    async def execute_code(code: str, language: str = "python") -> str:
        """Run code in a sandbox and return what it prints, or why it failed.

        Args:
            code: The program, complete.
            language: python, javascript, bash, or another interpreter's name.
        """
        return answer(await box().run_code(code, language))

    async def execute_command(command: str) -> str:
        """Run a shell command in a sandbox and return its output, or why it failed.

        Args:
            command: The command line, for /bin/sh.
        """
        return answer(await box().run(command))

    return Functions(execute_code, execute_command)


_lock = threading.Lock()
_shared: Optional[Functions] = None


def _default() -> Functions:
    global _shared
    with _lock:
        if _shared is None:
            _shared = functions_for()
        return _shared


async def execute_code(code: str, language: str = "python") -> str:
    """Run code in a sandbox and return what it prints, or why it failed.

    Args:
        code: The program, complete.
        language: python, javascript, bash, or another interpreter's name.
    """
    return await _default().execute_code(code, language)


async def execute_command(command: str) -> str:
    """Run a shell command in a sandbox and return its output, or why it failed.

    Args:
        command: The command line, for /bin/sh.
    """
    return await _default().execute_command(command)
