# SPDX-License-Identifier: Apache-2.0
"""The sandbox for programs with an event loop.

A run's descriptor is watched by the loop; no thread waits for anything. Starting a run takes about a
millisecond in which the interpreter's lock is not held, and happens in a few threads of our own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Deque,
    Dict,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import _cordon, arguments
from .aio_files import AsyncFiles
from .aio_process import AsyncProcess, open_process
from .code import Content
from .core import Command, SandboxBase
from .errors import raise_native
from .job import Callback, Job, RunArguments, Stdin, StrPath
from .policy import Config
from .result import Result

__all__ = ["AsyncFiles", "AsyncProcess", "AsyncSandbox"]
T = TypeVar("T")
Begun = Tuple[Optional[Job], Union[_cordon.Run, Result]]

_FDS_PER_RUN = 10  # at most: the run's own and its pipes
_FDS_PER_PROCESS = 20  # the same, and pipes with both ends here
_FDS_RESERVED = 128  # for the rest of the program
_pool: Optional[ThreadPoolExecutor] = None
_rooms: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Room]" = (
    weakref.WeakKeyDictionary()
)


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2)), "cordon-start")
    return _pool


def _after_fork() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_after_fork)


class Room:
    """Open files that runs may still take. Who comes first is served first, so that one who needs
    many is not passed by others for ever."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: "Deque[Tuple[int, asyncio.Future[None]]]" = deque()

    async def take(self, count: int) -> None:
        """Waits until there are so many."""
        given: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._waiting.append((count, given))
        self._serve()
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.give_back(count)  # it came together with the cancellation
            else:
                self._serve()
            raise

    def give_back(self, count: int) -> None:
        """Somebody does not need them any more."""
        self._free += count
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            count, given = self._waiting[0]
            if given.cancelled():
                self._waiting.popleft()
            elif count <= self._free:
                self._waiting.popleft()
                self._free -= count
                given.set_result(None)
            else:
                return


class Slot:
    """A run's share of the open files, for as long as it goes on."""

    def __init__(self, room: Room, count: int) -> None:
        self._room = room
        self._count = count

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *exception: object) -> None:
        self.release()

    async def acquire(self) -> None:
        """Waits for its turn."""
        await self._room.take(self._count)

    def release(self) -> None:
        """The run is over."""
        self._room.give_back(self._count)


def room_for_runs() -> int:
    """How many open files this process's limit leaves for runs: enough for a few in any case."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 24
    return max(4 * _FDS_PER_PROCESS, soft - _FDS_RESERVED)


def slot(has_pipes: bool = False) -> Slot:
    """What keeps runs of this loop within the limit of open files. ``has_pipes``: we read the
    streams of this one."""
    loop = asyncio.get_running_loop()
    if loop not in _rooms:
        _rooms[loop] = Room(room_for_runs())
    return Slot(_rooms[loop], _FDS_PER_PROCESS if has_pipes else _FDS_PER_RUN)


async def settled(future: "asyncio.Future[Any]") -> None:
    """Waits for a future, whatever becomes of this task meanwhile. For what takes some milliseconds
    and must not be left half done."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue


