# SPDX-License-Identifier: Apache-2.0
"""E2B's interface over sandboxes of this machine: programs written for it run here by changing an import.

    from pycordon.e2b import Sandbox  # instead of: from e2b_code_interpreter import Sandbox

Nothing of E2B is needed, and nothing leaves this machine. docs/e2b.md says what is the same and what not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._commands import CommandHandle, Commands
from ._errors import (
    AuthenticationException, FileNotFoundException, InvalidArgumentException, NotEnoughSpaceException,
    NotFoundException, RateLimitException, SandboxException, SandboxNotFoundException,
    SandboxNotRunningException, TimeoutException,
)  # fmt: skip
from ._filesystem import Filesystem
from ._models import (
    CommandExitException, CommandResult, Context, EntryInfo, Execution, ExecutionError, FileType, Logs,
    OutputMessage, ProcessInfo, Result, SandboxInfo, SandboxState, WriteInfo,
)  # fmt: skip
from ._sandbox import Sandbox, SandboxPaginator, SandboxQuery

if TYPE_CHECKING:
    from ._aio import AsyncCommandHandle, AsyncCommands, AsyncFilesystem, AsyncSandbox, AsyncSandboxPaginator

# asyncio takes long to import, and many programs do without.
_LAZY = ("AsyncCommandHandle", "AsyncCommands", "AsyncFilesystem", "AsyncSandbox", "AsyncSandboxPaginator")

__all__ = [
    "AsyncCommandHandle", "AsyncCommands", "AsyncFilesystem", "AsyncSandbox", "AsyncSandboxPaginator",
    "AuthenticationException", "CommandExitException", "CommandHandle", "CommandResult", "Commands", "Context",
    "EntryInfo", "Execution", "ExecutionError", "FileNotFoundException", "FileType", "Filesystem",
    "InvalidArgumentException", "Logs", "NotEnoughSpaceException", "NotFoundException", "OutputMessage",
    "ProcessInfo", "RateLimitException", "Result", "Sandbox", "SandboxException", "SandboxInfo",
    "SandboxNotFoundException", "SandboxNotRunningException", "SandboxPaginator", "SandboxQuery", "SandboxState",
    "TimeoutException", "WriteInfo",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pycordon.e2b' has no attribute '{name}'")
    return getattr(importlib.import_module("._aio", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
