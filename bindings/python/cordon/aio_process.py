# SPDX-License-Identifier: Apache-2.0
"""A command that runs, for asyncio. Its pipes and its end are watched by the event loop."""

from __future__ import annotations

import asyncio
import os
import signal as _signal
from collections import deque
from typing import TYPE_CHECKING, AsyncIterator, Deque, Dict, List, Optional, Tuple, Union

from . import _cordon, arguments
from .errors import CordonError, StateError, from_native, raise_native
from .job import Job, RunArguments
from .process import CHUNK, Keep, with_output
from .result import Published, Result

if TYPE_CHECKING:
    from .aio import AsyncSandbox, Slot
    from .core import Command

_AHEAD = 1 << 20  # bytes read before somebody takes them


class AsyncProcess:
    """A command that runs, with its streams. Made by AsyncSandbox.popen()."""

    def __init__(self, sandbox: "AsyncSandbox", gate: "Slot") -> None:
        self._sandbox = sandbox
        self._gate: "Optional[Slot]" = gate
        self._loop = asyncio.get_running_loop()
        self._job: Optional[Job] = None
        self._run: Optional[_cordon.Run] = None
        self._over: "asyncio.Future[Result]" = self._loop.create_future()
        self._readers: Dict[int, str] = {}
        self._watched: Dict[int, bool] = {}
        self._pending: Deque[Tuple[str, bytes]] = deque()
        self._ahead = 0
        self._news = asyncio.Event()
        self._stdin = -1
        self._kept: Dict[str, Keep] = {}
        self._returned = False

    def __repr__(self) -> str:
        code = self.poll()
        return f"<AsyncProcess {'running' if code is None else f'returncode {code}'}>"

    # --- streams -----------------------------------------------------------------------------

    async def write(self, data: Union[bytes, str]) -> None:
        """Writes all of it to the command's standard input."""
        view = memoryview(arguments.data("data", data))
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

    async def events(self) -> AsyncIterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come, until both are at their end, or until the
        command has ended if what it left goes on (``orphans="keep"``)."""
        while True:
            while self._pending:
                yield self._take()
            if not self._readers or self._at_end_of_kept():
                return
            self._news.clear()
            await self._news.wait()

    def _at_end_of_kept(self) -> bool:
        """The command is over and its tree goes on: what is there was taken."""
        if not self._over.done() or self._job is None or not self._job.is_kept:
            return False
        for fd in list(self._readers):
            self._readable(fd)
        return not self._pending

    def read_available(self) -> List[Tuple[str, bytes]]:
        """What has come and was not taken yet."""
        found: List[Tuple[str, bytes]] = []
        while self._pending:
            found.append(self._take())
        return found

    def remember(self, name: str, data: bytes) -> None:
        """Puts what was taken by events() into the result."""
        self._kept.setdefault(name, Keep()).add(data)

    # --- its end -------------------------------------------------------------------------------

    def poll(self) -> Optional[int]:
        """The return code, or None while it runs."""
        result = self.result
        return None if result is None else result.returncode

    @property
    def returncode(self) -> Optional[int]:
        """The same as poll()."""
        return self.poll()

    @property
    def result(self) -> Optional[Result]:
        """The result, or None while it runs."""
        if not self._over.done() or self._over.exception() is not None:
            return None
        return self._over.result()

    async def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for the command's end; TimeoutError if it does not come in time (the command goes
        on). Output that nobody takes is in the result."""
        try:
            await asyncio.wait_for(self._wait(), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError("the command did not end in time") from None
        return with_output(self._over.result(), self._kept)

    async def _wait(self) -> None:
        async for name, data in self.events():
            self.remember(name, data)
        await asyncio.shield(self._over)

    # --- orders ----------------------------------------------------------------------------------

    def _order(self, name: str, *values: int) -> None:
        if self._run is None or self._over.done():
            return
        try:
            getattr(self._run, name)(*values)
        except _cordon.Error as error:
            if error.name != "state":
                raise_native(error)

    def signal(self, number: int) -> None:
        """Sends a signal to the command's process group; nothing happens once it is over."""
        self._order("signal", arguments.whole("number", number, 1, 64))

    def terminate(self) -> None:
        """Asks the command to end (SIGTERM), and ends everything after the grace."""
        self._order("end", int(_signal.SIGTERM))

    def kill(self) -> None:
        """Ends the command and everything it started, at once."""
        self._order("cancel")

    def resize(self, rows: int, cols: int) -> None:
        """Changes the size of its terminal."""
        self._order(
            "resize",
            arguments.whole("rows", rows, 1, 65535),
            arguments.whole("cols", cols, 1, 65535),
        )

    @property
    def published(self) -> Tuple[Published, ...]:
        """Ports that the host can connect to."""
        if self.result is not None:
            return self.result.published
        if self._run is None:
            return ()
        return tuple(Published(*entry) for entry in self._run.published())

    async def aclose(self) -> None:
        """Ends it if it still runs, and closes its streams."""
        self.kill()
        self.close_stdin()
        for fd in list(self._readers):
            self._end_stream(fd)  # first: a run whose output nobody takes is not over
        self._pending.clear()
        self._news.set()
        if not self._over.done():
            await asyncio.wait([self._over])

    async def __aenter__(self) -> "AsyncProcess":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    # --- behind it ---------------------------------------------------------------------------------

    def _begin(self, cmd: "Command", args: RunArguments, with_stdin: bool) -> Union[Job, Result]:
        """In a thread: prepares and starts."""
        job = self._sandbox._prepare(cmd, args)
        if isinstance(job, Result):
            return job
        try:
            self._make_pipes(job, with_stdin)
            run = self._sandbox._start(job)
        except BaseException:
            self._drop_pipes()
            job.close()
            raise
        self._job = job
        if isinstance(run, Result):
            job.close()
            return run
        self._run = run
        return job

    def _undo(self, begun: Union[Job, Result]) -> None:
        """The task was cancelled while it was started."""
        if self._run is not None and isinstance(begun, Job):
            self._sandbox._abandon(self._run, begun)
            begun.close()
        self._drop_pipes()

    def _make_pipes(self, job: Job, with_stdin: bool) -> None:
        if with_stdin:
            reader, self._stdin = job.pipe()
            job.options["stdin"] = reader
            job.fds.remove(self._stdin)
            os.set_blocking(self._stdin, False)
        for name in ["stdout"] if job.options["stderr"] == "join" else ["stdout", "stderr"]:
            reader, writer = job.pipe()
            job.options[name] = writer
            job.fds.remove(reader)
            os.set_blocking(reader, False)
            self._readers[reader] = name

    def _drop_pipes(self) -> None:
        for fd in [*self._readers, self._stdin]:
            if fd >= 0:
                os.close(fd)
        self._readers, self._stdin = {}, -1

    def _watch(self, run: _cordon.Run, job: Job) -> None:
        fd = run.fileno()

        def look() -> None:
            try:
                if not run.process():
                    return
                self._loop.remove_reader(fd)
                result = self._sandbox._settle(run, job)
            except _cordon.Error as error:
                self._loop.remove_reader(fd)
                self._sandbox._abandon(run, job)
                self._finish(from_native(error))
            except (CordonError, OSError) as error:
                self._finish(error)
            else:
                self._finish(result)

        self._loop.add_reader(fd, look)
        self._resume()
        look()

    def _finish(self, outcome: Union[Result, BaseException]) -> None:
        if self._job is not None:
            self._job.close()
        if self._gate is not None:
            self._gate.release()
            self._gate = None
        if isinstance(outcome, Result):
            self._over.set_result(outcome)
        else:
            self._over.set_exception(outcome)
            self._over.exception()  # whoever waits hears of it; nobody has to
        self._news.set()


async def open_process(
    sandbox: "AsyncSandbox", cmd: "Command", args: RunArguments, with_stdin: bool
) -> AsyncProcess:
    """Starts a command with pipes."""
    from .aio import in_thread, slot

    gate = slot(has_pipes=True)
    await gate.acquire()
    try:
        process = AsyncProcess(sandbox, gate)
        begun = await in_thread(process._begin, cmd, args, with_stdin, undo=process._undo)
    except BaseException:
        gate.release()
        raise
    if isinstance(begun, Result):
        process._drop_pipes()
        process._finish(begun)
    else:
        assert process._run is not None
        process._watch(process._run, begun)
    return process
