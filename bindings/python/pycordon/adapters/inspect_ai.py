# SPDX-License-Identifier: Apache-2.0
"""Inspect AI: the sandbox type `cordon`.

    @task
    def mine():
        return Task(dataset, solver, sandbox="cordon")              # or ("cordon", "policy.json")

Found by its entry point once the package is installed; a file `cordon.json` beside the task is its
policy. A `SandboxEnvironmentSpec("cordon", CordonConfig(max_memory_mb=2048))` gives settings in
code. Written for inspect-ai 0.3.285.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Iterator
from typing import Any, Literal, Optional, Union, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    concurrency as limited,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from .._aio import AsyncSandbox
from .._errors import CordonError
from ._runs import limits, stderr_text

__all__ = ["CordonConfig", "CordonSandboxEnvironment"]


class CordonConfig(BaseModel):
    """Settings of the sandboxes of a task: those of `pycordon.Sandbox`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    policy: Union[str, dict[str, Any], None] = None
    """Name of a preset, path of a policy file, or the policy itself."""
    workdir: Union[str, Literal[True]] = True
    """A host directory that all samples share and may write; True gives each an empty one."""


@sandboxenv(name="cordon")
class CordonSandboxEnvironment(SandboxEnvironment):
    """One sandbox per sample, with a working directory, home and /tmp of its own."""

    def __init__(self, config: Optional[CordonConfig] = None) -> None:
        super().__init__()
        settings = (config or CordonConfig()).model_dump()
        # Kept for --no-sandbox-cleanup, which shows it afterwards.
        self.sandbox = AsyncSandbox(settings.pop("policy"), keep=True, **settings)
        self._users: Optional[frozenset[str]] = None

    @classmethod
    def config_files(cls) -> list[str]:
        """Files beside a task that hold a policy."""
        return ["cordon.json"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Settings from a log."""
        return CordonConfig(**config)

    @classmethod
    def default_concurrency(cls) -> Optional[int]:
        """How many sandboxes work at once."""
        return 2 * (os.cpu_count() or 1)

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        """One sandbox for the sample."""
        if isinstance(config, str):
            config = CordonConfig(policy=config)
        elif config is not None and not isinstance(config, CordonConfig):
            raise TypeError(f"the sandbox cordon takes a policy file or CordonConfig, not {config!r}")
        environment = cls(config)
        await environment.sandbox.start()
        return {"default": environment}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Ends and removes the sandbox of the sample."""
        for environment in environments.values():
            await environment.as_type(CordonSandboxEnvironment).sandbox.destroy()

    @classmethod
    async def cli_cleanup(cls, id: Optional[str]) -> None:
        """`inspect sandbox cleanup cordon ID`."""
        if id is None:
            raise ValueError("inspect sandbox cleanup cordon needs the id of a sandbox")
        await AsyncSandbox.attach(id).destroy()

    async def exec(
        self,
        cmd: list[str],
        input: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a command; what it leaves running stays until the sample is over."""
        await self._check_user(user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        slots = limited("cordon", 2 * (os.cpu_count() or 1)) if concurrency else _no_limit()
        async with slots:
            with _unavailable():
                # The command caused the timeout, so a second try would not help. What
                # a command leaves running stays, as in a container: Inspect's own helper does.
                allowed = limits(self.sandbox.policy, timeout, limit)
                result = await self.sandbox.run(
                    cmd, stdin=input, cwd=cwd, env=env, orphans="keep", limits_output_end=True, **allowed
                )
        if result.kind == "timeout":
            raise TimeoutError(f"the command timed out after {result.duration_ms / 1000:.1f} seconds")
        if result.kind == "spawn_failed" and result.returncode == 126:
            raise PermissionError(result.error)
        if result.truncated:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, result.text[-limit:]
            )
        return ExecResult(
            success=result.returncode == 0,
            returncode=result.returncode,
            stdout=result.stdout,
            stderr=stderr_text(result),
        )

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        """Writes a file inside, with the directories above it."""
        with _unavailable():
            await self.sandbox.files.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> Union[str, bytes]:
        """The content of a file inside, up to Inspect's limit."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            with _unavailable():
                data = await self.sandbox.files.read(file, limit=limit)
        except OSError as e:
            if e.errno != errno.EFBIG:
                raise
            told = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
            raise OutputLimitExceededError(told, None) from e
        return data.decode("utf-8") if text else data

    async def connection(self, *, user: Optional[str] = None) -> SandboxConnection:
        """The command that opens a shell in the sandbox."""
        await self._check_user(user)
        return SandboxConnection(
            type="cordon", command=shlex.join(self.sandbox.wrap(["/bin/sh", "-i"]))
        )

    def default_polling_interval(self) -> float:
        """Seconds between looks at a process that runs in the background."""
        return 0.2

    async def _check_user(self, user: Optional[str]) -> None:
        """There is one user inside; asking for that one by name or number is fine."""
        if user is None:
            return
        if self._users is None:
            with _unavailable():
                told = await self.sandbox.run(["/bin/sh", "-c", "id -u; id -un"])
            self._users = frozenset(told.stdout.split())
        if user not in self._users:
            raise SandboxUserUnsupportedError(
                f"commands in a sandbox of Cordon have one user, {'/'.join(sorted(self._users))}; "
                f"running them as {user!r} is not supported"
            )


@contextlib.asynccontextmanager
async def _no_limit() -> Any:
    yield


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """A protection that cannot be had, or a sandbox that is gone, is not the command's failure."""
    try:
        yield
    except CordonError as e:
        raise SandboxUnavailableError(str(e)) from e
