# SPDX-License-Identifier: Apache-2.0
"""What adapters need that keep a sandbox from call to call. Imports no framework."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Protocol, Tuple

from pycordon import Result, Sandbox

from .._front import close_now
from .._keys import magnitude
from ._common import remark

if TYPE_CHECKING:
    from pycordon import AsyncSandbox, Policy


def open_sandbox(sandbox: Any = None, **settings: Any) -> Sandbox:
    """The caller's sandbox, or a new one with these settings and a working directory of its own."""
    if isinstance(sandbox, Sandbox):
        if settings:
            raise TypeError(f"a sandbox has its settings already: {', '.join(settings)}")
        return sandbox
    return Sandbox(sandbox, **{"workdir": True, **settings})


def open_endless(config: Any = None, **settings: Any) -> Sandbox:
    """A sandbox for shells and servers: no time limit unless the caller states one."""
    made = Sandbox(config, **settings)
    if made.policy.effective().get("limits.wall") is None:
        made = Sandbox(config, **{**settings, "limits_wall": math.inf})
    return made


def passed(env: Mapping[str, str]) -> Tuple[Dict[str, str], List[str]]:
    """The launcher's environment and its flags, for a command that is to have these variables.

    Values go through the environment, since an argument list is for all to read. HOME is the
    exception: the launcher's own says which directory is the caller's home.
    """
    launcher = {"PATH": os.environ.get("PATH", os.defpath), **env}
    launcher.pop("HOME", None)
    flags = [word for name in env if name != "HOME" for word in ("--env", name)]
    if "HOME" in env:
        flags += ["--env", f"HOME={env['HOME']}"]
    return launcher, flags


class Async:
    """The asynchronous face of a sandbox, opened when it is first needed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._opened: Optional[AsyncSandbox] = None

    def __call__(self) -> AsyncSandbox:
        if self._opened is None:
            from pycordon import AsyncSandbox

            self._opened = AsyncSandbox.attach(self._sandbox.id)
        return self._opened

    def close(self) -> None:
        """Ends what was started through it; the sandbox stays as it is."""
        if self._opened is not None:
            close_now(self._opened)


class _Stating(Protocol):
    @property
    def policy(self) -> Policy:
        """What may be done."""


def limit_for(sandbox: _Stating, key: str, wanted: float) -> Optional[Any]:
    """The limit for one run; None if the sandbox states a lower one, which holds then."""
    stated = magnitude(key, sandbox.policy.effective().get(key))
    return wanted if stated is None or wanted <= stated else None


def cut_note(result: Result) -> str:
    """What to say about output that was not kept; nothing if all was."""
    if not result.truncated:
        return ""
    sizes = ", ".join(f"{stream} {size}" for stream, size in result.total_bytes.items())
    return f"[output was cut; bytes in all: {sizes}]"


def answer(result: Result) -> str:
    """What a model is told about a run: the output and, if it failed, why and what would help."""
    parts = [result.text.rstrip("\n"), cut_note(result)]
    if not result.ok:
        parts.append(remark(result) or f"[exit code {result.returncode}]")
    return "\n".join(part for part in parts if part) or "(no output)"
