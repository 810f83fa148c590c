# SPDX-License-Identifier: Apache-2.0
"""Interpreters with state, for programs that wait in the caller's thread.

Such a thing is called a kernel where notebooks are. Here that word means Linux.
"""

from __future__ import annotations

import json
import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union, cast, overload

from . import _arguments
from ._code import Content
from ._errors import ClosedError, SetupError, StateError, SystemCallError, UsageError
from ._execution import Execution
from ._files import Files, copy_layers, remove_layers
from ._image import FORKS_MAX, FREEZE_SECONDS, Image, check_engine, check_kind, freezer
from ._interpreters import find_kind
from ._job import Callback, RunArguments, StrPath
from ._live import GRACE_SECONDS, Live, Task, make_execution
from ._packages import Found, Packages
from ._policy import Config
from ._sandbox import Sandbox
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._branch import Files as FilesOfFork
    from ._engine import Engine
    from ._front import Front
    from ._types import InterpreterSettings

#: Bytes of each stream that an Execution keeps, and of what it displays.
MAX_OUTPUT = 64 << 20
#: Bytes of a request to an interpreter that is the session's: it waits there for its turn.
SHARED_MAX = 32 << 20
_SAID_MAX = 300  # characters of a reason that comes from inside


class Turns:
    """First come, first served; a plain lock promises no order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: "Deque[threading.Lock]" = deque()
        self._is_taken = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            mine.acquire()
        except BaseException:
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    raise
            self.__exit__()  # it had just become ours
            raise

    def take_if_free(self) -> bool:
        """Whether it is the caller's turn now, who then gives it back with __exit__()."""
        with self._lock:
            was_free, self._is_taken = not self._is_taken, True
        return was_free

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


