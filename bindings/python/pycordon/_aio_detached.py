# SPDX-License-Identifier: Apache-2.0
"""Detached sessions for programs with an event loop: it watches the processes of the command, no thread
waits."""

from __future__ import annotations

import asyncio
import contextlib
import signal as signals
from typing import (
    TYPE_CHECKING, Any, Dict, List, Mapping, Optional, TypeVar, Union, cast,
)  # fmt: skip

from . import _detached
from ._aio_files import AsyncFiles, copy_layers, remove_layers
from ._aio_interpreter import AsyncInterpreter
from ._aio_wait import in_thread, installed
from ._code import Content
from ._detached import Creation, Done, Order
from ._detached_inside import InDetached, Place, answered, files_order
from ._detached_session import PAUSES, DetachedFront
from ._detached_session import _perform as perform_here
from ._errors import CordonError, StateError
from ._execution import Execution
from ._fileops import FileInfo, memory_file
from ._in_session import Interpreters
from ._interpreters import find_kind
from ._interpreter import MAX_OUTPUT
from ._job import Callback, Command, RunArguments, Stdin, StrPath
from ._live import GRACE_SECONDS
from ._policy import Config
from ._result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fileops import Op
    from ._types import DetachedSettings, Orphans

T = TypeVar("T")


async def _process_of(order: Order[Any]) -> asyncio.subprocess.Process:
    with order.ready() as (words, options):
        try:
            return await asyncio.create_subprocess_exec(*words, **options)
        except OSError as error:
            raise _detached.cannot_start(error) from None


async def _perform(order: Order[T]) -> T:
    """Calls the command. A cancelled task ends it, and with it what it runs."""
    process = await _process_of(order)
    try:
        out, err = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await _settled(asyncio.ensure_future(process.wait()))
        raise
    assert process.returncode is not None
    return order.finish(Done(process.returncode, out, err))


