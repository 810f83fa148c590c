# SPDX-License-Identifier: Apache-2.0
"""Sessions that outlive the process that made them."""

from __future__ import annotations

import contextlib
import signal as signals
import subprocess
import time
from typing import (
    TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Type, TypeVar, Union, cast,
)  # fmt: skip

from . import _detached
from ._code import Content
from ._detached import Creation, Done, Order
from ._detached_inside import InDetached, Place, answered, files_order
from ._errors import ClosedError, CordonError, StateError
from ._execution import Execution
from ._fileops import FileInfo, memory_file
from ._files import Files, copy_layers, remove_layers
from ._in_session import Interpreters
from ._interpreters import find_kind
from ._interpreter import MAX_OUTPUT, Interpreter
from ._job import Callback, Command, RunArguments, Stdin, StrPath
from ._live import GRACE_SECONDS
from ._policy import Config, Policy
from ._result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fileops import Op
    from ._types import DetachedSettings, Orphans

T = TypeVar("T")
Self = TypeVar("Self", bound="DetachedFront")
PAUSES = (0.01, 0.25)  # seconds between two looks at a command: first, and at most


class DetachedFront:
    """What both kinds of detached sessions have in common."""

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__}.create() or .attach() makes one")

    @classmethod
    def _make(cls: Type[Self], name: str, policy: Optional[Policy]) -> Self:
        made = cls.__new__(cls)
        made._name = name
        made._policy = policy
        made._closed = False
        made._set_up()
        return made

    def _set_up(self) -> None:
        """What it needs besides."""

    _name: str
    _policy: Optional[Policy]
    _closed: bool

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'closed' if self._closed else self._name}>"

    @property
    def name(self) -> str:
        """The name by which others can attach."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether close() or stop() was called."""
        return self._closed

    def _open(self) -> str:
        if self._closed:
            raise ClosedError(f"this object has left session '{self._name}'", hint="attach() gives another one")
        return self._name


@contextlib.contextmanager
def _process_of(order: Order[Any]) -> Iterator["subprocess.Popen[bytes]"]:
    with contextlib.ExitStack() as stack:
        words, options = stack.enter_context(order.ready())
        try:
            process = stack.enter_context(subprocess.Popen(words, **options))
        except OSError as error:
            raise _detached.cannot_start(error) from None
        yield process


def _perform(order: Order[T]) -> T:
    """Calls the command and waits. Whatever interrupts that ends the command, and with it what it runs."""
    with _process_of(order) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    return order.finish(Done(process.returncode, out, err))


def _create(creation: Creation) -> None:
    """The same for a session, of which nothing is left if that is interrupted."""
    with _process_of(creation.order) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            # Installing may take minutes. All else is over soon, and only then can the session be ended.
            if creation.installs:
                process.send_signal(signals.SIGINT)
            process.wait()
            with contextlib.suppress(CordonError):
                _perform(_detached.stop_order(creation.name))
            raise
    creation.order.finish(Done(process.returncode, out, err))


class DetachedCommand:
    """A command that was started in a DetachedSession, by its number. It goes on without this object."""

    def __init__(self, session: "DetachedSession", number: int, limit: Optional[int] = None) -> None:
        self._session = session
        self._limit = limit
        self.number = number

    def __repr__(self) -> str:
        return f"<DetachedCommand {self.number} of {self._session.name}>"

    def wait(self, timeout: Optional[float] = None) -> Optional[Result]:
        """Waits for its end; None if ``timeout`` seconds were not enough. The result has its output as
        logs() gives it, and does not know what it used."""
        session, pause = self._session, PAUSES[0]
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            state = _detached.state_of(self.number, session._status())
            if state is not None:
                name = session._open()
                return _perform(_detached.ended_order(name, state, self._limit, session._policy))
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                return None
            time.sleep(left)
            pause = min(2 * pause, PAUSES[1])

    def logs(self) -> bytes:
        """What it has written so far; see DetachedSession.logs()."""
        return self._session.logs(self.number)

    def signal(self, number: int) -> None:
        """Sends a signal to its process group."""
        self._session.kill(self.number, number)

    def kill(self) -> None:
        """Ends it and what it started."""
        self._session.kill(self.number)


class DetachedFiles(Files):
    """The files of a detached session."""

    def __init__(self, place: Place) -> None:
        self._engine = cast(Any, place)  # of which only writable_paths() is used
        self._place = place

    def _do(self, op: "Op[T]") -> T:
        self._place.check_open()
        if op.count == 0:
            return op.finish([])
        with memory_file() as fd:
            _perform(files_order(self._place.name, op, fd))
            return answered(op, fd)


