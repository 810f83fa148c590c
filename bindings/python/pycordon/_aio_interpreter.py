# SPDX-License-Identifier: Apache-2.0
"""Interpreters with state, for programs with an event loop. The loop watches the descriptors; no
thread waits."""

from __future__ import annotations

import asyncio
import select
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union, cast, overload

from . import _arguments
from ._aio import AsyncSandbox
from ._aio_files import AsyncFiles, copy_layers, remove_layers
from ._aio_wait import Slot, in_thread, installed, slot
from ._code import Content
from ._errors import UsageError
from ._execution import Execution
from ._image import FORKS_MAX, Image, check_kind
from ._interpreter import MAX_OUTPUT, InterpreterFront, check_timeout
from ._job import Callback, StrPath
from ._live import GRACE_SECONDS, Live, Task
from ._policy import Config
from ._sandbox import Sandbox
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._branch import Files
    from ._types import InterpreterSettings


_LET_GO_SECONDS = 1.0  # for code to notice that its session was closed


class AsyncInterpreter(InterpreterFront):
    """The same as Interpreter for asyncio: ``execute``, ``set_vars``, ``get_var``, ``restart``, ``start``
    and ``close`` are coroutines, and callbacks may be. Cancelling a task interrupts its code before the
    cancellation goes on; the state is kept."""

    def __init__(
        self,
        language: str = "python",
        config: Config = None,
        *,
        sandbox: "Union[AsyncSandbox, Sandbox, None]" = None,
        cwd: Optional[StrPath] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
        **settings: "Unpack[InterpreterSettings]",
    ) -> None:
        if sandbox is not None and (config is not None or settings):
            raise UsageError("settings belong to the sandbox", hint="give either sandbox= or settings")
        owned = sandbox is None
        if sandbox is None:
            sandbox = AsyncSandbox(config, **cast(Dict[str, Any], settings))
        self._set_up(language, sandbox, owned, cwd, max_output, grace)
        self._turns: Optional[asyncio.Lock] = None
        self._slot: Optional[Slot] = None
        self._closing: "Optional[asyncio.Future[None]]" = None

    async def __aenter__(self) -> "AsyncInterpreter":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def sandbox(self) -> "Union[AsyncSandbox, Sandbox]":
        """The sandbox that it runs in. That of a fork, or one that was made for it, is closed with it."""
        self._sandbox._check_own("has no sandbox of its own", "its files are those of the session")
        return cast("Union[AsyncSandbox, Sandbox]", self._sandbox)

    async def execute(
        self,
        code: Content,
        *,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
    ) -> Execution:
        """Runs code where the code before it has left off; see Interpreter.execute()."""
        payload, seconds = self._payload(code), check_timeout(timeout)
        _arguments.callback("on_stdout", on_stdout)
        _arguments.callback("on_stderr", on_stderr)
        later: List[Any] = []
        callbacks = {"stdout": _collecting(on_stdout, later), "stderr": _collecting(on_stderr, later)}
        async with self._turn():
            live = await self._ready()
            task = self._new_task("exec", seconds, callbacks)
            await self._do(live, task, payload, later)
            return self._executed(live, task)

    async def set_vars(self, variables: Mapping[str, Any]) -> None:
        """Sets variables; see Interpreter.set_vars()."""
        payload = self._kind.variables(variables)
        async with self._turn():
            await self._ask("set", payload)

    async def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for the code from now on; see Interpreter.install(). A cancelled task stops the
        installer."""
        engine = self._check_installable()
        found = await installed(lambda line: engine.find_packages(packages, build_packages, line))
        async with self._turn():
            self._check_open()
            if self._has_state:
                await self._ready()
                files, copies = AsyncFiles(engine, in_home=True), self._copies_for(engine, found)
                await files._follow(engine.room(list(copies)))
                await copy_layers(files, copies)
                try:
                    await self._ask(*self._packages_request(found, copies))
                except BaseException:
                    await remove_layers(files, copies)
                    raise
                self._found.add(found, copies)
            await in_thread(engine.add_packages, found)

    async def get_var(self, name: str) -> Any:
        """The value of a variable; see Interpreter.get_var()."""
        payload = _arguments.text("name", name).encode()
        async with self._turn():
            return await self._ask("get", payload)

    @overload
    async def fork(self) -> "AsyncInterpreter": ...

    @overload
    async def fork(self, n: int) -> "List[AsyncInterpreter]": ...

    async def fork(self, n: Optional[int] = None) -> "Union[AsyncInterpreter, List[AsyncInterpreter]]":
        """Interpreters that go on from the state of this one; see Interpreter.fork()."""
        count = 1 if n is None else _arguments.whole("n", n, 1, FORKS_MAX)
        async with self._turn():
            self._check_forkable()
            image = self._ready_image() or await self._freeze()
            forks: List[AsyncInterpreter] = []
            for files in await in_thread(self._copies, count, undo=_remove_all):
                fork = AsyncInterpreter.__new__(AsyncInterpreter)
                fork._go_on_as(self, AsyncSandbox, files, image)
                fork._turns, fork._slot = None, None
                forks.append(fork)
        return forks[0] if n is None else forks

    async def _image_for_session(self) -> Image:
        """What forks of its session begin with. The caller has the turn."""
        self._check_open()
        check_kind(self._kind)
        self._check_state()
        return self._image if self._live is None and self._image is not None else await self._freeze()

    async def _freeze(self) -> Image:
        live = await self._ready()
        if live.image is not None:
            return live.image
        task, payload = await in_thread(self._begin_freezing, live)
        await self._do(live, task, payload)
        return self._frozen(live, task)

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private files of its sandbox; see Interpreter.snapshot()."""
        async with self._turn():
            self._check_open()
            self._check_files()
            run = None if self._live is None else self._live.run
            return await in_thread(self._sandbox._engine.snapshot, name, run, undo=Snapshot.close)

    async def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private files what they were; see Interpreter.restore()."""
        async with self._turn():
            self._check_restore(snapshot)
            await self._drop()
            self._image, self._reason = None, ""
            await in_thread(self._sandbox._engine.restore, snapshot)

    async def restart(self) -> None:
        """Ends the interpreter with everything it has started, and starts a fresh one."""
        async with self._turn():
            self._check_open()
            await self._drop()
            self._image, self._reason = None, ""
            await self._ready()

    async def start(self) -> "AsyncInterpreter":
        """Starts it now instead of at the first call. Never needed."""
        async with self._turn():
            await self._ready()
        return self

    async def close(self) -> None:
        """Ends it, even if code runs."""
        self._is_closed = True
        live = self._live
        if live is not None:
            live.leave("it was closed")
        async with self._turn():
            await self._drop()
        if self._owns_sandbox:
            await cast(AsyncSandbox, self._sandbox).close()

    # --- behind it -------------------------------------------------------------------------------

    def _turn(self) -> asyncio.Lock:
        """First come, first served. Made late: it belongs to the loop that is running."""
        if self._turns is None:
            self._turns = asyncio.Lock()
        return self._turns

    async def _let_go(self) -> None:
        """Its session was closed. Code that runs notices that itself; if it waits in a callback for the caller
        of this, it is not waited for."""
        closing = self._closing = asyncio.ensure_future(self.close())
        await asyncio.wait([closing], timeout=_LET_GO_SECONDS)

    async def _drop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            await in_thread(live.close)
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    async def _ready(self) -> Live:
        self._check_open()
        live = self._live
        self._look(live)
        if live is not None and not live.is_over:
            for task, payload in self._told(live):
                await self._do(live, task, payload)
            if not live.is_over:
                return live
        await self._drop()
        room = slot(has_pipes=True)
        await room.acquire()
        try:
            fresh = await in_thread(self._make, undo=Live.close)
            try:
                await self._wait(fresh)
                self._greeted(fresh)
                for task, payload in self._told(fresh):
                    await self._do(fresh, task, payload)
            except BaseException:
                fresh.close()
                raise
        except BaseException:
            room.release()
            raise
        self._slot = room
        return fresh

    async def _ask(self, kind: str, payload: bytes) -> Any:
        live = await self._ready()
        task = self._new_task(kind, 60.0, {})
        await self._do(live, task, payload)
        return self._answered(live, task)

    async def _do(
        self, live: Live, task: Task, payload: bytes, later: Optional[List[Any]] = None
    ) -> None:
        pause = live.quiet_at - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        live.begin(task, payload)
        try:
            await self._wait(live, later)
        except BaseException:
            live.stop(task)
            try:
                await self._wait(live)
                await self._sync(live)
            except BaseException:
                live.close()  # a second cancellation
            live.task = None
            raise
        await self._sync(live)

    async def _sync(self, live: Live) -> None:
        task, live.task = live.task, None
        if live.begin_sync() is not None:
            await self._wait(live)
        live.task = task

    @staticmethod
    async def _wait(live: Live, later: Optional[List[Any]] = None) -> None:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        known: Dict[int, int] = {}
        try:
            while not live.is_done:
                wanted = dict(live.waits())
                if wanted != known:
                    _forget(loop, known)
                    known = wanted
                    for fd, events in known.items():
                        loop.add_reader(fd, event.set)
                        if events & select.POLLOUT:
                            loop.add_writer(fd, event.set)
                moment = live.next_time()
                timer = None
                if moment is not None:
                    timer = loop.call_later(max(0.0, moment - time.monotonic()) + 0.001, event.set)
                try:
                    await event.wait()
                finally:
                    if timer is not None:
                        timer.cancel()
                event.clear()
                if live.is_over:
                    break
                before = known
                live.step()
                if live.is_over:
                    known = {}
                    _forget(loop, before)  # the descriptors are closed; their numbers may be used again
                while later:
                    await later.pop(0)
        finally:
            _forget(loop, known)


def _remove_all(made: "List[Files]") -> None:
    for files in made:
        files.remove()


def _forget(loop: asyncio.AbstractEventLoop, known: Mapping[int, int]) -> None:
    for fd, events in known.items():
        loop.remove_reader(fd)
        if events & select.POLLOUT:
            loop.remove_writer(fd)


def _collecting(callback: Optional[Callback], later: List[Any]) -> Optional[Callback]:
    """A callback that may be a coroutine function: what it gives is awaited between two steps."""
    if callback is None:
        return None

    def call(data: bytes) -> None:
        got = callback(data)
        if asyncio.iscoroutine(got):
            later.append(got)

    return call
