# SPDX-License-Identifier: Apache-2.0
"""Sessions: several commands in one sandbox, which lives as long as its object."""

from __future__ import annotations

import json
import math
import os
import signal as signals
import threading
import time
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar, Union, cast,
)  # fmt: skip

from . import _arguments, _cordon, _fileops, _keys
from ._code import Content
from ._errors import ClosedError, CordonError, StateError, make_error, raise_native
from ._execution import Execution
from ._files import Files, copy_layers
from ._front import Front
from ._hints import in_python
from ._in_session import Interpreters
from ._interpreter import MAX_OUTPUT, Interpreter
from ._job import Callback, Command, RunArguments, Stdin, StrPath, argv_of
from ._live import GRACE_SECONDS
from ._native import launcher
from ._packages import Found, Packages, before, install_more
from ._policy import Config, from_document
from ._python import interpreter
from ._result import Published, Result, from_receipt
from ._tighten import inside
from ._view import View, own_home
from ._watchers import Bell, Watchers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fileops import Op
    from ._policy import Policy
    from ._types import Orphans, SandboxSettings

T = TypeVar("T")
_FILES_MS = 300_000
_LEAVE_SECONDS = 2.0  # for a thread that is at work on a session to be done; usage() takes one at most
_SAY_HOME = ["/bin/sh", "-c", 'printf %s "$HOME"']


def limit_of(key: str, name: str, value: Any, scale: int) -> int:
    """A limit of one command as a number, checked as the policy's own; 0: none."""
    number = _keys.magnitude(key, _keys.value_for(key, name, value))
    return 0 if number is None or math.isinf(number) else max(1, int(number * scale))


def result_of(raw: Dict[str, Any], merged: bool, policy: "Optional[Policy]", is_closed: bool) -> Result:
    """The result of a command, or the error if a protection failed."""
    if is_closed and raw["kind"] in ("cancelled", "sandbox_error"):
        raise ClosedError("the session was closed while the command ran")
    if raw["kind"] == "sandbox_error":
        error = raw.get("error") or {}
        raise make_error(
            error.get("code") or "setup",
            error.get("message") or "the sandbox failed",
            error.get("hint"),
            error.get("stage") or "outside",
            error.get("errno") or 0,
        )
    return from_receipt(raw, merged, (), policy)


class SessionCommand:
    """A command that runs in a session. It ends with this object, unless it was waited for."""

    def __init__(self, core: "SessionCore", native: _cordon.Command, merged: bool) -> None:
        self._core = core
        self._native = native
        self._merged = merged
        self._result: Optional[Result] = None

    def take(self) -> Optional[Result]:
        """Its result; None while it runs."""
        if self._result is None:
            raw = self._native.result()
            if raw is not None:
                self._result = result_of(raw, self._merged, self._core.policy, self._core.closed)
        return self._result

    @property
    def running(self) -> bool:
        """Whether it has no result yet, as far as that was noticed."""
        self._core.process()
        return self._native.result() is None

    def wait(self, timeout: Optional[float] = None) -> Optional[Result]:
        """Waits for its result; None if ``timeout`` seconds were not enough."""
        end = math.inf if timeout is None or timeout < 0 else time.monotonic() + timeout
        core, bell = self._core, Bell(self._core.fd)
        watcher = core.watchers.add(self, bell.ring)
        try:
            while not self._look() and not core.watchers.is_over:
                left = end - time.monotonic()
                if left <= 0:
                    return None
                if core.closed:
                    bell.only_ring()  # close() handles the rest
                bell.wait(left)
        finally:
            core.watchers.discard(watcher)
            bell.close()
        result = self.take()
        if result is None:
            core.check_open()
            raise StateError("the session is over")
        return result

    def _look(self) -> bool:
        """Whether it has a result, after what happened was handled."""
        try:
            self._core.process()
        except CordonError:
            if self._native.result() is None:
                raise
        return self._native.result() is not None

    def signal(self, number: int) -> None:
        """Sends a signal to its process group."""
        try:
            self._native.signal(number)
        except _cordon.Error as error:
            raise_native(error)

    def kill(self) -> None:
        """Ends it and what it started."""
        try:
            self._native.end()
        except _cordon.Error as error:
            raise_native(error)


