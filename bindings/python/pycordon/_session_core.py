# SPDX-License-Identifier: Apache-2.0
"""A session without the waiting: several commands in one sandbox, which lives as long as its object."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union,
)  # fmt: skip

from . import _arguments, _cordon, _keys
from ._engine import Engine
from ._errors import ClosedError, CordonError, StateError, make_error, raise_native
from ._front import Front
from ._hints import in_python
from ._job import RunArguments, StrPath, argv_of
from ._native import launcher
from ._packages import Packages, before, install_more
from ._policy import Config, from_document
from ._python import interpreter
from ._result import Published, Result, from_receipt
from ._session_state import Beginning, Given, Packed, check_alone, check_files, when_forgotten
from ._snapshot import Snapshot
from ._tighten import inside
from ._view import View, own_home
from ._watchers import Bell, Watchers

if TYPE_CHECKING:
    from ._branch import Files as FilesOfFork
    from ._fileops import Op
    from ._image import Image
    from ._policy import Policy

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
        persist: bool = False,
    ) -> None:
        engine = Front(config, workdir=workdir, persist=persist, env=env, **settings)._engine
        if persist:  # its commands start at home, as without
            engine = Engine(replace(engine.settings, private_workdir=False))
        argv = None if program is None else [os.fspath(program)]
        self._begin(engine, argv, home, Beginning(Given.from_start(engine.settings.packages)))

    def _begin(self, engine: Engine, argv: Optional[List[str]], home: Optional[str], first: Beginning) -> None:
        self.engine = engine
        self.policy: "Policy" = engine.settings.policy
        self._base_dir = engine.settings.base_dir
        self.writable_paths = engine.writable_paths
        self.given = first.given  # their layers are in use as long as this object
        self._view: Optional[View] = None
        self.watchers = Watchers()
        self._adding = threading.Lock()
        options = engine.settings.launch_options()
        if home is not None:
            options["home"] = home
        for key, option in (("limits.wall", "wall_ms"), ("limits.memory", "memory_bytes")):
            if key in self.policy.unlimited:
                options[option] = -1
        self._options, self._argv, self._home = options, argv, home
        self._start(first.image)
        self.fd = self.native.fileno()
        self.closed = self.is_paused = False
        self._gate = threading.Condition()
        self._asking = threading.Lock()  # one usage() at a time: the next forgets the answer
        self._at_work = 0  # threads that handle events
        self._starting = threading.RLock()  # while its files are copied no command is started
        self._finalizer = when_forgotten(self) if engine.settings.persist else None

    def _start(self, image: "Optional[Image]") -> None:
        engine, options = self.engine, dict(self._options)
        if engine.settings.persist:  # not what a plan is asked for: to that it would be one of the host's
            options["private_dir"] = engine.private.path_for(engine.private.open(), self.policy)
        has_workspace = "fs.workspace" in self.policy.effective()
        if has_workspace:
            options["workspace_name"] = engine.runs.workspace.find_name()
        if image is not None:
            options["image_fd"] = image.lend()
        try:
            self.native = launcher().session(engine.policies.native(self.policy), self._argv, **options)
        except _cordon.Error as error:
            engine.shut(remove=False)
            raise_native(error)
        finally:
            if image is not None:
                os.close(options["image_fd"])
        if has_workspace:
            engine.runs.workspace.has_begun(self.native.workspace())

    # --- forks and snapshots -----------------------------------------------------------------------

    def check_alone(self, expected: int) -> None:
        """StateError unless nothing but so many commands runs."""
        check_alone(self, expected)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Nothing in it runs meanwhile, and no command is started."""
        with self._starting:
            was_paused = self.is_paused
            if not was_paused:
                self.order("pause")
            try:
                self.order("usage")  # its answer comes after the pause has begun
                yield
            finally:
                if not was_paused and not self.is_over:
                    self.order("resume")

    def copies(self, n: int) -> "List[FilesOfFork]":
        """Its files as they are at one moment, for each fork."""
        made: "List[FilesOfFork]" = []
        try:
            with self.at_rest():
                for _ in range(n):
                    made.append(self.engine.copy_files(self.native))
        except BaseException:
            for files in made:
                files.remove()
            raise
        return made

    def branch(self, files: "FilesOfFork", image: "Optional[Image]", known: int) -> "SessionCore":
        """A session like this one with such files. ``known``: of the packages, how many the image knows."""
        first = Beginning(self.given.copy(None if image is None else known), image)
        core = SessionCore.__new__(SessionCore)
        core._begin(self.engine.branch(files), self._argv, self._home, first)
        return core

    def snapshot(self, name: Optional[str], packed: Packed) -> Snapshot:
        """A copy of the private files."""
        self.check_open()
        check_files(self.engine)
        with self.at_rest():
            made = self.engine.snapshot(name)
        packed.note(made, self.given)
        return made

    def restored(self, which: Union[Snapshot, str], packed: Packed) -> "SessionCore":
        """Ends this session. One in its place, with the files of a snapshot."""
        self.check_open()
        check_files(self.engine)
        given = packed.of(self.engine.find_snapshot(which), self.given)
        self._end(0)
        try:
            self.engine.restore(which)
        except BaseException:
            self.engine.shut(remove=False)
            raise
        core = SessionCore.__new__(SessionCore)
        core._begin(self.engine, self._argv, self._home, Beginning(given))
        return core

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
            is_over = True  # even if this fails: waiting threads have to be released
            try:
                is_over = self.native.process()
            except _cordon.Error as error:
                raise_native(error)
            finally:
                self._end_work(is_over)
        return self.is_over

    def _begin_work(self) -> bool:
        """Whether this thread may handle events. Once close() has begun, it alone handles the session's end."""
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
        variables = self.given.variables
        if variables and not options.get("files"):
            options["env"] = {**variables, **options.get("env", {})}
        with self._starting:
            try:
                return SessionCommand(self, self.native.exec(argv, **options), merged)
            except _cordon.Error as error:
                self.check_open()  # it was closed meanwhile
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
        view, given = self._planned(), self.given
        with self._adding:
            for name, value in given.found.variables(packages, copies).items():
                given.variables[name] = before(value, given.variables.get(name) or view.env.get(name))
            update = (given.found.variables(packages, copies), given.found.modules)
            given.found.add(packages, copies)
            given.updates = [*given.updates, update]

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
                answer = getattr(self.native, name)()
            except _cordon.Error as error:
                raise_native(error)
            finally:
                self._end_work()
            if name != "usage":
                self.is_paused = name == "pause"
            return answer

    def close(self, signal: int = 0) -> None:
        """Ends the session, and removes its files."""
        try:
            self._end(signal)
        finally:
            self.engine.shut(remove=False)

    def _end(self, signal: int) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
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