class InterpreterFront:
    """What Interpreter and AsyncInterpreter have in common."""

    _sandbox: "Front"

    def _set_up(
        self, language: str, sandbox: "Front", owns: bool, cwd: Optional[StrPath],
        max_output: int, grace: float,
    ) -> None:  # fmt: skip
        self._kind = find_kind(language)
        self._sandbox = sandbox
        self._owns_sandbox = owns
        self._cwd = cwd
        self._limit = _arguments.whole("max_output", max_output, 1 << 16, 1 << 40)
        if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 < grace < 1e6:
            raise UsageError(f"grace: {grace!r:.40} is no number of seconds")
        self._grace = float(grace)
        self._live: Optional[Live] = None
        self._count = 0
        self._reason = ""  # why the last one ended, until the next execution tells
        self._is_closed = False
        self._is_starting = False
        self._image: Optional[Image] = None  # what it begins with, if it is a fork
        self._found = Found(None)  # packages of the one that runs
        self._first_count = 0

    @property
    def has_usual_limits(self) -> bool:
        """Whether nothing was asked for that one which was started ahead does not have."""
        return (self._limit, self._grace, self._cwd) == (MAX_OUTPUT, GRACE_SECONDS, None)

    @property
    def language(self) -> str:
        """The language of its code."""
        return self._kind.name

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._kind.name}{' closed' if self._is_closed else ''}>"

    # --- packages ----------------------------------------------------------------------------------

    def _check_installable(self) -> "Engine":
        """Whether an interpreter that runs can have more packages."""
        self._check_open()
        self._sandbox._check_own("gets no packages for itself", "install() of the session gives it some")
        engine = self._sandbox._engine
        engine.check_open()
        if not engine.settings.persist:
            raise StateError(
                "an interpreter whose files are in memory gets no packages later (a Pool's, persist=False)",
                hint="give packages= when it is made",
            )
        if self._has_state:
            engine.private.inside_copies()  # before anything is installed
        return engine

    @property
    def _has_state(self) -> bool:
        """Whether one runs, or a fork is going to. Otherwise a fresh one will see what its sandbox has."""
        return self._image is not None or (self._live is not None and not self._live.is_over)

    def _copies_for(self, engine: "Engine", packages: Packages) -> Dict[str, str]:
        return self._found.missing(packages, engine.private.inside_copies())

    def _packages_request(self, packages: Packages, copies: Mapping[str, str]) -> Tuple[str, bytes]:
        return self._kind.packages(self._found.variables(packages, copies), self._found.modules)

    def interrupt(self) -> bool:
        """Interrupts the code that runs now, as Ctrl-C does; what it has done so far is kept. False:
        nothing runs. Any thread may call it."""
        live = self._live
        task = None if live is None else live.task
        if live is None or task is None or task.kind != "exec" or live.is_done:
            return False
        live.interrupt()
        return True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the interpreter is closed")

    def _look(self, live: Optional[Live]) -> None:
        """What has become of it since its last request."""
        if live is not None and not live.is_over and live.has_ended():
            self._reason = self._reason or live.why()

    def _make(self) -> Live:
        """A fresh interpreter, which has begun to start."""
        live = Live(self._kind, self._limit, self._grace, self._sandbox._is_shared)
        # What it begins with does not know of them.
        live.updates = len(self._sandbox._updates()) if self._image is None else 0
        argv = self._kind.argv(self._sandbox._modules(), self._sandbox._python())
        if self._image is None:
            self._found = Found(self._sandbox._packages())
        # A fork goes to its directory itself.
        args = RunArguments(argv, cwd=self._cwd if self._image is None else "/")
        live.start(self._sandbox._engine, args, self._image)
        return live

    def _greeted(self, live: Live) -> None:
        """It has started, or failed to."""
        task = live.task
        assert task is not None
        if task.answer is None:
            self._sandbox._check_there()
            why, said = live.why(), bytes(task.output["stderr"]).decode("utf-8", "replace").strip()
            live.close()
            raise SetupError(
                f"the {self._kind.name} interpreter did not start: {why}",
                hint=said.splitlines()[-1][:200] if said else None,
            )
        if task.answer.type == "refused":
            live.close()
            raise StateError(f"the fork did not start: {_one_line(task.answer.parts[1])}")
        live.task = None
        self._image = None
        self._live, self._count, self._first_count = live, self._first_count, 0

    # --- forks and snapshots -----------------------------------------------------------------------

    def _check_forkable(self) -> None:
        self._check_open()
        self._sandbox._check_own("cannot be forked by itself", "fork() of the session takes it along")
        check_kind(self._kind)
        check_engine(self._sandbox._engine)
        self._check_state()

    def _check_state(self) -> None:
        """StateError, once, if it has lost its state."""
        if self._reason:
            raise StateError(self._reason, hint="its state is lost; the next execute() starts a fresh one")

    def _ready_image(self) -> Optional[Image]:
        """One that exists already."""
        live = self._live
        return self._image if live is None else live.image

    def _begin_freezing(self, live: Live) -> Tuple[Task, bytes]:
        """What is asked for an image: a task, whose answer _frozen() takes."""
        engine = self._sandbox._engine
        engine.check_quiet(live.run)
        task = self._new_task("freeze", FREEZE_SECONDS, {})
        task.image = Image()
        task.image_most = Image.most(engine.memory_bytes())
        return task, b"" if live.can_freeze else freezer()

    def _frozen(self, live: Live, task: Task) -> Image:
        answer = task.answer
        if answer is None:
            self._reason = live.why()
        live.task = None
        if answer is None:
            raise StateError(self._reason, hint="its state is lost; the next execute() starts a fresh one")
        assert task.image is not None
        try:
            live.end_freezing()
        except OSError as error:
            raise SystemCallError(
                f"the memory of the interpreter cannot be kept: {error.strerror}", errno=error.errno or 0
            ) from None
        if answer.type == "refused" or not task.has_image:
            why = _one_line(answer.parts[1]) if answer.type == "refused" else "it sent nothing"
            raise StateError(f"the interpreter cannot be forked: {why}")
        live.can_freeze = True  # not before: it may have failed to take what it needs
        task.image.seal()
        live.image = task.image
        return task.image

    def _copies(self, n: int) -> "List[FilesOfFork]":
        """The files, for each fork."""
        engine, run = self._sandbox._engine, None if self._live is None else self._live.run
        engine.runs.check_quiet(run)
        made: "List[FilesOfFork]" = []
        try:
            for _ in range(n):
                made.append(engine.copy_files(run))
        except BaseException:
            for files in made:
                files.remove()
            raise
        return made

    def _check_restore(self, snapshot: Union[Snapshot, str]) -> None:
        """What can be known before the interpreter is ended."""
        self._check_open()
        self._check_files()
        self._sandbox._engine.check_restore(snapshot, None if self._live is None else self._live.run)

    def _check_files(self) -> None:
        self._sandbox._check_own("has no files of its own for snapshots", "they are the session's")

    def _go_on_as(
        self, parent: "InterpreterFront", kind: "Type[Front]", files: "FilesOfFork", image: Image
    ) -> None:
        """A new object becomes a fork, with a sandbox of this kind."""
        sandbox = kind.__new__(kind)
        sandbox._engine = parent._sandbox._engine.branch(files)
        self._set_up(parent._kind.name, sandbox, True, parent._cwd, parent._limit, parent._grace)
        self._image, self._first_count = image, parent._count
        self._found = parent._found.copy()

    @property
    def _known_updates(self) -> int:
        """Of the packages that its session has got, how many its state knows of."""
        return 0 if self._live is None else self._live.updates

    def _go_on_from(self, parent: "InterpreterFront", image: Image) -> None:
        """One of a session becomes a fork of one in another session."""
        self._image, self._first_count = image, parent._count if parent._live else parent._first_count
        self._found = parent._found.copy()

    def _new_task(
        self, kind: str, timeout: Optional[float], callbacks: Dict[str, Optional[Callback]]
    ) -> Task:
        return Task(kind, timeout, callbacks, self._limit)

    def _payload(self, code: Content) -> bytes:
        payload = self._kind.code(code)
        if self._sandbox._is_shared and len(payload) > SHARED_MAX:
            raise UsageError(f"code: more than {SHARED_MAX >> 20} MiB", hint="put data into a file: files.write()")
        return payload

    def _executed(self, live: Live, task: Task) -> Execution:
        """The account, once the code has ended."""
        self._count += 1
        if self._sandbox._is_shared and task.answer is not None:
            self._count = task.answer.fields.get("count", self._count)
        restarted, self._reason = self._reason, ""
        execution = make_execution(live, task, restarted, self._count)
        if execution.ended:
            self._reason = execution.reason
        elif live.is_over:  # just after its answer: the next execution tells
            self._reason = live.why()
        live.task = None
        if execution.ended:
            self._sandbox._check_there()
        if task.failed is not None:
            raise task.failed
        return execution

    def _told(self, live: Live) -> "Iterator[Tuple[Task, bytes]]":
        """Packages that its session has got since it was told: requests, to be made one by one."""
        updates = self._sandbox._updates()
        fresh, live.updates = updates[live.updates :], len(updates)
        for variables, older in fresh:
            if live.is_over:
                return
            kind, payload = self._kind.packages(variables, older)
            task = self._new_task(kind, 60.0, {})
            yield task, payload
            if task.answer is None:
                self._reason = live.why()
            live.task = None

    def _answered(self, live: Live, task: Task) -> Any:
        """The value that a request other than code gives."""
        answer = task.answer
        if answer is None:
            self._reason = live.why()
        live.task = None
        if answer is None:
            self._sandbox._check_there()
            raise StateError(self._reason, hint="the next call starts a fresh one")
        if live.is_over:
            self._reason = live.why()
        if answer.type == "refused":
            name, value = (part.decode("utf-8", "replace") for part in answer.parts)
            raise (KeyError(value) if name in ("KeyError", "NameError") else UsageError(f"{name}: {value}"))
        kind = answer.fields.get("kind")
        if kind == "none" or not answer.parts:
            return None
        if kind == "bytes":
            return answer.parts[0]
        if kind == "text":
            return answer.parts[0].decode("utf-8", "surrogateescape")
        try:
            return json.loads(answer.parts[0])
        except (ValueError, RecursionError):
            raise UsageError("the value is no JSON") from None