class SessionCore:
    """A session without the waiting: Session and AsyncSession each own one."""

    def __init__(
        self,
        config: Config,
        workdir: Union[str, "os.PathLike[str]", None],
        env: Optional[Mapping[str, str]],
        program: Optional[StrPath],
        settings: Dict[str, Any],
        home: Optional[str] = None,
    ) -> None:
        front = Front(config, workdir=workdir, persist=False, env=env, **settings)
        engine = front._engine
        self.policy: "Policy" = engine.settings.policy
        self._base_dir = engine.settings.base_dir
        self.writable_paths = engine.writable_paths
        self.found = Found(engine.settings.packages)  # their layers are in use as long as this object
        self._view: Optional[View] = None
        self._variables: Dict[str, str] = {}  # of packages that came later
        #: The same one by one, with the directories of modules that there were before.
        self.updates: List[Tuple[Mapping[str, str], List[str]]] = []
        self.watchers = Watchers()
        self._adding = threading.Lock()
        options = engine.settings.launch_options()
        if home is not None:
            options["home"] = home
        for key, option in (("limits.wall", "wall_ms"), ("limits.memory", "memory_bytes")):
            if key in self.policy.unlimited:
                options[option] = -1
        argv = None if program is None else [os.fspath(program)]
        self._options, self._argv = options, argv
        try:
            self.native = launcher().session(engine.policies.native(self.policy), argv, **options)
        except _cordon.Error as error:
            raise_native(error)
        self.fd = self.native.fileno()
        self.closed = False
        self._gate = threading.Condition()
        self._asking = threading.Lock()  # one usage() at a time: the next forgets the answer
        self._at_work = 0  # threads that handle events

    def check_open(self) -> None:
        """ClosedError after close()."""
        if self.closed:
            raise ClosedError("the session is closed")

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or is over by itself, as far as that was noticed."""
        return self.closed or self.watchers.is_over

    def process(self) -> bool:
        """Handles what happened, and tells those who wait for it. Whether the session is over."""
        if self._begin_work():
            is_over = True  # also if this fails: nobody must wait for ever
            try:
                is_over = self.native.process()
            except _cordon.Error as error:
                raise_native(error)
            finally:
                self._end_work(is_over)
        return self.is_over

    def _begin_work(self) -> bool:
        """Whether this thread may handle events. Once close() does, the session's end is for nobody else."""
        with self._gate:
            self._at_work += not self.closed
            return not self.closed

    def _end_work(self, is_over: bool = False) -> None:
        with self._gate:
            self._at_work -= 1
            self._gate.notify_all()
        self.watchers.look(is_over)

    def start(self, args: RunArguments) -> SessionCommand:
        """Starts a command."""
        self.check_open()
        options: Dict[str, Any] = {"stdin": args.stdin_for_library()}
        if args.timeout is not None:
            options["wall_ms"] = limit_of("limits.wall", "timeout", args.timeout, 1000)
        if args.max_output is not None:
            options["output_bytes"] = limit_of("limits.output", "max_output", args.max_output, 1)
        if args.env:
            options["env"] = _arguments.variables("env", args.env)
        if args.cwd is not None:
            options["cwd"] = os.fspath(args.cwd)
        options["stderr"] = "join" if args.merge else "capture"
        options["keep"] = args.orphans == "keep"
        return self.exec(argv_of(args.cmd, args.shell), args.merge, **options)

    def exec(self, argv: List[str], merged: bool = False, **options: Any) -> SessionCommand:
        """The same, as the library takes it."""
        self.check_open()
        if self._variables and not options.get("files"):
            options["env"] = {**self._variables, **options.get("env", {})}
        try:
            return SessionCommand(self, self.native.exec(argv, **options), merged)
        except _cordon.Error as error:
            raise_native(error)

    def start_files(self, op: "Op[Any]", fd: int) -> SessionCommand:
        """Starts the file server for one operation; its answers go to ``fd``."""
        return self.exec(["files"], files=True, stdin=op.request, stdout=fd, wall_ms=_FILES_MS)

    # --- packages for a session that goes on -------------------------------------------------------

    def find_packages(
        self, packages: Tuple[object, ...], may_build: bool, line: Optional[Callable[[str], object]] = None
    ) -> Packages:
        """Finds or installs more packages; the session does not see them yet."""
        self.check_open()
        return install_more(packages, self.policy, may_build, line, self._base_dir)

    def _planned(self) -> View:
        """What its commands see."""
        if self._view is None:
            doc = {key: value for key, value in self.policy.effective().items() if key != "commands"}
            policy = from_document(doc, self.policy.unlimited).native(self._base_dir)
            try:
                text = launcher().plan(policy, self._argv or ["/bin/sh"], **self._options)
            except _cordon.Error as error:
                raise_native(error)
            self._view = View.from_plan(json.loads(text))
        return self._view

    def ask_home(self) -> Optional[SessionCommand]:
        """A command whose result home_for_copies() needs; None: it needs none."""
        return self.exec(_SAY_HOME) if self._planned().level == "landlock" else None

    def home_for_copies(self, said: Optional[Result]) -> str:
        """The home directory inside. At level landlock its name is new for each session. What commands say
        is only used inside."""
        view = self._planned()
        if said is None:
            return own_home(view.home, view)
        if not said.ok or not said.stdout.startswith("/"):
            raise StateError("the session's home directory cannot be found", hint=said.explain() or None)
        return own_home(said.stdout, view)

    def use_packages(self, packages: Packages, copies: Mapping[str, str]) -> None:
        """Later commands find them first."""
        view = self._planned()
        with self._adding:
            for name, value in self.found.variables(packages, copies).items():
                self._variables[name] = before(value, self._variables.get(name) or view.env.get(name))
            update = (self.found.variables(packages, copies), self.found.modules)
            self.found.add(packages, copies)
            self.updates = [*self.updates, update]

    def python(self) -> str:
        """The Python of its interpreters: this program's own if commands see that, else the one in PATH."""
        ours = interpreter()
        if ours is None or self._argv == [ours]:
            return ours or "python3"
        shown = self._planned().shown
        return ours if inside(os.path.dirname(ours), shown) and inside(ours, shown) else "python3"

    def order(self, name: str) -> Any:
        """pause, resume or usage."""
        with self._asking:
            if not self._begin_work():  # usage() handles events
                self.check_open()
            try:
                return getattr(self.native, name)()
            except _cordon.Error as error:
                raise_native(error)
            finally:
                self._end_work()

    def close(self, signal: int = 0) -> None:
        """Ends the session."""
        with self._gate:
            if self.closed:
                return
            self.closed = True
            self._gate.wait_for(lambda: self._at_work == 0, _LEAVE_SECONDS)
        try:
            self.native.close(signal)
        except _cordon.Error as error:
            raise_native(error)
        finally:
            self.watchers.look(True)

    def published(self) -> Tuple[Published, ...]:
        """Ports inside that the host can reach (``net_publish``)."""
        self.check_open()
        return tuple(Published(a, p, h, i) for a, p, h, i in self.native.published())

    def notes(self) -> Tuple[str, ...]:
        """Remarks worth showing to a person."""
        self.check_open()
        return tuple(in_python(note) or "" for note in self.native.notes())

    def receipt(self) -> Optional[Dict[str, Any]]:
        """The account of the session as a whole; None while it goes on."""
        return self.native.result()


