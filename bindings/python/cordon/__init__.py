# SPDX-License-Identifier: Apache-2.0
"""Cordon: run untrusted code in a sandbox.

>>> import cordon
>>> cordon.Sandbox().run("echo hello").stdout
'hello\\n'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._cordon import __version__
from ._native import Check, CheckItem, check, command
from .confine import confine
from .errors import (
    ClosedError, CommandNotFoundError, CordonError, NotExecutableError, PathError, PolicyError,
    RunError, SetupError, StateError, SystemCallError, TimeoutExpired, UnsupportedError, UsageError,
)  # fmt: skip
from .files import FileInfo, Files
from .job import Endpoint
from .policy import Env, Fs, Limits, Net, Policy, SandboxConfig
from .process import Process
from .result import Denial, Published, Result, SandboxStatus, Truncated, Usage
from .sandbox import Sandbox, run

if TYPE_CHECKING:
    from . import workspaces
    from .aio import AsyncFiles, AsyncProcess, AsyncSandbox
    from .workspaces import Workspace

# asyncio takes long to import, and many programs do without.
_LAZY = {
    "AsyncFiles": "aio",
    "AsyncProcess": "aio",
    "AsyncSandbox": "aio",
    "Workspace": "workspaces",
    "workspaces": "",
}

__all__ = [
    "AsyncFiles", "AsyncProcess", "AsyncSandbox", "Check", "CheckItem", "ClosedError",
    "CommandNotFoundError", "CordonError", "Denial", "Endpoint", "Env", "FileInfo", "Files", "Fs",
    "Limits", "Net", "NotExecutableError", "PathError", "Policy", "PolicyError", "Process",
    "Published", "Result", "RunError", "Sandbox", "SandboxConfig", "SandboxStatus", "SetupError",
    "StateError", "SystemCallError", "TimeoutExpired", "Truncated", "UnsupportedError", "Usage",
    "UsageError", "Workspace", "__version__", "check", "command", "confine", "run", "workspaces",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'cordon' has no attribute '{name}'")
    module = importlib.import_module(f".{_LAZY[name] or name}", __name__)
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)
