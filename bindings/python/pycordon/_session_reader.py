# SPDX-License-Identifier: Apache-2.0
"""The thread of a session that is used from anywhere: any thread, any event loop, or nobody for a while.

It handles what happens in the session without a pause. So what runs in the background is never held up
because nobody waits for it, a limit that ends the session is noticed when it does, and whoever waits for a
command is told when it is over.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Protocol, TypeVar

from . import _fileops
from ._errors import CordonError
from ._result import Result
from ._session import SessionFiles
from ._session_core import SessionCommand, SessionCore

if TYPE_CHECKING:
    from ._fileops import Op

T = TypeVar("T")
_CHUNK = 1 << 16


class Streamed(Protocol):
    """A command whose output the thread reads."""

    readers: Dict[int, str]
    is_done: bool
    command: Optional[SessionCommand]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""

    def read(self, fd: int) -> bool:
        """Reads what there is; False: there will be no more."""

    def settle(self) -> None:
        """It is over, and everything that it wrote is in the pipes."""


def _nothing() -> None:
    """There is nothing more to tell."""


R = TypeVar("R", bound=Streamed)


class Reader(Generic[R]):
    """The thread of one session. ``ended`` is called when the session is over by itself; ``deadline`` says
    when its time is (of time.monotonic()), and then ``expired`` is called. ``over``: the last that is done."""

    def __init__(
        self, core: SessionCore, deadline: Callable[[], float], expired: Callable[[], None],
        ended: Callable[[], None], over: Callable[[], None],
    ) -> None:  # fmt: skip
        self._over = over
        self._core = core
        self._deadline = deadline
        self._expired = expired
        self._ended = ended
        self._lock = threading.Lock()
        self._is_over = False
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._running: List[R] = []
        self._fd = os.dup(core.native.fileno())
        self._thread = threading.Thread(target=self._work, name="cordon-session", daemon=True)
        self._thread.start()
        core.watchers.add(None, self.wake)

    def add(self, running: R) -> None:
        """One more to read from."""
        with self._lock:
            is_over = self._is_over
            if not is_over:
                self._running.append(running)
        if is_over:
            running.settle()
        elif running.command is not None:
            self._core.watchers.add(running.command, self.wake)
        self.wake()

    def wake(self) -> None:
        """Something has changed."""
        with self._lock:
            if not self._is_over:
                try:
                    os.write(self._wake[1], b"x")
                except BlockingIOError:
                    pass  # it is full, which wakes as well

    def running(self) -> List[R]:
        """The commands that run."""
        with self._lock:
            return [one for one in self._running if not one.is_done]

    def _work(self) -> None:
        is_over = True  # even if this fails: waiting threads have to be released
        try:
            is_over = self._drive()
        finally:
            if is_over and not self._core.closed:
                self._ended()
            with self._lock:
                self._is_over = True
                for fd in (self._fd, *self._wake):
                    os.close(fd)
            self._settle(True)
            self._core.watchers.look(True)
            self._over()
            # These know the box, which knows this: without them its descriptors are free as soon as it is.
            self._deadline, self._expired, self._ended, self._over = float, _nothing, _nothing, _nothing

    def _drive(self) -> bool:
        """Until the session is closed (False), or over by itself (True)."""
        is_over = False
        while not is_over and not self._core.closed:
            readers = {fd: one for one in self.running() for fd in list(one.readers)}
            look = select.poll()
            for fd in (self._fd, self._wake[0], *readers):
                look.register(fd, select.POLLIN)
            left = self._deadline() - time.monotonic()
            ready = [fd for fd, _ in look.poll(max(0.0, min(left, 3600.0)) * 1000 + 1)]
            if self._deadline() <= time.monotonic():
                self._expired()
                return False
            if self._wake[0] in ready:
                os.read(self._wake[0], _CHUNK)
            try:
                is_over = self._core.process()
            except CordonError:
                is_over = True
            for fd in ready:
                if fd in readers and not readers[fd].read(fd):
                    os.close(fd)
                    del readers[fd].readers[fd]
            self._settle(is_over)
        return is_over

    def _settle(self, is_over: bool) -> None:
        with self._lock:
            done = [one for one in self._running if is_over or one.is_over]
            self._running = [one for one in self._running if one not in done]
        for one in done:
            one.settle()


def wait_here(core: SessionCore, command: SessionCommand) -> Result:
    """Waits for the end of a command, in a session that has a Reader."""
    done = threading.Event()
    core.watchers.add(command, done.set)
    done.wait()
    result = command.take()
    if result is None:
        core.check_open()
    assert result is not None
    return result


class ReadFiles(SessionFiles):
    """The files of a session that has a Reader."""

    def _do(self, op: "Op[T]") -> T:
        if op.count == 0:
            return op.finish([])
        with _fileops.memory_file() as fd:
            result = wait_here(self._core, self._core.start_files(op, fd))
            answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)
