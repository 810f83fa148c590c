# SPDX-License-Identifier: Apache-2.0
"""CrewAI: what the tools of `pycordon.adapters.crewai` have in common."""

from __future__ import annotations

import atexit
import threading
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Union

from crewai.tools import BaseTool
from pydantic import ConfigDict, Field, PrivateAttr

from pycordon import Policy, Sandbox

from . import _common

_LONGEST = 300.0  # seconds that a model can ask for where the policy states nothing


class CordonBaseTool(BaseTool):
    """What the tools here have in common: a policy, and the life of a sandbox.

    By default each call has a sandbox of its own. `persistent=True` keeps one for all calls of this
    tool, until `close()` or the end of the process. `sandbox_id` uses one that exists already,
    and never closes it. `policy` is a `pycordon.Policy`, a dict, a preset's name or a policy file; the
    fields below it and `settings` (any other setting of `pycordon.Sandbox`) come on top.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    persistent: bool = False
    sandbox_id: Optional[str] = None
    policy: Optional[Union[Policy, str, dict[str, Any]]] = None
    workdir: Optional[Union[str, bool]] = True
    fs_read: Optional[list[str]] = None
    fs_write: Optional[list[str]] = None
    net_allow: Optional[list[str]] = None
    max_memory_mb: Optional[int] = None
    max_procs: Optional[int] = None
    max_execution_seconds: Optional[float] = None
    envs: Optional[dict[str, str]] = None
    settings: dict[str, Any] = Field(default_factory=dict)

    _kept: Optional[Sandbox] = PrivateAttr(default=None)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def _make(self) -> Sandbox:
        names = ("fs_read", "fs_write", "net_allow", "max_memory_mb", "max_procs")
        named = {name: getattr(self, name) for name in (*names, "max_execution_seconds")}
        settings = {**self.settings, **_common.given(**named, env=self.envs)}
        return Sandbox(self.policy, workdir=self.workdir, **settings)

    def _time(self, sandbox: Sandbox, asked: Optional[float]) -> Optional[float]:
        """What a model asks for, within the policy and this bound."""
        return _common.within(sandbox.policy, None if asked is None else min(asked, _LONGEST))

    @contextmanager
    def _open(self) -> Iterator[Sandbox]:
        if self.sandbox_id:
            yield Sandbox.attach(self.sandbox_id)
        elif self.persistent:
            with self._lock:
                if self._kept is None:
                    self._kept = self._make()
                    atexit.register(self.close)
                kept = self._kept
            yield kept
        else:
            with self._make() as sandbox:
                yield sandbox

    def close(self) -> None:
        """Ends the sandbox that `persistent=True` keeps, if there is one."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            atexit.unregister(self.close)
            kept.close()
