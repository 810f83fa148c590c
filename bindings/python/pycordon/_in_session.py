# SPDX-License-Identifier: Apache-2.0
"""An interpreter as a command of a session: it shares files, processes and the network inside with the
session's other commands.

An interpreter expects a sandbox whose engine starts runs. The engine here starts commands of a session
instead. A session has one descriptor for all its events, and several threads may handle them: the one that
waits for an interpreter's answer, and one that waits for another command. Each can handle an event that the
other waits for. So an interpreter has a descriptor of its own to wait for, which becomes readable with the
session's, and when another thread has noticed that its command is over (see _watchers.py).
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, cast,
)  # fmt: skip

from . import _arguments, _cordon
from ._errors import CordonError, StateError, UnsupportedError
from ._front import Front
from ._interpreters import find_kind
from ._job import Job, RunArguments, argv_of
from ._result import Result
from ._watchers import Bell

if TYPE_CHECKING:
    from ._detached_inside import Place
    from ._engine import Engine
    from ._interpreter import InterpreterFront
    from ._session_core import SessionCommand, SessionCore
    from ._watchers import Entry

I = TypeVar("I", bound="InterpreterFront")  # noqa: E741


class _Run:
    """A command of a session, as the part of a run's interface that interpreters use."""

    def __init__(self, core: "SessionCore", command: "SessionCommand", bell: Bell, channel: int) -> None:
        self._core = core
        self._command = command
        self._bell = bell
        self._channel = channel

    def fileno(self) -> int:
        return self._bell.fileno()

    def channel(self) -> int:
        return self._channel

    def process(self) -> bool:
        """Whether it is over."""
        with suppress(CordonError):  # then the session is over
            self._core.process()
        return self._core.is_over or self._command._native.result() is not None

    def signal(self, number: int) -> None:
        self._command._native.signal(number)

    def cancel(self) -> None:
        if not self._core.closed:
            self._command._native.end()


class _Started:
    """It goes on; see Started."""

    def __init__(
        self, core: "SessionCore", command: "SessionCommand", job: Job, bell: Bell, run: _Run, watcher: "Entry"
    ) -> None:
        self._watcher = watcher
        self._core = core
        self._command = command
        self._bell = bell
        self.job = job
        self.run = run

    def settle(self) -> Result:
        """The result, once it is over."""
        self._core.watchers.discard(self._watcher)
        self._bell.close()
        result = self._command.take()
        if result is None:
            self._core.check_open()
            raise StateError("the session is over")
        return result

    def abandon(self) -> None:
        """Ends it; there will be no result."""
        self._core.watchers.discard(self._watcher)
        self._bell.close()
        if not self._core.closed and self._command._native.result() is None:
            try:
                self._command._native.end()
            except _cordon.Error:
                pass  # it has just ended


class _InSessionEngine:
    """Starts commands of a session as if each was a run of a sandbox."""

    def __init__(self, core: "SessionCore", env: Optional[Mapping[str, str]]) -> None:
        self._core = core
        self._env = _arguments.variables("env", env)

    def begin(self, args: RunArguments, connect: Callable[[Job], None]) -> _Started:
        self._core.check_open()
        argv = argv_of(args.cmd, args.shell)
        job = Job(cast(Any, None), argv, options={"stderr": "capture"})
        ends: List[socket.socket] = []
        bell: Optional[Bell] = None
        try:
            connect(job)
            ends += socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            options = {"stdout": job.options["stdout"], "stderr": job.options["stderr"]}
            options["image"] = "image_fd" in job.options  # which the session was started with
            if args.cwd is not None:
                options["cwd"] = _arguments.path("cwd", args.cwd)
            if self._env:
                options["env"] = self._env
            bell = Bell(self._core.fd)
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
        watcher = self._core.watchers.add(command, bell.ring)
        run = _Run(self._core, command, bell, channel)
        return _Started(self._core, command, job, bell, run, watcher)


    def check_quiet(self, run: object) -> None:
        """StateError if anything runs but the interpreter itself."""
        self._core.check_alone(1)

    def memory_bytes(self) -> int:
        """limits.memory, of the session as a whole; 0: none."""
        return self._core.engine.memory_bytes()


class InSession(Front):
    """A session as the sandbox of an interpreter (``Interpreter(sandbox=)``). It is not to be used for
    anything else, and closing it does nothing: the session belongs to somebody else. ``check`` raises what an
    interpreter raises that was ended with its session; without it, the account says that it ended."""

    def __init__(
        self,
        core: "SessionCore",
        env: Optional[Mapping[str, str]] = None,
        check: Optional[Callable[[], None]] = None,
    ) -> None:
        self._engine = cast("Engine", _InSessionEngine(core, env))
        self._core = core
        self._check = check

    def _modules(self) -> List[str]:
        return self._core.given.found.modules

    def _packages(self) -> None:
        return None  # the session has them

    def _python(self) -> str:
        return self._core.python()

    def _updates(self) -> Sequence[Tuple[Mapping[str, str], List[str]]]:
        return self._core.given.updates

    def _check_there(self) -> None:
        if self._check is not None:
            self._check()

    def _check_own(self, what: str, instead: str) -> None:
        raise UnsupportedError(f"an interpreter of a session {what}", hint=instead)


class Interpreters(Generic[I]):
    """The interpreters of one session. ``make`` makes one for a language, a sandbox and other arguments,
    ``inside`` that sandbox, ``shared`` that of the one of a language which execute() uses, if that is the
    session's own."""

    def __init__(
        self,
        core: "Union[SessionCore, Place]",
        make: Callable[..., I],
        inside: "Optional[Callable[[Optional[Mapping[str, str]]], Front]]" = None,
        shared: "Optional[Callable[[str], Front]]" = None,
    ) -> None:
        self._core = core
        self._make = make
        self._inside = inside or (lambda env: InSession(cast("SessionCore", core), env, core.check_open))
        self._shared = shared
        self._lock = threading.Lock()
        self._all: List[I] = []
        self._kept: Dict[str, I] = {}

    def make(self, language: str, env: Optional[Mapping[str, str]] = None, **arguments: Any) -> I:
        """A new one, which starts with its first call."""
        return self._add(language, self._inside(env), **arguments)

    def _add(self, language: str, sandbox: Front, **arguments: Any) -> I:
        self._core.check_open()
        made = self._make(language, sandbox=sandbox, **arguments)
        with self._lock:
            self._all = [*(one for one in self._all if not one.closed), made]
        return made

    def kept(self, language: str) -> I:
        """The one of a language that execute() uses."""
        name = find_kind(language).name
        self._core.check_open()
        with self._lock:
            found = self._kept.get(name)
        if found is not None:
            return found
        made = self.make(name) if self._shared is None else self._add(name, self._shared(name))
        with self._lock:
            return self._kept.setdefault(name, made)

    def with_state(self, language: str) -> Optional[I]:
        """The one that execute() uses, if it has a state, or had one whose loss was not told yet."""
        with self._lock:
            found = self._kept.get(language)
        return found if found is not None and (found._has_state or found._reason) else None

    def take_kept(self, language: str) -> Optional[I]:
        """The same, for a caller that closes it: the next execute() makes another one."""
        name = find_kind(language).name
        self._core.check_open()
        with self._lock:
            return self._kept.pop(name, None)

    def all(self) -> List[I]:
        """Those that were not closed."""
        with self._lock:
            return [one for one in self._all if not one.closed]
