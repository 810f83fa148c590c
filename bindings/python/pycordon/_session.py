# SPDX-License-Identifier: Apache-2.0
"""Sessions: several commands in one sandbox, which lives as long as its object."""

from __future__ import annotations

import signal as signals
from typing import (
    TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, TypeVar, Union, cast, overload,
)  # fmt: skip

from . import _arguments, _fileops
from ._code import Content
from ._errors import ClosedError
from ._execution import Execution
from ._files import Files, copy_layers
from ._image import FORKS_MAX
from ._in_session import Interpreters
from ._interpreter import MAX_OUTPUT, Interpreter
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


class SessionFiles(Files):
    """The files of a session, with the rights of a command; see Files."""

    def __init__(self, core: SessionCore) -> None:
        self._use(core)

    def _use(self, core: SessionCore) -> None:
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
    be used by commands. ``persist``: its private /tmp and home lie on disk, until it is closed, so that there
    can be forks and snapshots; then the limit of disk ends the session, too. Otherwise they are in memory.

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
        persist: bool = False,
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        self._set_up(
            SessionCore(config, workdir, env, program, cast(Dict[str, Any], settings), persist=persist)
        )
        self._packed = Packed()
        self.files = SessionFiles(self._core)

    _was_closed = False

    def _set_up(self, core: SessionCore) -> None:
        self._core = core
        self._interpreters: Interpreters[Interpreter] = Interpreters(core, Interpreter)

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
        install() of its own: those are the session's."""
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

    def close_interpreter(self, language: str = "python") -> None:
        """Ends the interpreter that execute() keeps for a language, with all that its code has started; the
        next execute() has a fresh one."""
        kept = self._interpreters.take_kept(language)
        if kept is not None:
            kept.close()

    @overload
    def fork(self) -> "Session": ...

    @overload
    def fork(self, n: int) -> "List[Session]": ...

    def fork(self, n: Optional[int] = None) -> "Union[Session, List[Session]]":
        """A session that goes on from the state of this one: the Python that execute() keeps, with variables,
        modules, functions, open files and directory; a copy of the private files; a branch of the workspace;
        installed packages. ``n``: a list of so many. Each is a sandbox of its own with the same policy, and is
        closed by itself; this one goes on as before. It needs ``persist=True``.

        StateError, with nothing changed, if something cannot be taken along: commands that run, processes they
        have left, other interpreters, and what stops a fork() of an Interpreter."""
        count = 1 if n is None else _arguments.whole("n", n, 1, FORKS_MAX)
        core = self._core
        check_forks(core)
        python = self._interpreters.with_state("python")
        if python is None:
            core.check_alone(0)
            forks = self._forks(core.copies(count), None, None)
        else:
            with python._turns:
                image = python._image_for_session()
                core.check_alone(python._live is not None)
                files = core.copies(count)
            forks = self._forks(files, python, image)
        return forks[0] if n is None else forks

    def _forks(
        self, copies: "List[FilesOfFork]", python: Optional[Interpreter], image: "Optional[Image]"
    ) -> "List[Session]":
        known = 0 if python is None else python._known_updates
        forks: "List[Session]" = []
        try:
            for files in copies:
                fork = Session.__new__(Session)
                fork._set_up(self._core.branch(files, image, known))
                fork._packed, fork.files = Packed(), SessionFiles(fork._core)
                forks.append(fork)
                if python is not None and image is not None:
                    fork._interpreters.kept("python")._go_on_from(python, image)
        except BaseException:
            for fork in forks:
                fork.close()
            for files in copies[len(forks) :]:
                files.remove()
            raise
        return forks

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private /tmp and home as they are at this moment, for restore(); everything stands still
        meanwhile. Files only: for the memory of Python there is fork(). It needs ``persist=True``."""
        return self._core.snapshot(name, self._packed)

    def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private /tmp and home what they were; the snapshot stays. It ends all commands and
        interpreters: the session begins anew, with the packages that it had then."""
        before, interpreters = self._core, self._interpreters
        try:
            self._set_up(before.restored(snapshot, self._packed))
            self.files._use(self._core)
        finally:
            if before.closed:
                for one in interpreters.all():
                    one._let_go()
        if self._was_closed:  # by another thread, meanwhile
            self.close()
            raise ClosedError("the session is closed")

    @property
    def workspace(self) -> "Optional[Workspace]":
        """The workspace that it has or left (``fs_workspace=``), or None. Commit or discard it when the session
        is closed."""
        return self._core.engine.runs.workspace.open()

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
        copies = core.given.found.missing(found, home)
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
        self._was_closed = True
        try:
            self._core.close(signal)
        finally:
            for one in self._interpreters.all():
                one._let_go()
