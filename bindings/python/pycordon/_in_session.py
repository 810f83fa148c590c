# SPDX-License-Identifier: Apache-2.0
"""An interpreter as a command of a session: it shares files, processes and the network inside with the
session's other commands.

An interpreter expects a sandbox whose engine starts runs. The engine here starts commands of a session
instead. A session has one descriptor for all its events, and several threads may handle them: the one that
waits for an interpreter's answer, and one that waits for another command. Each can handle an event that the
other waits for. So an interpreter has a descriptor of its own to wait for, which the other thread makes readable
when the command is over, and it tells that thread what it has handled itself.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Protocol, cast

from . import _arguments, _cordon
from ._front import Front
from ._job import Job, RunArguments
from ._result import Result
from ._session import SessionCommand, SessionCore, argv_of

if TYPE_CHECKING:
    from ._engine import Engine


class Driver(Protocol):
    """Another thread that drives the session."""

    def watch(self, command: SessionCommand, tell: Callable[[], None]) -> None:
        """Calls ``tell`` when the command is over."""

    def nudge(self, is_over: bool) -> None:
        """Events were handled elsewhere; ``is_over``: the session's end may be one of them."""


class _Bell:
    """A descriptor that becomes readable when the session has something to do, or when rung."""

    def __init__(self, session_fd: int) -> None:
        self._lock = threading.Lock()
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll = select.epoll()
        self._epoll.register(session_fd, select.EPOLLIN)
        self._epoll.register(self._pipe[0], select.EPOLLIN)
        self._is_closed = False

    def fileno(self) -> int:
        """To wait for it."""
        return self._epoll.fileno()

    def ring(self) -> None:
        """Any thread may; also after close()."""
        with self._lock:
            if not self._is_closed:
                try:
                    os.write(self._pipe[1], b"x")
                except BlockingIOError:
                    pass

    def close(self) -> None:
        """No more."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._epoll.close()
                for fd in self._pipe:
                    os.close(fd)


class _Run:
    """A command of a session, as the part of a run's interface that interpreters use."""

    def __init__(
        self, core: SessionCore, command: SessionCommand, bell: _Bell, channel: int, driver: Optional[Driver]
    ) -> None:
        self._core = core
        self._command = command
        self._bell = bell
        self._channel = channel
        self._driver = driver

    def fileno(self) -> int:
        return self._bell.fileno()

    def channel(self) -> int:
        return self._channel

    def process(self) -> bool:
        """Whether it is over."""
        if not self._core.closed:
            is_over = self._core.native.process()
            if self._driver is not None:
                self._driver.nudge(is_over)
        return self._core.closed or self._command._native.result() is not None

    def signal(self, number: int) -> None:
        self._command._native.signal(number)

    def cancel(self) -> None:
        if not self._core.closed:
            self._command._native.end()


class _Started:
    """It goes on; see Started."""

    def __init__(self, core: SessionCore, command: SessionCommand, job: Job, bell: _Bell, run: _Run) -> None:
        self._core = core
        self._command = command
        self._bell = bell
        self.job = job
        self.run = run

    def settle(self) -> Result:
        """The result, once it is over."""
        self._bell.close()
        result = self._command.take()
        if result is None:
            self._core.check_open()
        assert result is not None
        return result

    def abandon(self) -> None:
        """Ends it; there will be no result."""
        self._bell.close()
        if not self._core.closed and self._command._native.result() is None:
            try:
                self._command._native.end()
            except _cordon.Error:
                pass  # it has just ended


class _InSessionEngine:
    """Starts commands of a session as if each was a run of a sandbox."""

    def __init__(self, core: SessionCore, driver: Optional[Driver]) -> None:
        self._core = core
        self._driver = driver

    def begin(self, args: RunArguments, connect: Callable[[Job], None]) -> _Started:
        self._core.check_open()
        argv = argv_of(args.cmd, args.shell)
        job = Job(cast(Any, None), argv, options={"stderr": "capture"})
        ends: List[socket.socket] = []
        bell: Optional[_Bell] = None
        try:
            connect(job)
            ends += socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            options = {"stdout": job.options["stdout"], "stderr": job.options["stderr"]}
            if args.cwd is not None:
                options["cwd"] = _arguments.path("cwd", args.cwd)
            if args.env:
                options["env"] = _arguments.variables("env", args.env)
            bell = _Bell(self._core.native.fileno())
            command = self._core.exec(argv, channel_fd=ends[1].fileno(), **options)
            ends[1].close()
            channel = ends[0].detach()
            job.fds.append(channel)
        except BaseException:
            job.close()
            for end in ends:
                end.close()
            if bell is not None:
                bell.close()
            raise
        if self._driver is not None:
            self._driver.watch(command, bell.ring)
        return _Started(self._core, command, job, bell, _Run(self._core, command, bell, channel, self._driver))


class InSession(Front):
    """A session as the sandbox of an interpreter (``Interpreter(sandbox=)``). It is not to be used for
    anything else, and closing it does nothing: the session belongs to somebody else."""

    def __init__(self, core: SessionCore, driver: Optional[Driver] = None) -> None:
        self._engine = cast("Engine", _InSessionEngine(core, driver))
        self._core = core

    def _modules(self) -> List[str]:
        return self._core.found.modules

    def _packages(self) -> None:
        return None  # nothing is installed into these