async def in_thread(
    function: Callable[..., T], *arguments: Any, undo: Optional[Callable[[T], None]] = None
) -> T:
    """Calls something that blocks for a short time. If the task is cancelled meanwhile, the call is
    waited for all the same, and ``undo`` gets what it gave."""
    future = asyncio.get_running_loop().run_in_executor(_executor(), function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await settled(future)
        if undo is not None and not future.cancelled() and future.exception() is None:
            undo(future.result())
        raise


async def until_over(run: _cordon.Run) -> None:
    """Waits for a run's result. If the task is cancelled, the tree is ended before that goes on."""
    loop = asyncio.get_running_loop()
    over: "asyncio.Future[None]" = loop.create_future()
    fd = run.fileno()

    def look() -> None:
        try:
            if not run.process():
                return
        except _cordon.Error as error:
            if not over.done():
                over.set_exception(error)
        else:
            if not over.done():
                over.set_result(None)
        loop.remove_reader(fd)

    loop.add_reader(fd, look)
    look()
    try:
        await asyncio.shield(over)
    except asyncio.CancelledError:
        run.cancel()
        await settled(over)
        over.exception()
        raise
    finally:
        loop.remove_reader(fd)


class AsyncSandbox(SandboxBase):
    """The same as Sandbox for asyncio: ``run``, ``run_code``, ``popen``, ``start``, ``close`` and
    the methods of ``files`` are coroutines. Cancelling the task ends the command and everything it
    started before the cancellation goes on.

    As many runs go on at once as this process's limit of open files has room for (``ulimit -n``);
    the others wait for their turn.
    """

    async def __aenter__(self) -> "AsyncSandbox":
        return await self.start()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def start(self) -> "AsyncSandbox":
        """Makes the private directory now instead of at the first run. Never needed."""
        self._check_open()
        if self._persist:
            await in_thread(self._make_home)
        return self

    async def close(self) -> None:
        """Ends whatever still runs and removes the private files (unless ``keep``)."""
        await in_thread(self._shut, False)

    async def destroy(self) -> None:
        """The same, and removes what ``keep`` would keep, or what this object attached to."""
        await in_thread(self._shut, True)

    async def restart(self) -> None:
        """Ends whatever still runs and begins with empty private files, under a new id."""
        self._check_open()
        await in_thread(self._shut, False)
        self._attach_id = None
        self._init_state()

    async def run(
        self,
        cmd: Command,
        *,
        shell: Optional[str] = None,
        stdin: Stdin = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        merge: bool = False,
        orphans: str = "kill",
        check: bool = False,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        policy: Config = None,
        tty: bool = False,
        **overrides: Any,
    ) -> Result:
        """Runs a command and waits for its end; see Sandbox.run()."""
        args = RunArguments(
            shell, stdin, cwd, env, timeout, max_output, merge, orphans, policy, tty,
            overrides=overrides,
        )  # fmt: skip
        return await self._run(cmd, args, check, on_stdout, on_stderr)

    async def run_code(
        self,
        code: Content,
        language: str = "python",
        *,
        filename: Optional[str] = None,
        args: Sequence[str] = (),
        files: Optional[Mapping[str, Content]] = None,
        stdin: Stdin = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        merge: bool = False,
        orphans: str = "kill",
        check: bool = False,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        policy: Config = None,
        tty: bool = False,
        **overrides: Any,
    ) -> Result:
        """Runs code; see Sandbox.run_code()."""
        run_args = RunArguments(
            None, stdin, cwd, env, timeout, max_output, merge, orphans, policy, tty,
            overrides=overrides,
        )  # fmt: skip
        argv = self._code_job(code, language, filename, args, files, run_args)
        return await self._run(argv, run_args, check, on_stdout, on_stderr)

    async def _run(
        self,
        cmd: Command,
        args: RunArguments,
        check: bool,
        on_stdout: Optional[Callback],
        on_stderr: Optional[Callback],
    ) -> Result:
        self._check_open()
        arguments.callback("on_stdout", on_stdout)
        arguments.callback("on_stderr", on_stderr)
        if on_stdout is not None or on_stderr is not None:
            result = await self._run_streaming(cmd, args, on_stdout, on_stderr)
        else:
            async with slot():
                result = await self._run_job(lambda: self._prepare(cmd, args))
        return result.raise_for_status() if check else result

    def _begin(self, make: Callable[[], Union[Job, Result]]) -> "Begun":
        """In a thread: prepares and starts."""
        job = make()
        if isinstance(job, Result):
            return None, job
        try:
            run = self._start(job)
        except BaseException:
            job.close()
            raise
        if isinstance(run, Result):
            job.close()
        return job, run

    def _undo(self, begun: "Begun") -> None:
        job, run = begun
        if job is not None and isinstance(run, _cordon.Run):
            self._abandon(run, job)
            job.close()

    async def _run_job(self, make: Callable[[], Union[Job, Result]]) -> Result:
        """Prepares, starts and waits. A cancelled task takes what was started with it."""
        job, run = await in_thread(self._begin, make, undo=self._undo)
        if isinstance(run, Result):
            return run
        assert job is not None
        return await self._finish(job, run)

    async def _finish(self, job: Job, run: _cordon.Run) -> Result:
        try:
            await until_over(run)
            return self._settle(run, job)
        except _cordon.Error as error:
            self._abandon(run, job)
            raise_native(error)
        except asyncio.CancelledError:
            self._abandon(run, job)
            raise
        finally:
            if job.drop is not None or job.own_home is not None:
                await in_thread(job.close)
            else:
                job.close()

    async def _run_streaming(
        self,
        cmd: Command,
        args: RunArguments,
        on_stdout: Optional[Callback],
        on_stderr: Optional[Callback],
    ) -> Result:
        callbacks: Dict[str, Optional[Callback]] = {"stdout": on_stdout, "stderr": on_stderr}
        process = await self._popen(cmd, args, with_stdin=False)
        try:
            async for name, data in process.events():
                process.remember(name, data)
                callback = callbacks[name]
                if callback is not None:
                    got = callback(data)
                    if asyncio.iscoroutine(got):
                        await got
            return await process.wait()
        except BaseException:
            await asyncio.shield(process.aclose())
            raise

    async def popen(
        self,
        cmd: Command,
        *,
        shell: Optional[str] = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        merge: bool = False,
        orphans: str = "kill",
        policy: Config = None,
        tty: bool = False,
        rows: int = 24,
        cols: int = 80,
        **overrides: Any,
    ) -> AsyncProcess:
        """Starts a command and gives an AsyncProcess, to talk to it while it runs."""
        args = RunArguments(
            shell, None, cwd, env, timeout, max_output, merge, orphans, policy, tty, rows, cols,
            overrides,
        )  # fmt: skip
        return await self._popen(cmd, args, with_stdin=True)

    async def _popen(self, cmd: Command, args: RunArguments, with_stdin: bool) -> AsyncProcess:
        self._check_open()
        return await open_process(self, cmd, args, with_stdin)

    async def stream(self, cmd: Command, **arguments: Any) -> AsyncIterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come; arguments as for popen(). Leaving the loop
        early ends the command."""
        process = await self.popen(cmd, **arguments)
        process.close_stdin()
        try:
            async for event in process.events():
                yield event
            await process.wait()
        finally:
            await asyncio.shield(process.aclose())

    def spawn_popen(
        self,
        argv: Sequence[Union[str, "os.PathLike[str]"]],
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        **popen: Any,
    ) -> "subprocess.Popen[Any]":
        """A plain subprocess.Popen that runs ``argv`` in this sandbox; see Sandbox."""
        return self._spawn(argv, cwd, env, popen)

    @property
    def files(self) -> AsyncFiles:
        """The sandbox's files, with the rights that a command would have."""
        return AsyncFiles(self)
