# SPDX-License-Identifier: Apache-2.0
"""The sandbox for programs without an event loop."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union, cast,
)  # fmt: skip

from ._code import Code, Content
from ._errors import UsageError
from ._files import Files
from ._front import Front
from ._job import Callback, Command, RunArguments, Stdin, StrPath
from ._policy import Config
from ._process import Process, compiled, open_process, run_streaming, wait_for
from ._result import Result
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import OneRunSettings, Orphans, RunSettings


class Sandbox(Front):
    """Runs untrusted commands and code.

    ``config`` is a SandboxConfig, a Policy, a dict, a preset's name or the path of a policy file;
    ``settings`` come on top of it (see Policy for their names). Without any: no network, nothing of
    the host writable, 30 seconds, 256 MiB.

    ``workdir``: a directory of the host that commands start in and may change; it is made if it is
    missing. None (or True): a private empty one. No directory of the host is visible unless this,
    ``fs_read`` or ``fs_write`` names it; not the current one either.
    ``persist``: the private /tmp and home are kept from run to run until the sandbox is closed;
    False gives each run fresh ones, in memory. ``keep``: they stay after that, for ``attach(id)``.
    ``env``: variables for all runs. ``name``: of the workspace, for sandboxes with ``fs_workspace=``.
    ``allow_overrides``: runs may ask for more than the sandbox states.
    ``preload``: Python programs (run_code()) start in an interpreter that has imported these modules,
    and what small programs use most, already; None: in a new one. ``fresh_aslr``: each in an interpreter that was
    started for it alone, so that no two have an address layout in common. ``warm``: how many interpreters of other
    languages wait, as ``{"javascript": 2, "bash": 2}``. Both need ``persist=False``.
    ``parked``: how many empty sandboxes are made ahead, from the first run on, so that the next runs
    start sooner. Runs with other settings than the sandbox's may start as without.

    ``packages``: for pip (``"requests==2.32.3"``) and npm (``"npm:lodash@4"``), or requirements files and
    a package-lock.json. They are installed now, unless that was done before, in a sandbox of their own
    that reaches the package index only (docs/packages.md). ``build_packages``: they may run code for that.
    ``compile_timeout``, ``compile_memory``: limits of compilers, which run in a sandbox of their own
    (run_code()).

    Otherwise making one does nothing but check its settings. It can be used by any number of threads, and as
    a context manager.
    """

    def __enter__(self) -> "Sandbox":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> "Sandbox":
        """Makes the private directory now instead of at the first run. Never needed."""
        self._engine.start()
        return self

    def close(self) -> None:
        """Ends whatever still runs and removes the private files (unless ``keep``). Later calls
        raise ClosedError; closing twice is fine."""
        self._engine.shut(remove=False)

    def destroy(self) -> None:
        """The same, and removes what ``keep`` would keep, or what this object attached to."""
        self._engine.shut(remove=True)

    def restart(self) -> None:
        """Ends whatever still runs and begins with empty private files, under a new id."""
        self._engine.restart()

    def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private /tmp and home, for restore(). StateError while a run goes on."""
        return self._engine.snapshot(name)

    def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private /tmp and home what they were; the snapshot stays. StateError while a run
        goes on. If it fails, the files are what they are now."""
        self._engine.restore(snapshot)

    def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all runs from now on: ``install("pandas==2.2.0", "npm:lodash@4")``. They
        come before those that the sandbox has, which stay. The words and everything else are as for
        ``packages=`` (docs/packages.md); if it fails, nothing has changed."""
        self._engine.add_packages(self._engine.find_packages(packages, build_packages))

    # --- running ---------------------------------------------------------------------------------

    def run(
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
        orphans: "Orphans" = "kill",
        check: bool = False,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        policy: Config = None,
        tty: bool = False,
        **overrides: "Unpack[RunSettings]",
    ) -> Result:
        """Runs a command and waits for its end.

        A string is run by a shell (``/bin/sh -c``), a sequence is the program and its arguments,
        literally. Standard input is empty unless ``stdin`` gives bytes, text, a descriptor or a
        file. ``cwd`` is a directory inside, relative to ``workdir``; if it does not exist,
        FileNotFoundError. ``merge``: standard error goes where standard output goes, in order.
        ``orphans="keep"``: what the command leaves running goes on until the sandbox is closed.
        ``on_stdout`` and ``on_stderr`` are called with bytes as they come. ``check``: RunError
        unless the command succeeds. ``tty``: the command has a terminal, on which ``stdin`` is typed
        and then Ctrl-D; reading on after that waits.

        A program that does not exist is a result (``spawn_failed``, returncode 127; 126 if it is
        not executable). A protection that fails raises an error: the command has not run.
        ``policy`` and ``overrides`` may only tighten what the sandbox states.
        """
        args = RunArguments(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans, check=check, on_stdout=on_stdout,
            on_stderr=on_stderr, policy=policy, tty=tty, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return self._run(args)

    def run_code(
        self,
        code: Content,
        language: str = "python",
        *,
        filename: Optional[str] = None,
        args: Sequence[str] = (),
        files: Optional[Mapping[str, Content]] = None,
        stdin: Stdin = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        merge: bool = False,
        orphans: "Orphans" = "kill",
        check: bool = False,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        policy: Config = None,
        tty: bool = False,
        **overrides: "Unpack[RunSettings]",
    ) -> Result:
        """Runs code: ``python`` (by the interpreter of this program), ``javascript``, ``typescript``,
        ``bash``, ``c``, ``c++``, ``go``, ``rust``, ``java`` ..., or any interpreter by its name.
        ``files`` (name -> content) are put beside it. The rest is as for run().

        What has to be compiled is compiled first, in a sandbox of its own, once for all runs of the
        same program. If it cannot be, the result is the compiler's (``step`` is ``compile``);
        CommandNotFoundError if there is no compiler."""
        made = Code.make(code, language, filename, args, files)
        run_args = RunArguments(
            made.argv, code=made, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans, check=check, on_stdout=on_stdout,
            on_stderr=on_stderr, policy=policy, tty=tty, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return self._run(run_args)

    def _run(self, args: RunArguments) -> Result:
        ready = compiled(self._engine, args)
        if isinstance(ready, Result):
            result = ready
        elif ready.is_streamed:
            result = run_streaming(self._engine, ready)
        else:
            result = wait_for(self._engine.begin(ready))
        return result.raise_for_status() if args.check else result

    def popen(
        self,
        cmd: Command,
        *,
        shell: Optional[str] = None,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        max_output: Union[int, str, None] = None,
        merge: bool = False,
        orphans: "Orphans" = "kill",
        policy: Config = None,
        tty: bool = False,
        rows: int = 24,
        cols: int = 80,
        **overrides: "Unpack[RunSettings]",
    ) -> Process:
        """Starts a command and gives a Process with its streams, to talk to it while it runs."""
        args = RunArguments(
            cmd, shell=shell, cwd=cwd, env=env, timeout=timeout, max_output=max_output, merge=merge,
            orphans=orphans, policy=policy, tty=tty, rows=rows, cols=cols, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return open_process(self._engine, args)

    def stream(self, cmd: Command, **arguments: Any) -> Iterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come; arguments as for popen(). Leaving the loop
        early ends the command."""
        with self.popen(cmd, **arguments) as process:
            process.close_stdin()
            yield from process.events()
            process.wait()

    @property
    def files(self) -> Files:
        """The sandbox's files, with the rights that a command would have."""
        return Files(self._engine)


def run(cmd: Command, config: Config = None, **settings: "Unpack[OneRunSettings]") -> Result:
    """Runs one command in a sandbox of its own; nothing is kept. Takes the settings of a Sandbox
    and the arguments of its run()."""
    names = (
        "shell", "stdin", "cwd", "env", "timeout", "max_output", "merge", "check", "on_stdout",
        "on_stderr", "tty",
    )  # fmt: skip
    rest: Dict[str, Any] = dict(settings)
    mine = {name: rest.pop(name) for name in names if name in rest}
    if rest.pop("orphans", "kill") != "kill":
        raise UsageError("orphans: nothing outlives pycordon.run()", hint="use a Sandbox")
    rest.setdefault("persist", False)
    with Sandbox(config, **rest) as sandbox:
        return sandbox.run(cmd, **mine)
