# SPDX-License-Identifier: Apache-2.0
"""A command that runs, for asyncio. The event loop watches its pipes and its end."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import AsyncIterator, Deque, Dict, List, Optional, Tuple, Union

from . import _arguments
from ._aio_wait import Slot, slot, start_run, undo, when_over
from ._engine import Engine, Started
from ._errors import StateError
from ._job import Job, RunArguments
from ._result import Result
from ._streams import CHUNK, ProcessFront

_AHEAD = 1 << 20  # bytes that are read before the caller takes them


class AsyncProcess(ProcessFront):
    """A command that runs, with its streams. Made by AsyncSandbox.popen()."""

    def __init__(self, gate: Slot, with_stdin: bool) -> None:
        super().__init__()
        self._gate: Optional[Slot] = gate
        self._with_stdin = with_stdin
        self._loop = asyncio.get_running_loop()
        self._over: "asyncio.Future[Result]" = self._loop.create_future()
        self._readers: Dict[int, str] = {}
        self._watched: Dict[int, bool] = {}
        self._pending: Deque[Tuple[str, bytes]] = deque()
        self._ahead = 0
        self._news = asyncio.Event()
        self._stdin = -1

    # --- streams -----------------------------------------------------------------------------

    async def write(self, data: Union[bytes, str]) -> None:
        """Writes all of it to the command's standard input."""
        view = memoryview(_arguments.data("data", data))
        while view:
            if self._stdin < 0:
                raise StateError("the process has no standard input (any more)")
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await self._writable()

    async def _writable(self) -> None:
        fd, ready = self._stdin, asyncio.Event()
        self._loop.add_writer(fd, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(fd)

    def close_stdin(self) -> None:
        """The command sees the end of its input."""
        fd, self._stdin = self._stdin, -1
        if fd >= 0:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _readable(self, fd: int) -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._pending.append((self._readers[fd], data))
            self._ahead += len(data)
            if self._ahead > _AHEAD:
                self._pause()
        else:
            self._end_stream(fd)
        self._news.set()

    def _end_stream(self, fd: int) -> None:
        if fd in self._readers:
            del self._readers[fd]
            if self._watched.pop(fd, False):
                self._loop.remove_reader(fd)
            os.close(fd)

    def _pause(self) -> None:
        for fd in self._readers:
            if self._watched.get(fd):
                self._loop.remove_reader(fd)
                self._watched[fd] = False

    def _resume(self) -> None:
        for fd in self._readers:
            if not self._watched.get(fd):
                self._loop.add_reader(fd, self._readable, fd)
                self._watched[fd] = True

    def _take(self) -> Tuple[str, bytes]:
        event = self._pending.popleft()
        self._ahead -= len(event[1])
        if self._ahead <= _AHEAD // 2:
            self._resume()
        return event

    async def events(self, timeout: Optional[float] = None) -> AsyncIterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come, until both are at their end, or until the
        command has ended if what it left goes on (``orphans="keep"``). ``timeout``: for each wait;
        TimeoutError."""
        while True:
            while self._pending:
                yield self._take()
            if not self._readers or self._at_end_of_kept():
                return
            if not await self._wait_for_news(timeout):
                raise TimeoutError("nothing was written in time")

    async def _wait_for_news(self, timeout: Optional[float]) -> bool:
        """Whether something came, or ended, in time."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    def _at_end_of_kept(self) -> bool:
        """The command is over, its tree goes on, and everything written so far was taken."""
        if not self._over.done() or self._started is None or not self._started.job.is_kept:
            return False
        for fd in list(self._readers):
            self._readable(fd)
        return not self._pending

    async def read_available(self, timeout: float = 0) -> List[Tuple[str, bytes]]:
        """What can be read now, or within ``timeout`` seconds if there is nothing yet."""
        if not self._pending:
            for fd in list(self._readers):
                self._readable(fd)
        if not self._pending and self._readers and timeout > 0:
            await self._wait_for_news(timeout)
        found: List[Tuple[str, bytes]] = []
        while self._pending:
            found.append(self._take())
        return found

    # --- its end -------------------------------------------------------------------------------

    async def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for the command's end; TimeoutError if it does not come in time (the command goes
        on). Output that was not taken is in the result."""
        try:
            await asyncio.wait_for(self._wait(), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError("the command did not end in time") from None
        return self._kept.in_result(self._over.result())

    async def _wait(self) -> None:
        async for name, data in self.events():
            self._kept.add(name, data)
        await asyncio.shield(self._over)

    async def close(self) -> None:
        """Ends it if it still runs, and closes its streams."""
        self.kill()
        self.close_stdin()
        for fd in list(self._readers):
            self._end_stream(fd)  # first: a run whose output is not taken does not end
        self._pending.clear()
        self._news.set()
        if not self._over.done():
            await asyncio.wait([self._over])

    async def __aenter__(self) -> "AsyncProcess":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # --- behind it ---------------------------------------------------------------------------------

    def _begin(self, engine: Engine, args: RunArguments) -> Union[Started, Result]:
        """In a thread: prepares and starts."""
        try:
            return engine.begin(args, self._connect)
        except BaseException:
            self._drop_pipes()
            raise

    def _undo(self, begun: Union[Started, Result]) -> None:
        undo(begun)
        self._drop_pipes()

    def _connect(self, job: Job) -> None:
        self._stdin, readers = job.connect(self._with_stdin)
        self._readers = {fd: name for name, fd in readers.items()}
        for fd in self._readers if self._stdin < 0 else (self._stdin, *self._readers):
            os.set_blocking(fd, False)

    def _drop_pipes(self) -> None:
        for fd in (self._stdin, *self._readers):
            if fd >= 0:
                os.close(fd)
        self._readers, self._stdin = {}, -1

    def _begun(self, begun: Union[Started, Result]) -> None:
        if isinstance(begun, Result):
            self._drop_pipes()
            self._finish(begun)
            return
        started = self._started = begun
        self._resume()
        when_over(started.run, lambda failed: self._conclude(started, failed))

    def _finish(self, outcome: Union[Result, BaseException]) -> None:
        super()._finish(outcome)
        if self._gate is not None:
            self._gate.release()
            self._gate = None
        if isinstance(outcome, Result):
            self._over.set_result(outcome)
        else:
            self._over.set_exception(outcome)
            self._over.exception()  # so that asyncio does not complain if it is never asked for
        self._news.set()


async def open_process(engine: Engine, args: RunArguments, with_stdin: bool) -> AsyncProcess:
    """Starts a command with pipes."""
    engine.check_open()
    gate = slot(has_pipes=True)
    await gate.acquire()
    try:
        process = AsyncProcess(gate, with_stdin)
        begun = await start_run(lambda: process._begin(engine, args), process._undo)
    except BaseException:
        gate.release()
        raise
    process._begun(begun)
    return process
