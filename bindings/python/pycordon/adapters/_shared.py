# SPDX-License-Identifier: Apache-2.0
"""One session for all commands of an adapter (``shared=True``). Imports no framework.

It has the part of AsyncSandbox's interface that adapters use, and works in any event loop and thread: some
frameworks make a loop for each call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, TypeVar, Union

from pycordon import ClosedError, CordonError, Policy, Result, StateError, UsageError

from .. import _fileops
from .._aio_files import AsyncFiles
from .._explain import headline
from .._front import Front
from .._job import RunArguments
from .._python import interpreter
from .._result import from_receipt
from .._session_core import SessionCommand, SessionCore
from .._session_reader import Reader, ReadFiles

if TYPE_CHECKING:
    from .._fileops import Op

T = TypeVar("T")
#: Arguments of Sandbox that are about runs, of which a session is only one.
_ABOUT_RUNS = frozenset(
    "persist keep id name allow_overrides parked preload warm fresh_aslr compile_timeout compile_memory".split()
)
#: What ends a session and is over with it, so that a new one can begin. Time that was used up is not.
_BEGINS_AGAIN = ("memory", "disk")


class Live:
    """A session that has begun, and the thread that looks after it."""

    def __init__(self, config: Any, workdir: Optional[str], settings: Dict[str, Any]) -> None:
        self.core = SessionCore(config, workdir, None, interpreter(), settings)
        self.workdir = workdir or ""  # of the session: known once it was asked
        try:
            self.reader: Reader[Any] = Reader(
                self.core, lambda: float("inf"), _nothing, _nothing, _nothing
            )
        except BaseException:
            self.core.close()
            raise

    def receipt(self) -> Optional[Dict[str, Any]]:
        """The account of the session, if it has ended by itself."""
        self.core.process()
        return self.core.receipt()

    def end(self, command: SessionCommand) -> None:
        """Ends a command, if it runs."""
        if not self.core.closed:
            with contextlib.suppress(CordonError):  # it has just ended
                command.kill()

    async def wait(self, command: SessionCommand) -> Result:
        """The result. A cancelled task takes the command with it."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, so nothing waits
                loop.call_soon_threadsafe(over.set)

        self.core.watchers.add(command, tell)
        try:
            await over.wait()
        except asyncio.CancelledError:
            self.end(command)
            raise
        result = command.take()
        if result is None:
            self.core.check_open()
            raise StateError("the session is over")
        return result

    def close(self) -> None:
        """Ends it with everything in it."""
        self.core.close()
        self.reader.wake()


class SharedFiles(AsyncFiles):
    """The files of the session."""

    def __init__(self, shared: "Shared") -> None:
        self._shared = shared

    async def _do(self, op: "Op[T]") -> T:
        live = self._shared.begin()
        with _fileops.memory_file() as fd:
            result = await live.wait(live.core.start_files(op, fd))
            answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)


class Shared:
    """Commands that share files, processes and the network inside. The session begins with the first of them and
    ends with close(), with this object or with this process."""

    def __init__(self, config: Any = None, *, workdir: Optional[Path] = None, **settings: Any) -> None:
        refused = sorted(_ABOUT_RUNS & settings.keys())
        if refused:
            raise UsageError(
                f"shared=True cannot be combined with {', '.join(refused)}",
                hint="that is for commands with a sandbox each; leave one of the two out",
            )
        self._workdir = None if workdir is None else str(workdir)
        front = Front(config, workdir=self._workdir, persist=False, **settings)
        if "fs.workspace" in front.policy.effective():
            raise UsageError("shared=True cannot be combined with fs_workspace", hint="give a working directory")
        self.policy: Policy = front.policy
        self.host_workdir = front.host_workdir
        self._config = config
        self._settings = settings
        self._lock = threading.RLock()
        self._live: Optional[Live] = None
        self._is_closed = False

    @property
    def workdir(self) -> str:
        """Where commands start, as they see it. Without a directory of the host the session says it."""
        if self.host_workdir is not None:
            return str(self.host_workdir)
        live = self.begin()
        live.workdir = live.workdir or ReadFiles(live.core).realpath(".")
        return live.workdir

    @property
    def files(self) -> SharedFiles:
        """The files of the session, with the rights of a command."""
        return SharedFiles(self)

    def begin(self) -> Live:
        """The session, which begins if there is none. StateError if a limit has ended it for good."""
        with self._lock:
            if self._is_closed:
                raise ClosedError("the session is closed")
            receipt = None if self._live is None else self._live.receipt()
            if self._live is not None and receipt is None:
                return self._live
            if receipt is not None and receipt["kind"] not in _BEGINS_AGAIN:
                ended = from_receipt(receipt, False, (), self.policy)
                raise StateError(f"the session of all commands is over: {headline(ended)}")
            self._end()
            if self.host_workdir is not None:
                os.makedirs(self.host_workdir, exist_ok=True)
            self._live = Live(self._config, self._workdir, self._settings)
            return self._live

    async def run(
        self,
        argv: List[str],
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        max_output: Union[int, str, None] = None,
    ) -> Result:
        """Runs a command and waits for its end; what it leaves running goes on."""
        live = self.begin()
        args = RunArguments(argv, cwd=cwd, env=env, timeout=timeout, max_output=max_output, orphans="keep")
        return await live.wait(live.core.start(args))

    def close_now(self) -> None:
        """Ends everything that runs, in this thread. May be called again."""
        with self._lock:
            self._is_closed = True
            self._end()

    async def close(self) -> None:
        """The same."""
        await asyncio.to_thread(self.close_now)

    def __del__(self) -> None:
        if hasattr(self, "_live"):
            self._end()

    def _end(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close()


def _nothing() -> None:
    """Nobody has to be told."""


def ended_note(result: Result) -> str:
    """What to add about a command whose session ended with it."""
    if result.kind not in _BEGINS_AGAIN:
        return ""
    return "[every process of this environment ended with it, and its private files are gone]"


