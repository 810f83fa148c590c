# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI's workspace protocols, carried out by a sandbox."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, Optional, Union

from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.protocol import validate_timeout

from .._aio import AsyncFiles, AsyncSandbox
from .._errors import CordonError, StateError
from .._files import FileInfo
from .._policy import Policy
from ._runs import limits, stderr_text

PROVIDER = "cordon"
MAX_OUTPUT = 10 * 1024 * 1024  # per stream, as Pydantic AI's own local backend


class CordonWorkspaceBackend(
    WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath
):
    """One sandbox as a workspace: made on first use, or the one that `ref` names (with the settings
    it was made with).

    `working_dir` is a host directory that commands may write, or None for an empty private one.
    `policy` and `settings` are those of `pycordon.Sandbox`. Nothing is removed before `destroy()`.
    """

    def __init__(
        self,
        working_dir: Union[str, PathLike[str], None] = None,
        *,
        policy: Union[Policy, str, dict[str, Any], None] = None,
        ref: Optional[WorkspaceRef] = None,
        env: Optional[Mapping[str, str]] = None,
        max_output: int = MAX_OUTPUT,
        **settings: Any,
    ) -> None:
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"not a workspace of Cordon: {ref!r}")
        workdir = True if working_dir is None else os.path.expanduser(working_dir)
        self._sandbox = AsyncSandbox(policy, workdir=workdir, env=env, keep=True, **settings)
        self._ref = ref
        self._max_output = max_output
        self._ready = False
        self._lock = asyncio.Lock()

    @property
    def ref(self) -> Optional[WorkspaceRef]:
        """The sandbox's identity: None until the first operation has made one."""
        return self._ref

    @asynccontextmanager
    async def _open(self, path: str = "/") -> AsyncIterator[AsyncSandbox]:
        """The sandbox, made if need be. One that is gone is what Pydantic AI must not retry."""
        if not posixpath.isabs(path):
            raise ValueError(f"path must be absolute, got {path!r}")
        async with self._lock:
            if not self._ready:
                await self._begin()
        try:
            yield self._sandbox
        except StateError as e:
            raise WorkspaceUnavailableError(str(e)) from e
        if self._sandbox.closed:
            raise WorkspaceUnavailableError(f"the sandbox {self._ref} was destroyed")

    async def _begin(self) -> None:
        if self._ref is not None:
            try:
                self._sandbox = AsyncSandbox.attach(self._ref.id)
            except CordonError as e:
                raise WorkspaceUnavailableError(str(e)) from e
        await self._sandbox.start()
        self._ref = WorkspaceRef(provider=PROVIDER, id=self._sandbox.id)
        self._ready = True

    async def destroy(self) -> None:
        """Ends what runs in the sandbox and removes its private files, for all who hold its ref."""
        async with self._lock:
            if not self._ready:
                await self._begin()
            await self._sandbox.destroy()

    async def working_dir(self) -> str:
        """The directory that commands start in, as they see it."""
        async with self._open() as sandbox:
            return sandbox.workdir

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> CommandResult:
        """Runs a command; what it leaves running goes on until destroy()."""
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, a sequence of arguments shell=False")
        validate_timeout(timeout)
        argv = command if isinstance(command, str) else list(command)
        async with self._open() as sandbox:
            allowed = limits(sandbox.policy, timeout, self._max_output)
            result = await sandbox.run(
                argv, env=env, orphans="keep", limits_output_end=True, **allowed
            )
        out, err = result.stdout, result.stderr
        if result.kind == "timeout":
            raise WorkspaceTimeoutError("the command timed out", stdout=out, stderr=err)
        if result.truncated:
            limit = min(self._max_output, max(len(result.stdout_bytes), len(result.stderr_bytes)))
            text = f"the command wrote more than {limit} bytes"
            raise WorkspaceOutputLimitError(text, limit=limit, stdout=out, stderr=err)
        return CommandResult(exit_code=result.returncode, stdout=out, stderr=stderr_text(result))

    async def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        async with self._open(path) as sandbox:
            return await sandbox.files.read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file, with the directories above it."""
        async with self._open(path) as sandbox:
            await sandbox.files.write(path, data)

    async def stat(self, path: str) -> FileEntry:
        """The attributes of a file, links followed."""
        async with self._open(path) as sandbox:
            return _entry(path, await sandbox.files.stat(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """What is in a directory, links followed."""
        async with self._open(path) as sandbox:
            found = await sandbox.files.list(path)
            return [await _followed(sandbox.files, path, info) for info in found]

    async def make_dir(self, path: str) -> None:
        """Makes a directory, and those above it."""
        async with self._open(path) as sandbox:
            await sandbox.files.mkdir(path)

    async def remove(self, path: str) -> None:
        """Removes a file or a directory with all that is in it, but not the working directory."""
        try:
            async with self._open(path) as sandbox:
                await sandbox.files.remove(path, recursive=True)
        except OSError as e:
            if e.errno != errno.EBUSY:
                raise
            raise ValueError(f"the working directory is in {path!r}: not removed") from e

    async def exists(self, path: str) -> bool:
        """Whether a path leads to something."""
        async with self._open(path) as sandbox:
            return await sandbox.files.exists(path)

    async def realpath(self, path: str) -> str:
        """Where a path leads, all links followed."""
        async with self._open(path) as sandbox:
            return await sandbox.files.realpath(path)


async def _followed(files: AsyncFiles, directory: str, info: FileInfo) -> FileEntry:
    path = posixpath.join(directory, info.name)
    if info.type == "link":
        try:
            info = await files.stat(path)
        except OSError:
            pass  # dangling or a loop: listed as what it is, no directory
    return _entry(path, info)


def _entry(path: str, info: FileInfo) -> FileEntry:
    size = info.size if info.type == "file" else None
    name = posixpath.basename(posixpath.normpath(path))
    return FileEntry(name=name, path=path, is_dir=info.type == "dir", size=size)
