# SPDX-License-Identifier: Apache-2.0
"""Google ADK: a code executor and an environment for its file and command tools.

    Agent(..., code_executor=CordonCodeExecutor(max_memory_mb=512))
    Agent(..., tools=[EnvironmentToolset(environment=CordonEnvironment(working_dir=Path("repo")))])

Settings are those of `pycordon.Sandbox`. Written for google-adk 2.13.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
from os import PathLike
from typing import Any, Optional, Union

from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from pydantic import PrivateAttr

from .._policy import Policy
from .._result import Result
from .._sandbox import Sandbox
from ._adk_environment import CordonEnvironment
from ._runs import limits, stderr_text

__all__ = ["CordonCodeExecutor", "CordonEnvironment"]

MAX_OUTPUT_FILES = 20
MAX_OUTPUT_FILE_BYTES = 10 * 1024 * 1024


class CordonCodeExecutor(BaseCodeExecutor):
    """Runs each block of Python in a fresh sandbox: no state, no network, nothing to write but its
    own working directory, unless the settings say otherwise.

    Input files are in the working directory; regular files the code leaves there are returned
    (at most 20, of 10 MiB each). With `workdir`, a host directory, code works there instead and
    no files are returned.
    """

    timeout_seconds: Optional[int] = 300
    _policy: Any = PrivateAttr(None)
    _workdir: Any = PrivateAttr(None)
    _settings: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        policy: Union[Policy, str, dict[str, Any], None] = None,
        *,
        workdir: Union[str, PathLike[str], None] = None,
        **settings: Any,
    ) -> None:
        own = {name: settings.pop(name) for name in type(self).model_fields if name in settings}
        if own.get("stateful"):
            raise ValueError("CordonCodeExecutor keeps no state between executions")
        super().__init__(**own)
        self._policy, self._workdir, self._settings = policy, workdir, settings
        self._sandbox()  # a wrong setting shows here, not in the middle of a conversation

    def _sandbox(self) -> Sandbox:
        workdir = True if self._workdir is None else os.path.expanduser(self._workdir)
        return Sandbox(self._policy, workdir=workdir, **self._settings)

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Runs one block of Python in a fresh sandbox."""
        given = code_execution_input.input_files
        with self._sandbox() as sandbox:
            for file in given:
                sandbox.files.write(file.name, _content(file))
            allowed = limits(sandbox.policy, self.timeout_seconds, None)
            result = sandbox.run_code(code_execution_input.code, **allowed)
            made = [] if self._workdir else _output_files(sandbox, {file.name for file in given})
        return CodeExecutionResult(
            stdout=result.stdout,
            stderr=self._error(result),
            output_files=made,
            exit_code=result.returncode,
        )

    def _error(self, result: Result) -> str:
        """ADK takes text here for a failure, so warnings of a successful run are left out."""
        if result.ok:
            return ""
        text = stderr_text(result)
        if result.kind == "timeout":
            text += f"\nCode execution timed out after {result.duration_ms / 1000:.0f} seconds."
        return text.lstrip("\n") or f"Code execution exited with status {result.returncode}."


def _content(file: File) -> bytes:
    """ADK hands over bytes, or text that is Base64 of the bytes."""
    if isinstance(file.content, bytes):
        return file.content
    try:
        return base64.b64decode(file.content, validate=True)
    except binascii.Error:
        return file.content.encode("utf-8")


def _output_files(sandbox: Sandbox, given: set[str]) -> list[File]:
    made = [
        info
        for info in sandbox.files.list()
        if info.type == "file" and info.name not in given and info.size <= MAX_OUTPUT_FILE_BYTES
    ]
    names = sorted(info.name for info in made)[:MAX_OUTPUT_FILES]
    return [
        File(name=name, content=data, mime_type=mimetypes.guess_type(name)[0] or "text/plain")
        for name, data in zip(names, sandbox.files.get_many(names))
        if isinstance(data, bytes)
    ]