class DetachedSession(DetachedFront):
    """A session that outlives this object and this process: the same sandbox with the same commands as a
    Session, held by a process of its own. ``create()`` starts one, ``attach()`` joins one that another
    process of the same user has started, with ``cordon session start`` perhaps.

    It ends with stop(), when nothing was asked for the time ``idle``, after ``lifetime``, or when it
    reaches a limit; close() and ``with`` only leave it. Each call is one of the ``cordon`` command, with
    which other programs can use the session, too. Any number of threads can use one object.
    """

    @classmethod
    def create(
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
    ) -> "DetachedSession":
        """Starts a session. The arguments are those of Session; ``name`` is the one to attach by
        (default: a new one); ``idle`` of 0 or math.inf: it may be idle for ever. Of ``lifetime`` and
        ``max_execution_seconds`` the shorter one counts. ``packages`` are installed first. StateError if
        the name is in use."""
        creation = _detached.creation(
            config, name, workdir, env, idle, lifetime, program, cast(Dict[str, Any], settings)
        )
        _create(creation)
        return cls._make(creation.name, creation.policy)

    @classmethod
    def attach(cls, name: str) -> "DetachedSession":
        """Joins a session of this user; StateError if there is none of this name."""
        _perform(_detached.status_order(name, StateError))
        return cls._make(name, None)

    @classmethod
    def list(cls) -> List[Dict[str, Any]]:
        """The sessions of this user, as ``cordon ps --json`` prints them (without its runs)."""
        return _perform(_detached.list_order())

    def _set_up(self) -> None:
        place = self._place = Place(self._name, self._policy, _perform)
        place.watch(self._open)
        self._interpreters: Interpreters[Interpreter] = Interpreters(
            cast(Any, place), Interpreter, lambda env: InDetached(place, env), lambda name: InDetached(place, None, name)
        )
        #: Its files, with the rights of a command; see Files.
        self.files = DetachedFiles(place)

    def __enter__(self) -> "DetachedSession":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _status(self) -> Dict[str, Any]:
        return _perform(_detached.status_order(self._open()))

    def exec(
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
        """Runs a command and waits for its end; see Session.exec(). An exception meanwhile, such as
        KeyboardInterrupt, ends it. If this process is killed, it goes on: give a ``timeout``. ``merge``
        needs a shell inside, ``/bin/sh``."""
        args = RunArguments(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans,
        )  # fmt: skip
        result = _perform(_detached.exec_order(self._open(), args, self._policy))
        return result.raise_for_status() if check else result

    def start(
        self,
        cmd: Command,
        *,
        shell: Optional[str] = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        orphans: "Orphans" = "keep",
    ) -> DetachedCommand:
        """Starts a command that goes on without this process. It has no input; its output is merged and
        kept for logs()."""
        args = RunArguments(
            cmd, shell=shell, cwd=cwd, env=env, timeout=timeout, max_output=max_output, orphans=orphans
        )
        number = _perform(_detached.start_order(self._open(), args))
        return DetachedCommand(self, number, _detached.output_limit(args))

    def command(self, number: int) -> DetachedCommand:
        """A command that start() has started before, perhaps in another process."""
        return DetachedCommand(self, _detached.check_number(number))

    def logs(self, number: int) -> bytes:
        """What a command that was started has written so far. Of more than 1 MiB the first and the last
        half are kept, and of commands that are over the last 32."""
        return _perform(_detached.logs_order(self._open(), number))

    def ps(self) -> List[Dict[str, Any]]:
        """The commands: ``number``, ``command``, ``detached``, ``running``, ``age_ms``; of those that are
        over also ``kind`` and ``status``."""
        return cast(List[Dict[str, Any]], self._status()["commands"])

    def kill(self, number: int, signal: int = signals.SIGKILL) -> None:
        """Ends a command and what it started, or sends it another signal."""
        _perform(_detached.kill_order(self._open(), number, signal))

    def interpreter(
        self,
        language: str = "python",
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> Interpreter:
        """An interpreter in the session, as that of a Session. It is this process's: it ends with its close(),
        with close() of this object, with this process or with the session."""
        self._open()
        return self._interpreters.make(language, env, cwd=cwd, max_output=max_output, grace=grace)

    def execute(
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
        return interpreter.execute(code, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)

    def close_interpreter(self, language: str = "python") -> None:
        """Ends the interpreter that execute() keeps for a language; the next execute() has a fresh one. It ends for all who
        use it."""
        self._open()
        kept = self._interpreters.take_kept(language)
        if kept is not None:
            kept.close()
        number = _detached.number_of(find_kind(language).name, self._status())
        if number is not None:
            self.kill(number)

    def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all commands from now on, of all clients, and for code of its
        interpreters, but for an interpreter() of another object; see Session.install(). Two installations at
        the same time: the later one counts."""
        place = self._place
        home = place.home_of(_perform(place.ask_home()))
        found = place.find_packages(packages, build_packages)
        running = [self._interpreters.kept(name) for name in _detached.interpreters_of(self._status())]
        for one in running:
            one.start()  # what they are told is what comes later
        copies = place.found.missing(found, home)
        copy_layers(self.files, copies)
        try:
            values = _perform(place.ask_values(found, copies))
            _perform(place.set_values(found, copies, values))
        except BaseException:
            remove_layers(self.files, copies)
            raise
        place.use_packages(found, copies, values)
        for one in running:
            one.start()

    def put(self, host_path: StrPath, path: StrPath) -> None:
        """Copies a file of the host into the session."""
        _perform(_detached.put_order(self._open(), host_path, path))

    def get(self, path: StrPath, host_path: StrPath) -> None:
        """Copies a file of the session to the host: a new one, in the place of an old one."""
        _perform(_detached.get_order(self._open(), path, host_path))

    def ls(self, path: StrPath = ".") -> List[FileInfo]:
        """What is in a directory. Where links lead is not told."""
        return _perform(_detached.ls_order(self._open(), path))

    def pause(self) -> None:
        """Stops every process of the session. No command can be started until resume()."""
        _perform(_detached.simple_order("pause", self._open()))

    def resume(self) -> None:
        """Lets them go on."""
        _perform(_detached.simple_order("resume", self._open()))

    def usage(self) -> Dict[str, Any]:
        """What the session uses now: memory_bytes, tasks, cpu_ms, uptime_ms, commands, paused."""
        return _detached.usage_of(self._status())

    def stop(self) -> Dict[str, Any]:
        """Ends the session for all who use it: SIGTERM, and SIGKILL when the grace is over. Its receipt,
        in which ``session`` says by what it was ended."""
        receipt = _perform(_detached.stop_order(self._open()))
        self.close()
        return receipt

    def close(self) -> None:
        """Leaves the session, which goes on; interpreters of this object end. Later calls raise ClosedError;
        closing twice is fine."""
        self._closed = True
        for one in self._interpreters.all():
            one.close()
