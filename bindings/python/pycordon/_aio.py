# SPDX-License-Identifier: Apache-2.0
"""The sandbox for programs with an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Mapping, Optional, Sequence, Tuple, Union, cast

from ._aio_files import AsyncFiles
from ._aio_process import AsyncProcess, open_process
from ._aio_wait import compiled, in_thread, installed, slot, wait_for
from ._code import Code, Content
from ._front import Front
from ._job import Callback, Command, RunArguments, Stdin, StrPath
from ._policy import Config
from ._result import Result
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import Orphans, RunSettings

__all__ = ["AsyncFiles", "AsyncProcess", "AsyncSandbox"]


class AsyncSandbox(Front):
    """The same as Sandbox for asyncio: ``run``, ``run_code``, ``popen``, ``start``, ``close`` and
    the methods of ``files`` are coroutines. Cancelling the task ends the command and everything it
    started before the cancellation goes on.

    As many runs go on at once as this process's limit of open files has room for (``ulimit -n``);
    the others wait for their turn.
    """

    async def __aenter__(self) -> "AsyncSandbox":
        return await self.start()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def start(self) -> "AsyncSandbox":
        """Makes the private directory now instead of at the first run. Never needed."""
        self._engine.check_open()
        if self._engine.settings.persist:
            await in_thread(self._engine.start)
        return self

    async def close(self) -> None:
        """Ends whatever still runs and removes the private files (unless ``keep``)."""
        await in_thread(self._engine.shut, False)

    async def destroy(self) -> None:
        """The same, and removes what ``keep`` would keep, or what this object attached to."""
        await in_thread(self._engine.shut, True)

    async def restart(self) -> None:
        """Ends whatever still runs and begins with empty private files, under a new id."""
        await in_thread(self._engine.restart)

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Copies the private /tmp and home, for restore(). StateError while a run goes on."""
        return await in_thread(self._engine.snapshot, name, undo=Snapshot.close)

    async def restore(self, snapshot: Union[Snapshot, str]) -> None:
        """Makes the private /tmp and home what they were; see Sandbox.restore()."""
        await in_thread(self._engine.restore, snapshot)

    async def install(self, *packages: str, build_packages: bool = False) -> None:
        """Installs packages for all runs from now on; see Sandbox.install(). A cancelled task stops the
        installer."""
        engine = self._engine
        found = await installed(lambda line: engine.find_packages(packages, build_packages, line))
        await in_thread(engine.add_packages, found)

    async def run(
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
        """Runs a command and waits for its end; see Sandbox.run()."""
        args = RunArguments(
            cmd, shell=shell, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans, check=check, on_stdout=on_stdout,
            on_stderr=on_stderr, policy=policy, tty=tty, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return await self._run(args)

    async def run_code(
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
        """Runs code; see Sandbox.run_code()."""
        made = Code.make(code, language, filename, args, files)
        run_args = RunArguments(
            made.argv, code=made, stdin=stdin, cwd=cwd, env=env, timeout=timeout,
            max_output=max_output, merge=merge, orphans=orphans, check=check, on_stdout=on_stdout,
            on_stderr=on_stderr, policy=policy, tty=tty, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return await self._run(run_args)

    async def _run(self, args: RunArguments) -> Result:
        engine = self._engine
        engine.check_open()
        ready = await compiled(engine, args)
        if isinstance(ready, Result):
            result = ready
        elif ready.is_streamed:
            result = await self._run_streaming(ready)
        else:
            run_args = ready
            async with slot():
                result = await wait_for(lambda: engine.begin(run_args))
        return result.raise_for_status() if args.check else result

    async def _run_streaming(self, args: RunArguments) -> Result:
        callbacks = {"stdout": args.on_stdout, "stderr": args.on_stderr}
        process = await open_process(self._engine, args, with_stdin=False)
        try:
            async for name, data in process.events():
                process._kept.add(name, data)
                callback = callbacks[name]
                if callback is not None:
                    got = callback(data)
                    if asyncio.iscoroutine(got):
                        await got
            return await process.wait()
        except BaseException:
            await asyncio.shield(process.close())
            raise

    async def popen(
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
    ) -> AsyncProcess:
        """Starts a command and gives an AsyncProcess, to talk to it while it runs."""
        args = RunArguments(
            cmd, shell=shell, cwd=cwd, env=env, timeout=timeout, max_output=max_output, merge=merge,
            orphans=orphans, policy=policy, tty=tty, rows=rows, cols=cols, overrides=cast(Dict[str, Any], overrides),
        )  # fmt: skip
        return await open_process(self._engine, args, with_stdin=True)

    async def stream(self, cmd: Command, **arguments: Any) -> AsyncIterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come; arguments as for popen(). Leaving the loop
        early ends the command."""
        process = await self.popen(cmd, **arguments)
        process.close_stdin()
        try:
            async for event in process.events():
                yield event
            await process.wait()
        finally:
            await asyncio.shield(process.close())

    @property
    def files(self) -> AsyncFiles:
        """The sandbox's files, with the rights that a command would have."""
        return AsyncFiles(self._engine)