class SessionFiles(Files):
    """The files of a session, with the rights of a command; see Files."""

    def __init__(self, core: SessionCore) -> None:
        self._engine = cast(Any, core)  # of which only writable_paths() is used
        self._core = core

    def _do(self, op: "Op[T]") -> T:
        if op.count == 0:
            return op.finish([])
        with _fileops.memory_file() as fd:
            result = self._core.start_files(op, fd).wait()
            assert result is not None
            answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)


class Session:
    """Several commands in one sandbox: they share files, processes and network, so one can start a
    server and the next connect to it.

    ``config``, ``workdir``, ``env`` and ``settings`` are those of Sandbox, and hold for the session
    as a whole: ``max_execution_seconds`` is how long it may live (default: no limit), reaching the
    limit of memory or CPU time, or in a workspace of disk, ends it. ``program``: its installation can
    be used by commands.

    It starts at once, and ends with close(), with this object or with this process. Its commands, and the
    code of its interpreters (execute(), interpreter()), are one guest. It can be used by any number of threads, and as a context manager.
    """

    def __init__(
        self,
        config: Config = None,
        *,
        workdir: Union[str, "os.PathLike[str]", None] = None,
        env: Optional[Mapping[str, str]] = None,
        program: Optional[StrPath] = None,
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        self._core = SessionCore(config, workdir, env, program, cast(Dict[str, Any], settings))
        self._interpreters: Interpreters[Interpreter] = Interpreters(self._core, Interpreter)
        self.files = SessionFiles(self._core)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def start(
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
    ) -> SessionCommand:
        """Starts a command and does not wait for it. The arguments are those of exec()."""
        return self._core.start(
            RunArguments(
                cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
                max_output=max_output, merge=merge, orphans=orphans,
            )
        )  # fmt: skip

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
        """Runs a command and waits for its end. A string is run by a shell, a sequence is the program
        and its arguments; it is looked for in the PATH inside. ``cwd`` is a directory inside.
        ``timeout`` ends this command alone. ``orphans``: what it leaves running goes on in the
        session ("keep"), or ends with it ("kill"). ``check``: RunError unless it succeeds."""
        command = self.start(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans,
        )  # fmt: skip
        result = command.wait()
        assert result is not None
        return result.raise_for_status() if check else result

    def interpreter(
        self,
        language: str = "python",
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> Interpreter:
        """An interpreter in the session: it shares files, processes and network with the commands and with
        other interpreters, of which there may be any number. It ends with its close(), or with the session.
        The arguments are those of Interpreter; ``env``: variables. It has no fork(), snapshot() and
        install() of its own: packages come with the session's install()."""
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
        """Runs code where the code before it has left off, in an interpreter of the session that is kept for
        each language; see Interpreter.execute(). ``language``: python, javascript or bash. While the session
        is paused, it waits, and time goes on. ClosedError if the session is closed meanwhile."""
        interpreter = self._interpreters.kept(language)
        return interpreter.execute(code, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr)

    def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all commands from now on, and for code of its interpreters, also of those
        that run: ``install("pandas==2.2.0", "npm:lodash@4")``. The
        words and the installation are as for ``packages=`` of a Sandbox (docs/packages.md). What is installed
        is copied into the session's private home, where commands can change it. OSError (ENOSPC) if it does
        not fit. If it fails, commands find what they found before."""
        core = self._core
        core.check_open()
        asked = core.ask_home()
        home = core.home_for_copies(None if asked is None else asked.wait())
        found = core.find_packages(packages, build_packages)
        copies = core.found.missing(found, home)
        copy_layers(self.files, copies)
        core.use_packages(found, copies)

    def put(self, host_path: StrPath, path: StrPath) -> None:
        """Copies a file of the host into the session."""
        self.files.put(host_path, path)

    def get(self, path: StrPath, host_path: StrPath) -> None:
        """Copies a file of the session to the host."""
        self.files.get(path, host_path)

    def ls(self, path: StrPath = ".") -> List[_fileops.FileInfo]:
        """What is in a directory."""
        return self.files.list(path)

    def pause(self) -> None:
        """Stops every process of the session. No command can be started until resume()."""
        self._core.order("pause")

    def resume(self) -> None:
        """Lets them go on."""
        self._core.order("resume")

    def usage(self) -> Dict[str, Any]:
        """What the session uses now: memory_bytes, tasks, cpu_ms, uptime_ms, commands, paused."""
        return cast(Dict[str, Any], self._core.order("usage"))

    def published(self) -> Tuple[Published, ...]:
        """Ports inside that the host can reach (``net_publish``)."""
        return self._core.published()

    def stop(self) -> Optional[Dict[str, Any]]:
        """Ends the session: SIGTERM, and SIGKILL when the grace is over. Its receipt."""
        self._close(signals.SIGTERM)
        return self._core.receipt()

    def close(self) -> None:
        """Ends the session at once. Later calls raise ClosedError; closing twice is fine."""
        self._close()

    def _close(self, signal: int = 0) -> None:
        try:
            self._core.close(signal)
        finally:
            for one in self._interpreters.all():
                one._let_go()
