# SPDX-License-Identifier: Apache-2.0
"""CrewAI: a tool over a Scheduler. CrewAI calls tools from threads; the scheduler's loop has one of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from typing import Any, Literal, Optional, Type, Union

from crewai.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from pycordon import CordonError, Policy, ScheduledResult, Scheduler

from . import _common

_OUTPUT = 50_000  # characters of each stream that a model gets


class SchedulerSchema(BaseModel):
    """Arguments of CordonSchedulerTool."""

    code: str = Field(..., description="Code to run. Print what you need: only what is printed comes back.")
    packages: list[str] = Field(
        default_factory=list,
        description="Packages that the code imports, as pip names them (`numpy==2.1.0`), or npm (`npm:lodash`).",
    )
    language: Literal["python", "javascript", "raw"] = Field(
        "python", description="python, javascript, or raw for a shell command."
    )
    timeout_seconds: Optional[float] = Field(None, description="Seconds that the code may take at most.")


class CordonSchedulerTool(BaseTool):
    """Runs code with packages, each call in a fresh sandbox; several calls at a time.

    `policy`, the fields below it and `settings` (any other argument of `pycordon.Scheduler`) say what code may
    do; nothing that a model writes widens that. `allowed_packages`: the packages that it may ask for; None:
    any of the index, [] none. They are installed once, in a sandbox of their own that reaches the index only.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = "Cordon Code Scheduler"
    description: str = (
        "Run Python or JavaScript code, or a shell command, in a fresh sandbox, with the packages that it needs. "
        "Nothing is kept between calls. Returns what was printed."
    )
    args_schema: Type[BaseModel] = SchedulerSchema
    policy: Optional[Union[Policy, str, dict[str, Any]]] = None
    max_concurrency: Optional[int] = None
    allowed_packages: Optional[list[str]] = None
    fs_read: Optional[list[str]] = None
    net_allow: Optional[list[str]] = None
    max_memory_mb: Optional[int] = None
    max_execution_seconds: Optional[float] = None
    envs: Optional[dict[str, str]] = None
    settings: dict[str, Any] = Field(default_factory=dict)

    _loop: Optional[asyncio.AbstractEventLoop] = PrivateAttr(default=None)
    _scheduler: Optional[Scheduler] = PrivateAttr(default=None)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def _make(self) -> Scheduler:
        names = ("fs_read", "net_allow", "max_memory_mb", "max_execution_seconds", "max_concurrency")
        named = {name: getattr(self, name) for name in (*names, "allowed_packages")}
        return Scheduler(self.policy, **{**self.settings, **_common.given(**named, env=self.envs)})

    def _begin(self, work: str, **arguments: Any) -> "concurrent.futures.Future[dict[str, Any]]":
        with self._lock:
            if self._loop is None or self._scheduler is None:
                self._scheduler = self._make()
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="cordon-crewai", daemon=True).start()
                atexit.register(self.close)
            return asyncio.run_coroutine_threadsafe(_run(self._scheduler, work, **arguments), self._loop)

    def _run(
        self,
        code: str,
        packages: Optional[list[str]] = None,
        language: str = "python",
        timeout_seconds: Optional[float] = None,
    ) -> dict[str, Any]:
        future = self._begin(code, language=language, packages=packages or [], seconds=timeout_seconds)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _arun(
        self,
        code: str,
        packages: Optional[list[str]] = None,
        language: str = "python",
        timeout_seconds: Optional[float] = None,
    ) -> dict[str, Any]:
        future = self._begin(code, language=language, packages=packages or [], seconds=timeout_seconds)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Ends what runs, and the scheduler; the next call begins with a new one."""
        with self._lock:
            loop, scheduler = self._loop, self._scheduler
            self._loop = self._scheduler = None
        if loop is not None and scheduler is not None:
            atexit.unregister(self.close)
            asyncio.run_coroutine_threadsafe(scheduler.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)


async def _run(
    scheduler: Scheduler, code: str, *, language: str, packages: list[str], seconds: Optional[float]
) -> dict[str, Any]:
    limit = _common.within(scheduler.policy, seconds if seconds is None or seconds > 0 else None)
    try:
        result = await scheduler.run(code, language, packages=packages, timeout_seconds=limit)
    except CordonError as error:
        return {"exit_code": None, "stdout": "", "stderr": "", "error": str(error)}
    return _told(result)


def _told(result: ScheduledResult) -> dict[str, Any]:
    return {
        "exit_code": result.returncode,
        "stdout": _cut(result.stdout),
        "stderr": _cut(result.stderr),
        "error": _common.remark(result) or None,
    }


def _cut(text: str) -> str:
    if len(text) <= _OUTPUT:
        return text
    return f"{text[: _OUTPUT // 2]}\n[{len(text) - _OUTPUT} characters left out]\n{text[-_OUTPUT // 2 :]}"
