# SPDX-License-Identifier: Apache-2.0
"""Waiting for runs in an event loop.

The loop watches a run's descriptor; no thread waits for anything but compilers. Starting a run takes about a
millisecond, without the interpreter's lock, and happens in a few threads of this module.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, Deque, Optional, Tuple, TypeVar, Union

from . import _cordon
from ._native import PerProcess
from ._builds import Need
from ._engine import Engine, Started
from ._errors import CordonError, StateError
from ._job import RunArguments
from ._result import Result

if TYPE_CHECKING:
    from ._packages import Packages

T = TypeVar("T")

_FDS_PER_RUN = 10  # at most: the run's own and its pipes
_FDS_PER_PROCESS = 20  # the same, and pipes with both ends here
_PAUSE_MAX = 2  # seconds; four in all
_END_SECONDS = 2.0  # for a compiler to be over after it was ended
_FDS_RESERVED = 128  # for the rest of the program
_rooms: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Room]" = (
    weakref.WeakKeyDictionary()
)


@PerProcess
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2)), "cordon-start")


class Room:
    """Open files that runs may still take. First come, first served: otherwise a run that needs
    many could wait for ever."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: "Deque[Tuple[int, asyncio.Future[None]]]" = deque()

    async def take(self, count: int) -> None:
        """Waits until that many are free."""
        given: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._waiting.append((count, given))
        self._serve()
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.give_back(count)  # granted together with the cancellation
            else:
                self._serve()
            raise

    def give_back(self, count: int) -> None:
        """Returns what take() took."""
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

    async def acquire(self) -> None:
        """Waits for its turn."""
        await self._room.take(self._count)

    def release(self) -> None:
        """The run is over."""
        self._room.give_back(self._count)

    __aenter__ = acquire

    async def __aexit__(self, *exception: object) -> None:
        self.release()


def room_for_runs() -> int:
    """How many open files this process's limit leaves for runs; at least enough for a few."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 24
    return max(4 * _FDS_PER_PROCESS, soft - _FDS_RESERVED)


def slot(has_pipes: bool = False) -> Slot:
    """A share for one run of this loop. ``has_pipes``: its streams are read here."""
    loop = asyncio.get_running_loop()
    if loop not in _rooms:
        _rooms[loop] = Room(room_for_runs())
    return Slot(_rooms[loop], _FDS_PER_PROCESS if has_pipes else _FDS_PER_RUN)


async def settled(future: "asyncio.Future[Any]") -> None:
    """Waits for a future even if this task is cancelled. For work of some milliseconds that must
    not be left half done."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue


async def in_thread(
    function: Callable[..., T], *arguments: Any, undo: Optional[Callable[[T], None]] = None
) -> T:
    """Calls a function that blocks for a short time. If the task is cancelled meanwhile, the call
    still ends first, and ``undo`` gets its result."""
    future = asyncio.get_running_loop().run_in_executor(_executor(), function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await settled(future)
        if undo is not None and not future.cancelled() and future.exception() is None:
            undo(future.result())
        raise


@PerProcess
def _installers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "cordon-install")


async def installed(install: "Callable[[Callable[[str], object]], Packages]") -> "Packages":
    """What an installation gives, which takes its time in a thread. A cancelled task does not wait for the
    installer, which is ended at the next line that it says."""
    is_stopped = False

    def line(_: str) -> None:
        if is_stopped:
            raise StateError("the installation was cancelled")

    future = asyncio.get_running_loop().run_in_executor(_installers(), install, line)
    future.add_done_callback(_look_at)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        is_stopped = True
        future.cancel()  # if it has not begun
        raise


def when_over(run: _cordon.Run, tell: Callable[[Optional[_cordon.Error]], None]) -> None:
    """Calls ``tell`` once the run is over, or with the error that watching it gave."""
    loop = asyncio.get_running_loop()
    fd = run.fileno()

    def look() -> None:
        failed = None
        try:
            if not run.process():
                return
        except _cordon.Error as error:
            failed = error
        loop.remove_reader(fd)
        tell(failed)

    loop.add_reader(fd, look)
    look()


async def until_over(run: _cordon.Run) -> None:
    """Waits for a run's end. If the task is cancelled, that goes on once the tree has ended."""
    loop = asyncio.get_running_loop()
    over: "asyncio.Future[None]" = loop.create_future()
    fd = run.fileno()

    def tell(failed: Optional[_cordon.Error]) -> None:
        if failed is None:
            over.set_result(None)
        else:
            over.set_exception(failed)

    when_over(run, tell)
    try:
        await asyncio.shield(over)
    except asyncio.CancelledError:
        run.cancel()
        await settled(over)
        over.exception()
        raise
    finally:
        loop.remove_reader(fd)


def undo(started: Union[Started, Result]) -> None:
    """The task was cancelled while the run was started."""
    if isinstance(started, Started):
        started.abandon()
        started.job.close()


async def start_run(
    begin: Callable[[], Union[Started, Result]], undo: Callable[[Union[Started, Result]], None]
) -> Union[Started, Result]:
    """Starts a run in a thread. While it is set up it needs a descriptor for each grant beside its
    share. If there is none because others are set up just now, it waits for them."""
    pause = 0.01
    while True:
        try:
            return await in_thread(begin, undo=undo)
        except CordonError as error:
            if error.errno != errno.EMFILE or pause > _PAUSE_MAX:
                raise
        await asyncio.sleep(pause)
        pause *= 2


async def wait_for(begin: Callable[[], Union[Started, Result]]) -> Result:
    """Starts a run and waits for its result. A cancelled task takes the run with it."""
    started = await start_run(begin, undo)
    if isinstance(started, Result):
        return started
    try:
        with started as run:
            await until_over(run)
        return started.settle()
    finally:
        if started.job.leaves_files:
            await in_thread(started.job.close)
        else:
            started.job.close()


async def compiled(engine: Engine, args: RunArguments) -> Union[RunArguments, Result]:
    """The arguments of a run whose program is compiled by now; or the compiler's result. The last task
    that is cancelled takes the compiler with it."""
    if args.code is None or args.code.compiled is None:
        return args
    need = await in_thread(engine.need, args, undo=_leave)
    if need is None:
        return args
    outcome = asyncio.wrap_future(need.outcome)
    outcome.add_done_callback(_look_at)
    try:
        with need:
            await asyncio.shield(outcome)
            return need.arguments()
    except asyncio.CancelledError:
        if need.is_given_up:
            await asyncio.wait([outcome], timeout=_END_SECONDS)
        raise


def _leave(need: Optional[Need]) -> None:
    if need is not None:
        need.leave()


def _look_at(outcome: "asyncio.Future[Any]") -> None:
    """After a cancelled task no caller takes its error."""
    if not outcome.cancelled():
        outcome.exception()