def _one_line(said: bytes) -> str:
    """Words of the guest's, for a message."""
    text = said.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text[:_SAID_MAX])


def check_timeout(timeout: Optional[float]) -> Optional[float]:
    """Seconds, or None."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise UsageError(f"timeout: {timeout!r:.40} is no number of seconds")
    return float(timeout)


class Interpreter(InterpreterFront):
    """An interpreter in a sandbox that keeps its state from one ``execute()`` to the next.

    >>> with Interpreter("python") as python:
    ...     python.execute("x = 20")
    ...     python.execute("x + 1").text
    '21'

    ``sandbox``: one that exists, whose files and rights it has. Otherwise it has one of its own, made
    with the settings of a Sandbox and closed with it. ``grace``: seconds for code to end after an
    interrupt, before the interpreter is ended. ``max_output``: bytes of each stream, and of all that
    is displayed, in one execution. Any thread may use it; executions happen in the order of calls.
    """

    def __init__(
        self,
        language: str = "python",
        config: Config = None,
        *,
        sandbox: Optional[Sandbox] = None,
        cwd: Optional[StrPath] = None,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
        **settings: "Unpack[InterpreterSettings]",
    ) -> None:
        if sandbox is not None and (config is not None or settings):
            raise UsageError("settings belong to the sandbox", hint="give either sandbox= or settings")
        owned = sandbox is None
        if sandbox is None:
            sandbox = Sandbox(config, **cast(Dict[str, Any], settings))
        self._set_up(language, sandbox, owned, cwd, max_output, grace)
        self._turns = Turns()

    def __enter__(self) -> "Interpreter":
        return self

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that it runs in. That of a fork, or one that was made for it, is closed with it."""
        self._sandbox._check_own("has no sandbox of its own", "its files are those of the session")
        return cast(Sandbox, self._sandbox)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def execute(
        self,
        code: Content,
        *,
        timeout: Optional[float] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
    ) -> Execution:
        """Runs code where the code before it has left off, and waits for its end.

        ``timeout``: seconds until it is interrupted; if that does not help, the interpreter is ended
        and the next call starts a fresh one. ``on_stdout`` and ``on_stderr`` get bytes as they come.
        """
        payload, seconds = self._payload(code), check_timeout(timeout)
        _arguments.callback("on_stdout", on_stdout)
        _arguments.callback("on_stderr", on_stderr)
        with self._turns:
            live = self._ready()
            task = self._new_task("exec", seconds, {"stdout": on_stdout, "stderr": on_stderr})
            self._do(live, task, payload)
            return self._executed(live, task)

    def set_vars(self, variables: Mapping[str, Any]) -> None:
        """Sets variables: what JSON can say; in Python bytes, too; in bash words and lists of them."""
        payload = self._kind.variables(variables)
        with self._turns:
            self._ask("set", payload)

    def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for the code from now on, without a restart: ``install("pandas==2.2.0",
        "npm:lodash@4")``. The words and the installation are as for ``packages=`` of a Sandbox
        (docs/packages.md), and the sandbox has them, too. For the interpreter that runs they are copied into
        its private home, where code can change them; OSError (ENOSPC) if they do not fit. A module that was
        imported before stays what it is. If it fails, the code finds what it found before."""
        engine = self._check_installable()
        found = engine.find_packages(packages, build_packages)
        with self._turns:
            self._check_open()
            if self._has_state:
                self._ready()
                files, copies = Files(engine, in_home=True), self._copies_for(engine, found)
                files._follow(engine.room(list(copies)))
                copy_layers(files, copies)
                try:
                    self._ask(*self._packages_request(found, copies))
                except BaseException:
                    remove_layers(files, copies)
                    raise
                self._found.add(found, copies)
            engine.add_packages(found)

    def get_var(self, name: str) -> Any:
        """The value of a variable, if JSON can say it (Python: or bytes; bash: the text). KeyError:
        there is none."""
        payload = _arguments.text("name", name).encode()
        with self._turns:
            return self._ask("get", payload)

    @overload
    def fork(self) -> "Interpreter": ...

    @overload
    def fork(self, n: int) -> "List[Interpreter]": ...

    def fork(self, n: Optional[int] = None) -> "Union[Interpreter, List[Interpreter]]":
        """An interpreter that goes on from the state of this one: variables, modules, functions, open
        files, directory, a copy of the sandbox's private files, and a branch of its workspace. ``n``: a
        list of so many. Each has a sandbox of its own with the same policy, starts with its first call,
        and is closed by itself; this one goes on as before. Python on x86_64 only.

        StateError, with nothing changed: threads or processes go on, or a descriptor cannot be
        opened again (sockets, pipes)."""
        count = 1 if n is None else _arguments.whole("n", n, 1, FORKS_MAX)
        with self._turns:
            self._check_forkable()
            image = self._ready_image() or self._freeze()
            forks: List[Interpreter] = []
            for files in self._copies(count):
                fork = Interpreter.__new__(Interpreter)
                fork._go_on_as(self, Sandbox, files, image)
                fork._turns = Turns()
                forks.append(fork)
        return forks[0] if n is None else forks

    def _image_for_session(self) -> Image:
        """What forks of its session begin with. The caller has the turn."""
        self._check_open()
        check_kind(self._kind)
        self._check_state()
        return self._image if self._live is None and self._image is not None else self._freeze()

    def _freeze(self) -> Image:
        live = self._ready()
        if live.image is not None:
            return live.image
        task, payload = self._begin_freezing(live)
        self._do(live, task, payload)
        return self._frozen(live, task)

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private files of its sandbox, not its memory: for that there is fork()."""
        with self._turns:
            self._check_open()
            self._check_files()
            return self._sandbox._engine.snapshot(name, None if self._live is None else self._live.run)

    def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private files what they were. It ends the interpreter; the next call starts a fresh
        one, which finds them."""
        with self._turns:
            self._check_restore(snapshot)
            self._drop()
            self._image, self._reason = None, ""
            self._sandbox._engine.restore(snapshot)

    def restart(self) -> None:
        """Ends the interpreter with everything it has started, and starts a fresh one."""
        with self._turns:
            self._check_open()
            self._drop()
            self._image, self._reason = None, ""
            self._ready()

    def start(self) -> "Interpreter":
        """Starts it now instead of at the first call. Never needed."""
        with self._turns:
            self._ready()
        return self

    def close(self) -> None:
        """Ends it, even if code runs."""
        self._is_closed = True
        live = self._live
        if live is not None:
            live.leave("it was closed")
        with self._turns:
            self._drop()
        if self._owns_sandbox:
            cast(Sandbox, self._sandbox).close()

    # --- behind it -------------------------------------------------------------------------------

    def _let_go(self) -> None:
        """Its session was closed. Code that runs notices that itself."""
        self._is_closed = True
        if self._turns.take_if_free():
            try:
                self._drop()
            finally:
                self._turns.__exit__()

    def _drop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def _ready(self) -> Live:
        """An interpreter that waits for a request."""
        self._check_open()
        live = self._live
        self._look(live)
        if live is not None and not live.is_over:
            for task, payload in self._told(live):
                self._do(live, task, payload)
            if not live.is_over:
                return live
        self._drop()
        live = self._make()
        try:
            self._wait(live)
            self._greeted(live)
            for task, payload in self._told(live):
                self._do(live, task, payload)
        except BaseException:
            live.close()
            raise
        return live

    def _ask(self, kind: str, payload: bytes) -> Any:
        live = self._ready()
        task = self._new_task(kind, 60.0, {})
        self._do(live, task, payload)
        return self._answered(live, task)

    def _do(self, live: Live, task: Task, payload: bytes) -> None:
        pause = live.quiet_at - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        live.begin(task, payload)
        try:
            self._wait(live)
        except BaseException:
            # Ctrl-C in the host is one for the code, too.
            live.stop(task)
            self._wait(live)
            live.task = None
            self._sync(live)
            raise
        self._sync(live)

    def _sync(self, live: Live) -> None:
        task, live.task = live.task, None
        if live.begin_sync() is not None:
            self._wait(live)
        live.task = task

    @staticmethod
    def _wait(live: Live) -> None:
        look = select.poll()
        known: Dict[int, int] = {}
        while not live.is_done:
            wanted = dict(live.waits())
            if wanted != known:
                for fd in known:
                    look.unregister(fd)
                for fd, events in wanted.items():
                    look.register(fd, events)
                known = wanted
            moment = live.next_time()
            left = None if moment is None else max(0.0, (moment - time.monotonic()) * 1000) + 1
            look.poll(left)
            live.step()

