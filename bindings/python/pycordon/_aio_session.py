# SPDX-License-Identifier: Apache-2.0
"""Sessions for programs with an event loop: the session's one descriptor is registered there while
something is awaited, no thread waits."""

from __future__ import annotations

import asyncio
import contextlib
import signal as signals
from typing import (
    TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set, Tuple, TypeVar, Union, cast, overload,
)  # fmt: skip

from . import _arguments, _fileops
from ._aio_files import AsyncFiles, copy_layers
from ._aio_interpreter import AsyncInterpreter
from ._aio_wait import in_thread, installed
from ._code import Content
from ._errors import ClosedError
from ._execution import Execution
from ._image import FORKS_MAX
from ._in_session import Interpreters
from ._interpreter import MAX_OUTPUT
from ._job import Callback, Command, RunArguments, Stdin, StrPath
from ._live import GRACE_SECONDS
from ._policy import Config
from ._result import Published, Result
from ._session_core import SessionCommand, SessionCore
from ._session_state import Packed, check_forks
from ._snapshot import Snapshot

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from ._branch import Files as FilesOfFork
    from ._fileops import Op
    from ._image import Image
    from ._types import Orphans, SandboxSettings
    from .workspaces import Workspace

T = TypeVar("T")


class _Waiters:
    """Those who wait for a command of one session, in one event loop."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._waiting: "Set[Tuple[SessionCommand, asyncio.Future[None]]]" = set()
        self._fd = core.native.fileno()

    def _look(self) -> None:
        failed: Optional[BaseException] = None
        try:
            self._core.process()
        except Exception as error:  # whatever it is, those who wait have to hear of it
            failed = error
        for command, future in list(self._waiting):
            if future.done():
                continue
            if failed is not None:
                future.set_exception(failed)
            elif self._core.closed or command._native.result() is not None:
                future.set_result(None)

    async def wait(self, command: SessionCommand) -> Result:
        """The result. A cancelled task takes the command with it."""
        loop = asyncio.get_running_loop()
        entry = (command, loop.create_future())

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, so nothing waits
                loop.call_soon_threadsafe(self._look)

        watcher = self._core.watchers.add(command, tell)
        if not self._waiting:
            loop.add_reader(self._fd, self._look)
        self._waiting.add(entry)
        try:
            self._look()
            await entry[1]
        except asyncio.CancelledError:
            if not self._core.closed:
                command.kill()
            raise
        finally:
            self._core.watchers.discard(watcher)
            self._waiting.discard(entry)
            if not self._waiting:
                loop.remove_reader(self._fd)
        result = command.take()
        if result is None:
            self._core.check_open()
        assert result is not None
        return result


class AsyncSessionFiles(AsyncFiles):
    """The files of an AsyncSession; see Files."""

    def __init__(self, core: SessionCore, waiters: _Waiters) -> None:
        self._use(core, waiters)

    def _use(self, core: SessionCore, waiters: _Waiters) -> None:
        self._engine = cast(Any, core)  # of which only writable_paths() is used
        self._core = core
        self._waiters = waiters

    async def _do(self, op: "Op[T]") -> T:
        if op.count == 0:
            return op.finish([])
        with _fileops.memory_file() as fd:
            result = await self._waiters.wait(self._core.start_files(op, fd))
            answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)


def _remove_all(copies: "List[FilesOfFork]") -> None:
    for files in copies:
        files.remove()


def _end_all(sessions: "List[AsyncSession]") -> None:
    for one in sessions:
        one._core.close()


class AsyncSession:
    """The same as Session, as coroutines. Used within one event loop; start with ``async with`` or
    start()."""

    def __init__(
        self,
        config: Config = None,
        *,
        workdir: Union[str, "os.PathLike[str]", None] = None,
        env: Optional[Mapping[str, str]] = None,
        program: Optional[StrPath] = None,
        persist: bool = False,
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        self._set_up(
            SessionCore(config, workdir, env, program, cast(Dict[str, Any], settings), persist=persist)
        )
        self._packed = Packed()
        self.files = AsyncSessionFiles(self._core, self._waiters)

    _was_closed = False

    def _set_up(self, core: SessionCore) -> None:
        self._core = core
        self._waiters = _Waiters(core)
        self._interpreters: Interpreters[AsyncInterpreter] = Interpreters(core, AsyncInterpreter)

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

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
        """Runs a command; see Session.exec(). A cancelled task ends it."""
        args = RunArguments(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans,
        )  # fmt: skip
        result = await self._waiters.wait(self._core.start(args))
        return result.raise_for_status() if check else result

    def interpreter(
        self,
        language: str = "python",
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> AsyncInterpreter:
        """An interpreter in the session: it shares files, processes and network with the commands and with
        other interpreters, of which there may be any number. It ends with its close(), or with the session.
        The arguments are those of AsyncInterpreter; ``env``: variables. It has no fork(), snapshot() and
        install() of its own: those are the session's."""
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
        """Runs code where the code before it has left off, in an interpreter of the session that is kept for
        each language; see AsyncInterpreter.execute(). ``language``: python, javascript or bash. While the session
        is paused, it waits, and time goes on. ClosedError if the session is closed meanwhile."""
        interpreter = self._interpreters.kept(language)
        return await interpreter.execute(code, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)

    async def close_interpreter(self, language: str = "python") -> None:
        """Ends the interpreter that execute() keeps for a language; see Session.close_interpreter()."""
        kept = self._interpreters.take_kept(language)
        if kept is not None:
            await kept.close()

    @overload
    async def fork(self) -> "AsyncSession": ...

    @overload
    async def fork(self, n: int) -> "List[AsyncSession]": ...

    async def fork(self, n: Optional[int] = None) -> "Union[AsyncSession, List[AsyncSession]]":
        """A session that goes on from the state of this one, or a list of ``n``; see Session.fork()."""
        count = 1 if n is None else _arguments.whole("n", n, 1, FORKS_MAX)
        core = self._core
        check_forks(core)
        python = self._interpreters.with_state("python")
        if python is None:
            await in_thread(core.check_alone, 0)
            copies = await in_thread(core.copies, count, undo=_remove_all)
            forks = await in_thread(self._forks, copies, None, None, undo=_end_all)
        else:
            async with python._turn():
                image = await python._image_for_session()
                await in_thread(core.check_alone, int(python._live is not None))
                copies = await in_thread(core.copies, count, undo=_remove_all)
            forks = await in_thread(self._forks, copies, python, image, undo=_end_all)
        return forks[0] if n is None else forks

    def _forks(
        self, copies: "List[FilesOfFork]", python: Optional[AsyncInterpreter], image: "Optional[Image]"
    ) -> "List[AsyncSession]":
        known = 0 if python is None else python._known_updates
        forks: "List[AsyncSession]" = []
        try:
            for files in copies:
                fork = AsyncSession.__new__(AsyncSession)
                fork._set_up(self._core.branch(files, image, known))
                fork._packed, fork.files = Packed(), AsyncSessionFiles(fork._core, fork._waiters)
                forks.append(fork)
                if python is not None and image is not None:
                    fork._interpreters.kept("python")._go_on_from(python, image)
        except BaseException:
            _end_all(forks)
            _remove_all(copies[len(forks) :])
            raise
        return forks

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private /tmp and home as they are at this moment; see Session.snapshot()."""
        return await in_thread(self._core.snapshot, name, self._packed, undo=Snapshot.close)

    async def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private /tmp and home what they were, and begins anew; see Session.restore()."""
        before, interpreters = self._core, self._interpreters
        try:
            core = await in_thread(before.restored, snapshot, self._packed, undo=SessionCore.close)
            self._set_up(core)
            self.files._use(core, self._waiters)
        finally:
            if before.closed:
                for one in interpreters.all():
                    await one._let_go()
        if self._was_closed:  # meanwhile
            await self.close()
            raise ClosedError("the session is closed")

    @property
    def workspace(self) -> "Optional[Workspace]":
        """The workspace that it has or left, or None; see Session.workspace."""
        return self._core.engine.runs.workspace.open()

    async def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all commands from now on; see Session.install(). A cancelled task stops the
        installer."""
        core = self._core
        core.check_open()
        asked = core.ask_home()
        home = core.home_for_copies(None if asked is None else await self._waiters.wait(asked))
        found = await installed(lambda line: core.find_packages(packages, build_packages, line))
        copies = core.given.found.missing(found, home)
        await copy_layers(self.files, copies)
        core.use_packages(found, copies)

    async def put(self, host_path: StrPath, path: StrPath) -> None:
        """Copies a file of the host into the session."""
        await self.files.put(host_path, path)

    async def get(self, path: StrPath, host_path: StrPath) -> None:
        """Copies a file of the session to the host."""
        await self.files.get(path, host_path)

    async def ls(self, path: StrPath = ".") -> List[_fileops.FileInfo]:
        """What is in a directory."""
        return await self.files.list(path)

    async def pause(self) -> None:
        """Stops every process of the session."""
        self._core.order("pause")

    async def resume(self) -> None:
        """Lets them go on."""
        self._core.order("resume")

    async def usage(self) -> Dict[str, Any]:
        """What the session uses now; see Session.usage()."""
        return cast(Dict[str, Any], await in_thread(lambda: self._core.order("usage")))

    def published(self) -> Tuple[Published, ...]:
        """Ports inside that the host can reach (``net_publish``)."""
        return self._core.published()

    async def stop(self) -> Optional[Dict[str, Any]]:
        """Ends the session in order; its receipt."""
        await self._close(signals.SIGTERM)
        return self._core.receipt()

    async def close(self) -> None:
        """Ends the session at once."""
        await self._close()

    async def _close(self, signal: int = 0) -> None:
        self._was_closed = True
        try:
            await in_thread(self._core.close, signal)
        finally:
            for one in self._interpreters.all():
                await one._let_go()
