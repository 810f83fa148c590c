# SPDX-License-Identifier: Apache-2.0
"""AG2: shell and code tools whose backend is a Cordon sandbox.

    from pycordon.adapters.ag2 import CordonEnvironment

    environment = CordonEnvironment("project", net_allow=["api.example.com"])
    agent = Agent(..., tools=[SandboxShellTool(environment), SandboxCodeTool(environment)])
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, Mapping, Optional, Union

from ag2.tools.sandbox import ExecResult, SandboxBase
from ag2.tools.sandbox.factory import SingletonFactory

from pycordon import AsyncSandbox, Policy, StateError

from . import _common
from ._shared import Shared, ended_note


class CordonSandbox(SandboxBase):
    """A sandbox of AG2's kind, with the arguments of its LocalSandbox and a policy.

    `path` is the working directory, which commands may change; None is a private one that is gone
    when the sandbox is closed. `timeout` (seconds) and `max_output` (characters) hold for each
    command. `policy` is a `pycordon.Policy`, a dict, a preset's name or a policy file; every further
    argument is a setting of `pycordon.Sandbox` (fs_read, net_allow, max_memory_mb, ...).

    `shared=True`: all commands are in one sandbox until it is closed, as in a container. They share
    processes and the network inside, so one can start a server and the next connect to it. Its
    limits hold for all of them together, `max_execution_seconds` is how long it may live, and
    private files are in its memory. Otherwise each command has a sandbox of its own.
    """

    def __init__(
        self,
        path: Optional[Union[str, os.PathLike[str]]] = None,
        *,
        timeout: float = 60,
        max_output: int = 100_000,
        env_vars: Optional[Mapping[str, str]] = None,
        policy: Optional[Union[Policy, str, dict[str, Any]]] = None,
        shared: bool = False,
        **settings: Any,
    ) -> None:
        if timeout <= 0:
            raise ValueError("`timeout` must be > 0 seconds.")
        workdir = None if path is None else Path(path).resolve()
        self._sandbox: Union[AsyncSandbox, Shared] = (
            Shared(policy, workdir=workdir, **settings)
            if shared
            else AsyncSandbox(policy, workdir=workdir, **settings)
        )
        self._timeout = timeout
        self._max_output = max_output
        self._env_vars = dict(env_vars or {})
        self._closed = False

    @property
    def workdir(self) -> PurePosixPath:
        """The working directory as commands see it."""
        return PurePosixPath(self._sandbox.workdir)

    @property
    def host_workdir(self) -> Optional[Path]:
        """The same on the host; None if it is private."""
        return self._sandbox.host_workdir

    async def exec(
        self,
        argv: list[str],
        *,
        env: Optional[dict[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> ExecResult:
        """Runs a command; a timeout or a cancellation ends every process of it (with `shared` not
        those that have left its session, by setsid)."""
        self._check_open()
        if not argv:
            return ExecResult(output="", exit_code=2)
        wanted = self._timeout if timeout is None else timeout
        seconds = _common.within(self._sandbox.policy, wanted)
        try:
            result = await self._sandbox.run(
                argv, env={**self._env_vars, **(env or {})}, timeout=seconds
            )
        except StateError as error:
            self._check_open()
            return ExecResult(output=f"Command not started: {error}", exit_code=126)
        if result.kind == "timeout":
            return ExecResult(output=f"Command timed out after {seconds}s", exit_code=124)
        if result.kind == "spawn_failed":
            reason = "Command not found" if result.returncode == 127 else "Command not started"
            return ExecResult(output=f"{reason}: {result.error}", exit_code=result.returncode)
        output = (result.stdout + result.stderr).strip()
        total = len(output)
        if result.truncated:
            total = sum(result.total_bytes.values())
        if total > self._max_output:
            output = output[: self._max_output]
            output += f"\n[truncated: showing first {len(output)} of {total} chars]"
        notes = [_common.remark(result, cut=False)]
        if isinstance(self._sandbox, Shared):
            notes.append(ended_note(result))
        return ExecResult("\n".join([output, *filter(None, notes)]).strip(), result.returncode)

    async def put_file(self, path: PurePosixPath, content: bytes) -> None:
        """Writes a file below the working directory, with the rights of a command inside."""
        await self._sandbox.files.write(self._inside(path), content)

    async def remove_file(self, path: PurePosixPath) -> None:
        """Removes a file below the working directory; one that is not there is fine."""
        await self._sandbox.files.remove(self._inside(path), missing_ok=True)

    async def aclose(self) -> None:
        """Ends everything that runs and removes what is private. May be called again."""
        self._closed = True
        await self._sandbox.close()

    def __deepcopy__(self, memo: object) -> CordonSandbox:
        return self  # agents copy their tools; those go on sharing one sandbox

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("CordonSandbox has been closed.")

    def _inside(self, path: PurePosixPath) -> str:
        self._check_open()
        if path.is_absolute():
            raise ValueError(f"Absolute paths are not allowed: {path}")
        if ".." in path.parts:
            raise ValueError(f"Path escapes sandbox workdir: {path}")
        return str(self.workdir / path)


class CordonEnvironment(SingletonFactory):
    """The same as a factory, for `SandboxShellTool` and `SandboxCodeTool`: one sandbox for all calls.

    Takes the arguments of `CordonSandbox`. Close it with `aclose()` or use `async with`.
    """

    def __init__(self, path: Optional[Union[str, os.PathLike[str]]] = None, **options: Any) -> None:
        super().__init__(CordonSandbox(path, **options))

    async def aclose(self) -> None:
        """Closes the sandbox."""
        await self.sandbox.aclose()

    async def __aenter__(self) -> CordonEnvironment:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
