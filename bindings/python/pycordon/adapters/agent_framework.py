# SPDX-License-Identifier: Apache-2.0
"""Microsoft Agent Framework: a shell tool whose commands run in a Cordon sandbox.

    from pycordon.adapters.agent_framework import CordonShellExecutor

    async with CordonShellExecutor(workdir="project", net_allow=["api.example.com"]) as shell:
        agent = Agent(client=client, tools=[client.get_shell_tool(func=shell.as_function())])
"""

from __future__ import annotations

import asyncio
import math
import os
from typing import Any, Callable, Literal, Mapping, Optional, Union

from agent_framework import FunctionTool
from agent_framework_tools.shell import (
    LocalShellTool,
    ShellCommandError,
    ShellPolicy,
    ShellRequest,
    ShellResult,
)

# The framework offers no public way to give its tool another session (see _Session).
from agent_framework_tools.shell._session import ShellSession

from pycordon import AsyncSandbox, Policy
from pycordon._policy import make_policy

from . import _common

_SHELL = ("/bin/bash", "--noprofile", "--norc")


class CordonShellExecutor(LocalShellTool):
    """A ShellExecutor with the arguments of LocalShellTool and a policy.

    `mode="persistent"` keeps one shell in one sandbox, so that `cd` and `export` last; "stateless"
    runs each command by itself. `workdir` is the directory that commands may change; None is a
    private one. `env` are variables for the commands, which see none of this process's.
    `shell_policy` is the framework's filter of command texts. `policy` is a `pycordon.Policy`, a dict, a
    preset's name or a policy file; every further argument is a setting of `pycordon.Sandbox` (fs_read,
    net_allow, max_memory_mb, ...), whose limits hold for one command, or for the whole session.

    No person is asked before a command runs unless `approval_mode="always_require"`: what it can do is
    what the policy allows.
    """

    _session: Any

    def __init__(
        self,
        *,
        mode: Literal["persistent", "stateless"] = "persistent",
        workdir: Optional[Union[str, os.PathLike[str]]] = None,
        confine_workdir: bool = True,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = 30.0,
        max_output_bytes: int = 64 * 1024,
        approval_mode: Literal["always_require", "never_require"] = "never_require",
        on_command: Optional[Callable[[str], None]] = None,
        shell_policy: Optional[ShellPolicy] = None,
        policy: Optional[Union[Policy, str, dict[str, Any]]] = None,
        **settings: Any,
    ) -> None:
        stated = make_policy(policy, settings)
        if stated.get("limits_wall") is None:  # commands have `timeout`; a session lasts
            stated = stated.merged(limits_wall=math.inf)
        place: Any = True if workdir is None else os.path.abspath(workdir)
        self.sandbox = AsyncSandbox(stated, workdir=place, env=env)
        super().__init__(
            mode=mode,
            shell=_SHELL,
            workdir=self.sandbox.workdir,
            confine_workdir=confine_workdir,
            policy=shell_policy,
            timeout=timeout,
            max_output_bytes=max_output_bytes,
            approval_mode=approval_mode,
            acknowledge_unsafe=True,
            on_command=on_command,
        )

    async def start(self) -> None:
        """Starts the session's shell in the sandbox; nothing to do if stateless."""
        if self._mode != "persistent":
            return
        async with self._get_session_lock():
            if self._session is None:
                await self.sandbox.start()
                self._session = _Session(
                    self.sandbox.wrap(_SHELL), max_output_bytes=self._max_output_bytes
                )
            await self._session.start()

    async def close(self) -> None:
        """Ends the session and the sandbox; what was private is gone. May be called again."""
        await super().close()
        await self.sandbox.close()

    async def run(self, command: str, *, timeout: Optional[float] = None) -> ShellResult:
        """Runs a command; a timeout or a cancellation ends every process of it."""
        if self._mode == "persistent":
            try:
                return await super().run(command, timeout=timeout)
            except asyncio.CancelledError:
                # The command may still run: its shell goes with it, the next call has a new one.
                await asyncio.shield(super().close())
                raise
        decision = self._policy.evaluate(ShellRequest(command=command, workdir=self._workdir))
        if decision.decision == "deny":
            raise ShellCommandError(f"Command rejected by policy: {decision.reason}")
        if self._on_command is not None:
            self._on_command(command)
        limit = _common.within(self.sandbox.policy, self._timeout if timeout is None else timeout)
        result = await self.sandbox.run([*_SHELL, "-c", command], timeout=limit)
        stdout, cut = _head_and_tail(result.stdout_bytes, self._max_output_bytes)
        stderr, cut_too = _head_and_tail(result.stderr_bytes, self._max_output_bytes)
        return ShellResult(
            stdout=stdout,
            stderr="\n".join(filter(None, (stderr, _common.remark(result, cut=False)))),
            exit_code=result.returncode,
            duration_ms=int(result.duration_ms),
            truncated=cut or cut_too or bool(result.truncated),
            timed_out=result.kind == "timeout",
        )

    def as_function(
        self, *, name: str = "run_shell", description: Optional[str] = None
    ) -> FunctionTool:
        """The tool for `client.get_shell_tool(func=...)`: of kind "shell", with the approval mode."""
        kept = (
            "`cd` and variables last" if self._mode == "persistent" else "nothing but files lasts"
        )
        text = (
            "Execute a single shell command in a sandbox and return its stdout, stderr, and exit code. "
            f"Between calls {kept}. The working directory is {self._workdir}."
        )
        return super().as_function(name=name, description=description or text)


def _head_and_tail(data: bytes, most: int) -> tuple[str, bool]:
    """Output within the framework's limit, in its words, and whether something was left out."""
    if len(data) <= most:
        return data.decode("utf-8", "replace"), False
    head, tail = data[: most // 2], data[len(data) - (most - most // 2) :]
    left_out = f"\n[... truncated {len(data) - most} bytes ...]\n"
    return head.decode("utf-8", "replace") + left_out + tail.decode("utf-8", "replace"), True


class _Session(ShellSession):
    """The framework's session limits what it keeps of standard output; this one of errors, too."""

    async def _reader(
        self, stream: asyncio.StreamReader, buf: bytearray, *, is_stdout: bool
    ) -> None:
        if is_stdout:
            await super()._reader(stream, buf, is_stdout=True)
            return
        while chunk := await stream.read(65536):
            if len(buf) < 4 * self._max_output_bytes:
                buf.extend(chunk)