async def _settled(future: "asyncio.Future[Any]") -> None:
    """Waits, however often the task is cancelled meanwhile."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError, CordonError):
            await asyncio.shield(future)


async def _create(creation: Creation) -> None:
    """The same for a session, of which nothing is left if the task is cancelled."""
    whole = asyncio.ensure_future(_create_whole(creation))
    try:
        await asyncio.shield(whole)
    except asyncio.CancelledError:
        creation.is_unwanted = True
        if creation.interrupt is not None:
            creation.interrupt()
        await _settled(whole)
        raise


async def _create_whole(creation: Creation) -> None:
    process = await _process_of(creation.order)

    def interrupt() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signals.SIGINT)

    if creation.installs:
        creation.interrupt = interrupt
    if creation.is_unwanted and creation.installs:
        interrupt()
    out, err = await process.communicate()
    assert process.returncode is not None
    if creation.is_unwanted:
        with contextlib.suppress(CordonError):
            await _perform(_detached.stop_order(creation.name))
        return
    creation.order.finish(Done(process.returncode, out, err))


class AsyncDetachedCommand:
    """A command that was started in an AsyncDetachedSession, by its number. It goes on without this
    object."""

    def __init__(self, session: "AsyncDetachedSession", number: int, limit: Optional[int] = None) -> None:
        self._session = session
        self._limit = limit
        self.number = number

    def __repr__(self) -> str:
        return f"<AsyncDetachedCommand {self.number} of {self._session.name}>"

    async def wait(self, timeout: Optional[float] = None) -> Optional[Result]:
        """Waits for its end; see DetachedCommand.wait(). A cancelled task leaves it alone."""
        session, pause = self._session, PAUSES[0]
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while True:
            state = _detached.state_of(self.number, await session._status())
            if state is not None:
                name = session._open()
                return await _perform(_detached.ended_order(name, state, self._limit, session._policy))
            left = pause if end is None else min(pause, end - loop.time())
            if left <= 0:
                return None
            await asyncio.sleep(left)
            pause = min(2 * pause, PAUSES[1])

    async def logs(self) -> bytes:
        """What it has written so far; see DetachedSession.logs()."""
        return await self._session.logs(self.number)

    async def signal(self, number: int) -> None:
        """Sends a signal to its process group."""
        await self._session.kill(self.number, number)

    async def kill(self) -> None:
        """Ends it and what it started."""
        await self._session.kill(self.number)


class AsyncDetachedFiles(AsyncFiles):
    """The files of a detached session, as coroutines."""

    def __init__(self, place: Place) -> None:
        self._engine = cast(Any, place)  # of which only writable_paths() is used
        self._place = place

    async def _do(self, op: "Op[T]") -> T:
        self._place.check_open()
        if op.count == 0:
            return op.finish([])
        with memory_file() as fd:
            await _perform(files_order(self._place.name, op, fd))
            return answered(op, fd)


class AsyncDetachedSession(DetachedFront):
    """The same as DetachedSession, as coroutines: ``await AsyncDetachedSession.create(...)``."""

    @classmethod
    async def create(
        cls,
        config: Config = None,
        *,
        name: Optional[str] = None,
        workdir: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        idle: Union[float, str] = "30m",
        lifetime: Union[float, str] = "24h",
        program: Optional[StrPath] = None,
        **settings: "Unpack[DetachedSettings]",
    ) -> "AsyncDetachedSession":
        """Starts a session; see DetachedSession.create(). A cancelled task leaves none."""
        given = cast(Dict[str, Any], settings)
        creation = await in_thread(
            lambda: _detached.creation(config, name, workdir, env, idle, lifetime, program, given)
        )
        await _create(creation)
        return cls._make(creation.name, creation.policy)

    @classmethod
    async def attach(cls, name: str) -> "AsyncDetachedSession":
        """Joins a session of this user; StateError if there is none of this name."""
        await _perform(_detached.status_order(name, StateError))
        return cls._make(name, None)

    @classmethod
    async def list(cls) -> List[Dict[str, Any]]:
        """The sessions of this user, as ``cordon ps --json`` prints them (without its runs)."""
        return await _perform(_detached.list_order())

    def _set_up(self) -> None:
        place = self._place = Place(self._name, self._policy, perform_here)
        place.watch(self._open)
        self._interpreters: Interpreters[AsyncInterpreter] = Interpreters(
            cast(Any, place), AsyncInterpreter, lambda env: InDetached(place, env), lambda name: InDetached(place, None, name)
        )
        #: Its files, with the rights of a command; see AsyncFiles.
        self.files = AsyncDetachedFiles(place)

    async def __aenter__(self) -> "AsyncDetachedSession":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _status(self) -> Dict[str, Any]:
        return await _perform(_detached.status_order(self._open()))

    async def exec(
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
        orphans: "Orphans" = "keep",
        check: bool = False,
    ) -> Result:
        """Runs a command; see DetachedSession.exec(). A cancelled task ends it."""
        args = RunArguments(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans,
        )  # fmt: skip
        result = await _perform(_detached.exec_order(self._open(), args, self._policy))
        return result.raise_for_status() if check else result

    async def start(
        self,
        cmd: Command,
        *,
        shell: Optional[str] = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        orphans: "Orphans" = "keep",
    ) -> AsyncDetachedCommand:
        """Starts a command that goes on without this process; see DetachedSession.start()."""
        args = RunArguments(
            cmd, shell=shell, cwd=cwd, env=env, timeout=timeout, max_output=max_output, orphans=orphans
        )
        number = await _perform(_detached.start_order(self._open(), args))
        return AsyncDetachedCommand(self, number, _detached.output_limit(args))

    def command(self, number: int) -> AsyncDetachedCommand:
        """A command that start() has started before, perhaps in another process."""
        return AsyncDetachedCommand(self, _detached.check_number(number))

    async def logs(self, number: int) -> bytes:
        """What a command that was started has written so far; see DetachedSession.logs()."""
        return await _perform(_detached.logs_order(self._open(), number))

    async def ps(self) -> List[Dict[str, Any]]:
        """The commands; see DetachedSession.ps()."""
        return cast(List[Dict[str, Any]], (await self._status())["commands"])

    async def kill(self, number: int, signal: int = signals.SIGKILL) -> None:
        """Ends a command and what it started, or sends it another signal."""
        await _perform(_detached.kill_order(self._open(), number, signal))

    def interpreter(
        self,
        language: str = "python",
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> AsyncInterpreter:
        """An interpreter in the session, as that of a Session. It is this process's: it ends with its close(),
        with close() of this object, with this process or with the session."""
        self._open()
        return self._interpreters.make(language, env, cwd=cwd, max_output=max_output, grace=grace)

    async def execute(
        self,
        code: Content,
        language: str = "python",
        *,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
    ) -> Execution:
        """Runs code where the code before it has left off, in an interpreter of the session for each language; see
        Session.execute(). Every client that attaches uses the same one; code of several clients runs one after the other,
        and ``timeout`` includes waiting. It goes on if this process ends, which interrupts its code."""
        self._open()
        interpreter = self._interpreters.kept(language)
        return await interpreter.execute(code, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)

    async def close_interpreter(self, language: str = "python") -> None:
        """Ends the interpreter that execute() keeps for a language; the next execute() has a fresh one. It ends for all who
        use it."""
        self._open()
        kept = self._interpreters.take_kept(language)
        if kept is not None:
            await kept.close()
        number = _detached.number_of(find_kind(language).name, await self._status())
        if number is not None:
            await self.kill(number)

    async def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all commands from now on; see DetachedSession.install(). A cancelled task stops the
        installer."""
        place = self._place
        home = place.home_of(await _perform(place.ask_home()))
        found = await installed(lambda line: place.find_packages(packages, build_packages, line))
        running = [self._interpreters.kept(name) for name in _detached.interpreters_of(await self._status())]
        for one in running:
            await one.start()  # what they are told is what comes later
        copies = place.found.missing(found, home)
        await copy_layers(self.files, copies)
        try:
            values = await _perform(place.ask_values(found, copies))
            await _perform(place.set_values(found, copies, values))
        except BaseException:
            await remove_layers(self.files, copies)
            raise
        place.use_packages(found, copies, values)
        for one in running:
            await one.start()

    async def put(self, host_path: StrPath, path: StrPath) -> None:
        """Copies a file of the host into the session."""
        await _perform(_detached.put_order(self._open(), host_path, path))

    async def get(self, path: StrPath, host_path: StrPath) -> None:
        """Copies a file of the session to the host: a new one, in the place of an old one."""
        await _perform(_detached.get_order(self._open(), path, host_path))

    async def ls(self, path: StrPath = ".") -> List[FileInfo]:
        """What is in a directory. Where links lead is not told."""
        return await _perform(_detached.ls_order(self._open(), path))

    async def pause(self) -> None:
        """Stops every process of the session. No command can be started until resume()."""
        await _perform(_detached.simple_order("pause", self._open()))

    async def resume(self) -> None:
        """Lets them go on."""
        await _perform(_detached.simple_order("resume", self._open()))

    async def usage(self) -> Dict[str, Any]:
        """What the session uses now; see DetachedSession.usage()."""
        return _detached.usage_of(await self._status())

    async def stop(self) -> Dict[str, Any]:
        """Ends the session for all who use it; see DetachedSession.stop()."""
        receipt = await _perform(_detached.stop_order(self._open()))
        await self.close()
        return receipt

    async def close(self) -> None:
        """Leaves the session, which goes on; see DetachedSession.close()."""
        self._closed = True
        for one in self._interpreters.all():
            await one.close()
