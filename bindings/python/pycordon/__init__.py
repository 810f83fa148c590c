# SPDX-License-Identifier: Apache-2.0
"""Cordon: run untrusted code in a sandbox.

>>> import pycordon
>>> pycordon.Sandbox().run("echo hello").stdout
'hello\\n'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._cordon import __version__
from ._native import Check, CheckItem, check, command
from ._confine import confine
from ._errors import (
    ClosedError, CommandNotFoundError, CordonError, NotExecutableError, PathError, PolicyError,
    QueueFullError, RunError, SetupError, StateError, SystemCallError, TimeoutExpired, UnsupportedError, UsageError,
)  # fmt: skip
from ._execution import CodeError, Display, Execution
from ._files import FileInfo, Files
from ._grade import Graded, Program
from ._interpreter import Interpreter
from ._job import Endpoint
from ._policy import Env, Fs, Limits, Net, Policy, SandboxConfig
from ._pool import Pool
from ._process import Process
from ._result import Denial, Published, Result, SandboxStatus, Truncated, Usage
from ._sandbox import Sandbox, run
from ._session import Session
from ._session_core import SessionCommand
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from . import workspaces
    from ._aio import AsyncFiles, AsyncProcess, AsyncSandbox
    from ._aio_detached import AsyncDetachedCommand, AsyncDetachedSession
    from ._aio_interpreter import AsyncInterpreter
    from ._aio_pool import AsyncPool
    from ._aio_session import AsyncSession
    from ._detached_session import DetachedCommand, DetachedSession
    from ._scheduler import ScheduledResult, Scheduler
    from ._scheduler_session import SchedulerSession
    from .workspaces import Workspace

# asyncio takes long to import, and many programs do without it and the rest of these.
_LAZY = {
    "AsyncDetachedCommand": "_aio_detached",
    "AsyncDetachedSession": "_aio_detached",
    "AsyncFiles": "_aio",
    "AsyncInterpreter": "_aio_interpreter",
    "AsyncPool": "_aio_pool",
    "AsyncProcess": "_aio",
    "AsyncSandbox": "_aio",
    "AsyncSession": "_aio_session",
    "DetachedCommand": "_detached_session",
    "DetachedSession": "_detached_session",
    "ScheduledResult": "_scheduler",
    "Scheduler": "_scheduler",
    "SchedulerSession": "_scheduler_session",
    "Workspace": "workspaces",
    "workspaces": "",
}

__all__ = [
    "AsyncDetachedCommand", "AsyncDetachedSession", "AsyncFiles", "AsyncInterpreter", "AsyncPool",
    "AsyncProcess", "AsyncSandbox", "AsyncSession", "Check", "CheckItem", "ClosedError", "CodeError",
    "CommandNotFoundError", "CordonError", "Denial", "DetachedCommand", "DetachedSession", "Display",
    "Endpoint", "Env", "Execution", "FileInfo", "Files", "Fs", "Graded", "Interpreter", "Limits", "Net",
    "NotExecutableError", "PathError", "Policy", "PolicyError", "Pool", "Process", "Program",
    "Published", "QueueFullError", "Result", "RunError", "Sandbox", "SandboxConfig", "SandboxStatus",
    "ScheduledResult", "Scheduler", "SchedulerSession", "Session", "SessionCommand", "SetupError",
    "Snapshot", "StateError", "SystemCallError", "TimeoutExpired", "Truncated", "UnsupportedError",
    "Usage", "UsageError", "Workspace", "__version__", "check", "command", "confine", "run",
    "workspaces",
]  # fmt: skip

# Tracebacks name an error as programs do.
for _name in __all__:
    _thing = globals().get(_name)
    if isinstance(_thing, type) and issubclass(_thing, CordonError):
        _thing.__module__ = __name__


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pycordon' has no attribute '{name}'")
    module = importlib.import_module(f".{_LAZY[name] or name}", __name__)
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)
