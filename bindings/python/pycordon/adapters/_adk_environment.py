# SPDX-License-Identifier: Apache-2.0
"""Google ADK's environment, carried out by a sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Optional, Union

from google.adk.environment import BaseEnvironment, ExecutionResult

from .._aio import AsyncSandbox
from .._policy import Policy
from ._runs import limits, stderr_text


class CordonEnvironment(BaseEnvironment):
    """Shell commands and files in one sandbox, whose working directory, home and /tmp last until
    `close()`. `working_dir` is a host directory (kept), or None for an empty private one.

    Processes a command leaves behind end with it.
    """

    def __init__(
        self,
        *,
        working_dir: Union[str, PathLike[str], None] = None,
        env_vars: Optional[Mapping[str, str]] = None,
        policy: Union[Policy, str, dict[str, Any], None] = None,
        **settings: Any,
    ) -> None:
        workdir = True if working_dir is None else os.path.expanduser(working_dir)
        self._arguments: dict[str, Any] = {"working_dir": working_dir, "env_vars": env_vars, "policy": policy}
        self._arguments.update(settings)
        self._make = lambda: AsyncSandbox(policy, workdir=workdir, env=env_vars, **settings)
        self._made = self._make()
        self.is_initialized = False

    def __reduce__(self) -> Any:
        """For agents that are copied or pickled: the settings go along, the sandbox stays."""
        return _rebuild, (type(self), self._arguments)

    @property
    def working_dir(self) -> Path:
        """The directory that commands start in, as they see it."""
        return Path(self._sandbox.workdir)

    @property
    def _sandbox(self) -> AsyncSandbox:
        if not self.is_initialized:
            raise RuntimeError("the environment is not open: call initialize() first")
        return self._made

    async def initialize(self) -> None:
        """Makes the sandbox ready; after close() it is a new one."""
        if self.is_initialized:
            return
        if self._made.closed:
            self._made = self._make()
        await self._made.start()
        self.is_initialized = True

    async def close(self) -> None:
        """Ends the sandbox; what was private is gone. May be called again."""
        self.is_initialized = False
        await self._made.close()

    async def execute(self, command: str, *, timeout: Optional[float] = None) -> ExecutionResult:
        """Runs a command by the shell. A limit that ended it is explained after its standard error."""
        allowed = limits(self._sandbox.policy, timeout, None)
        result = await self._sandbox.run(command, **allowed)
        return ExecutionResult(
            exit_code=result.returncode,
            stdout=result.stdout,
            stderr=stderr_text(result),
            timed_out=result.kind == "timeout",
        )

    async def read_file(self, path: Union[str, PathLike[str]]) -> bytes:
        """The content of a file in the working directory."""
        return await self._sandbox.files.read(await self._inside(path))

    async def write_file(self, path: Union[str, PathLike[str]], content: Union[str, bytes]) -> None:
        """Writes a file in the working directory."""
        # Checked first: data that cannot be written must not empty an existing file.
        data = content.encode("utf-8") if isinstance(content, str) else bytes(memoryview(content))
        await self._sandbox.files.write(await self._inside(path), data)

    async def _inside(self, path: Union[str, PathLike[str]]) -> str:
        """Tools work in the working directory. The policy decides what code inside reaches;
        the file is opened in the sandbox, so a link changed meanwhile leads nowhere else."""
        found = await self._sandbox.files.realpath(path)
        if not Path(found).is_relative_to(self._sandbox.workdir):
            raise ValueError(f"Path escapes working directory: {path}")
        return str(found)


def _rebuild(kind: type[CordonEnvironment], arguments: dict[str, Any]) -> CordonEnvironment:
    return kind(**arguments)
