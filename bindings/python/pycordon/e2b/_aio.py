# SPDX-License-Identifier: Apache-2.0
"""``AsyncSandbox``: the same as coroutines. Commands and code wait in the event loop; making a sandbox and
working with its files happens in threads, since the calls are short."""

from __future__ import annotations

import asyncio
import functools
from typing import (
    Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence,
    Type, TypeVar, Union, cast,
)  # fmt: skip

from .._aio_interpreter import AsyncInterpreter
from .._policy import Config
from ._box import Box
from ._code import OUTPUT_MAX, Kernels, arguments, finished, messages
from ._commands import as_bytes
from ._errors import InvalidArgumentException, translated
from ._filesystem import Filesystem, WriteData, check_format
from ._models import CommandResult, Context, EntryInfo, Execution, OutputHandler, ProcessInfo, SandboxInfo, WriteInfo
from ._options import service_only
from ._running import Running
from ._sandbox import SandboxBase, SandboxPaginator, SandboxQuery, both

T = TypeVar("T")
_STREAM_PIECE = 1 << 16
Told = Optional[Callable[[str], Any]]


async def _thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Calls what blocks for a short time."""
    call = functools.partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, call)


async def _told(callback: Optional[Callable[[Any], Any]], value: Any) -> None:
    got = callback(value) if callback is not None else None
    if asyncio.iscoroutine(got) or isinstance(got, Awaitable):
        await got


class AsyncCommandHandle:
    """A command that runs in the background."""

    def __init__(
        self, running: Running, retain_output: bool = True, begin: int = 0, on_stdout: Told = None, on_stderr: Told = None
    ) -> None:
        self._running = running
        self._retain = retain_output
        self._next = begin
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._is_disconnected = False
        self._follower: "asyncio.Task[None]" = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        """Hands on what comes, until the end."""
        loop, running = asyncio.get_running_loop(), self._running
        changed = asyncio.Event()

        def listener() -> None:
            try:
                loop.call_soon_threadsafe(changed.set)
            except RuntimeError:
                pass  # the loop is closed

        running.listen(listener)
        try:
            while True:
                changed.clear()
                is_done = running.is_done  # before what it may have written until then
                event = running.event(self._next)
                while event is not None:
                    self._next += 1
                    if event[0] is not None:
                        await _told(self._on_stdout, event[0])
                    else:
                        await _told(self._on_stderr, event[1])
                    event = running.event(self._next)
                if is_done:
                    return
                await changed.wait()
        finally:
            running.forget(listener)

    @property
    def pid(self) -> int:
        """Its number among the commands of the sandbox; not the one that it sees itself."""
        return self._running.pid

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return "".join(event[0] or "" for event in self._running.events())

    @property
    def stderr(self) -> str:
        """The same of standard error."""
        return "".join(event[1] or "" for event in self._running.events())

    @property
    def exit_code(self) -> Optional[int]:
        """Its status; None while it runs."""
        result = self._running.result
        return None if result is None else result.returncode

    @property
    def error(self) -> Optional[str]:
        """Why it failed, if it has."""
        result = self._running.result
        return None if result is None or result.ok else result.explain().split("\n")[0]

    async def wait(self) -> CommandResult:
        """Waits for its end; CommandExitException if its status is not 0, TimeoutException if its time was
        over. Cancelling the task that waits leaves the command alone."""
        if self._is_disconnected:
            raise InvalidArgumentException("the handle was disconnected: commands.connect(pid) gives another")
        await asyncio.shield(self._follower)
        return self._running.outcome(self._retain)

    async def kill(self) -> bool:
        """Ends it and what it started; False: it had ended."""
        return self._running.kill()

    async def disconnect(self) -> None:
        """This handle gets nothing more. The command goes on."""
        self._is_disconnected = True
        self._follower.cancel()

    async def send_stdin(self, data: Union[str, bytes], request_timeout: Optional[float] = None) -> None:
        """Writes to its standard input; it must have been run with ``stdin=True``."""
        await _thread(self._running.send, as_bytes(data))

    async def close_stdin(self, request_timeout: Optional[float] = None) -> None:
        """The end of its standard input."""
        await _thread(self._running.close_stdin)


class AsyncCommands:
    """Runs shell commands in the sandbox; see Commands."""

    def __init__(self, box: Box) -> None:
        self._box = box

    async def run(
        self,
        cmd: str,
        background: Optional[bool] = None,
        envs: Optional[Dict[str, str]] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        on_stdout: Told = None,
        on_stderr: Told = None,
        stdin: Optional[bool] = None,
        timeout: Optional[float] = 60,
        request_timeout: Optional[float] = None,
        *,
        retain_output: bool = True,
    ) -> Any:
        """Runs a command by bash and waits for its end, or gives an AsyncCommandHandle at once
        (``background``). Cancelling the task ends the command. See Commands.run()."""
        running = self._box.start(cmd, envs, user, cwd, stdin, timeout)
        handle = AsyncCommandHandle(running, retain_output, 0, on_stdout, on_stderr)
        if background:
            return handle
        try:
            return await handle.wait()
        except BaseException:
            running.kill()
            handle._follower.cancel()
            raise

    async def list(self, request_timeout: Optional[float] = None) -> List[ProcessInfo]:
        """The commands that run."""
        return self._box.commands()

    async def kill(self, pid: int, request_timeout: Optional[float] = None) -> bool:
        """Ends a command; False: there is none with that number."""
        self._box.check()
        return any(one.pid == pid and one.kill() for one in self._box.reader.running())

    async def connect(
        self, pid: int, timeout: Optional[float] = 60, request_timeout: Optional[float] = None,
        on_stdout: Told = None, on_stderr: Told = None, *, retain_output: bool = True,
    ) -> AsyncCommandHandle:  # fmt: skip
        """A second handle of a command; see Commands.connect()."""
        running = self._box.find(pid)
        return AsyncCommandHandle(running, retain_output, running.written(), on_stdout, on_stderr)

    async def send_stdin(self, pid: int, data: Union[str, bytes], request_timeout: Optional[float] = None) -> None:
        """Writes to a command's standard input."""
        await _thread(self._box.find(pid).send, as_bytes(data))

    async def close_stdin(self, pid: int, request_timeout: Optional[float] = None) -> None:
        """The end of a command's standard input."""
        await _thread(self._box.find(pid).close_stdin)


class AsyncFilesystem:
    """The sandbox's files; see Filesystem."""

    def __init__(self, box: Box) -> None:
        self._files = Filesystem(box)

    async def read(
        self,
        path: str,
        format: str = "text",
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        stream_idle_timeout: Optional[float] = None,
    ) -> Any:
        """A whole file: ``text`` (str), ``bytes`` (bytearray) or ``stream`` (an asynchronous iterator)."""
        check_format(format)
        if format != "stream":
            return await _thread(self._files.read, path, format, user)
        return _pieces(bytes(await _thread(self._files.read, path, "bytes", user)))

    async def write(
        self,
        path: str,
        data: Union[WriteData, AsyncIterable[bytes]],
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        use_octet_stream: Optional[bool] = None,
        metadata: Optional[Dict[str, str]] = None,
    ) -> WriteInfo:
        """Writes a file, with the directories above it if they are missing."""
        return (await self.write_files([{"path": path, "data": data}], user, metadata=metadata))[0]

    async def write_files(
        self,
        files: Sequence[Mapping[str, Any]],
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        use_octet_stream: Optional[bool] = None,
        metadata: Optional[Dict[str, str]] = None,
    ) -> List[WriteInfo]:
        """Writes several: ``[{"path": ..., "data": ...}]``."""
        entries: List[Any] = []
        for entry in files:
            data = entry.get("data") if isinstance(entry, Mapping) else None
            if isinstance(data, AsyncIterable):
                entry = {**entry, "data": b"".join([bytes(piece) async for piece in data])}
            entries.append(entry)
        return await _thread(self._files.write_files, entries, user, metadata=metadata)

    async def list(
        self, path: str, depth: Optional[int] = 1, user: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> List[EntryInfo]:
        """What is in a directory, and below it down to ``depth``."""
        return await _thread(self._files.list, path, depth, user)

    async def exists(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> bool:
        """Whether it is there."""
        return await _thread(self._files.exists, path, user)

    async def get_info(
        self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> EntryInfo:
        """A file's attributes; of a link itself."""
        return await _thread(self._files.get_info, path, user)

    async def remove(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> None:
        """Removes a file, or a directory with what is in it. What is not there is fine."""
        await _thread(self._files.remove, path, user)

    async def rename(
        self, old_path: str, new_path: str, user: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> EntryInfo:
        """Renames."""
        return await _thread(self._files.rename, old_path, new_path, user)

    async def make_dir(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> bool:
        """Makes a directory and those above it; False: it was there."""
        return await _thread(self._files.make_dir, path, user)

    async def watch_dir(self, path: str, **options: Any) -> NoReturn:
        """Not available here."""
        self._files.watch_dir(path)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _STREAM_PIECE):
        yield data[begin : begin + _STREAM_PIECE]


async def _false() -> bool:
    return False


class AsyncSandbox(SandboxBase):
    """The same as Sandbox, as coroutines; made by ``await AsyncSandbox.create()``. Used within one event loop.
    Cancelling a task ends its command, or interrupts its code."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise InvalidArgumentException("AsyncSandbox() makes nothing: await AsyncSandbox.create() does")

    def _begin(self, box: Box) -> None:
        super()._begin(box)
        self._commands = AsyncCommands(box)
        self._files = AsyncFilesystem(box)
        with box.lock:
            if box.kernels is None:
                box.kernels = Kernels(box, _interpreter, asyncio.Lock)
                box.closers.append(functools.partial(_close_later, asyncio.get_running_loop(), box.kernels))

    @classmethod
    async def create(
        cls: "Type[AsyncSandbox]",
        template: Optional[str] = None,
        timeout: Optional[int] = None,
        metadata: Optional[Dict[str, str]] = None,
        envs: Optional[Dict[str, str]] = None,
        secure: Optional[bool] = None,
        allow_internet_access: Optional[bool] = None,
        mcp: Any = None,
        network: Optional[Mapping[str, Any]] = None,
        iam: Any = None,
        lifecycle: Optional[Mapping[str, Any]] = None,
        volume_mounts: Any = None,
        logger: Any = None,
        idempotency_key: Optional[str] = None,
        policy: Config = None,
        **opts: Any,
    ) -> "AsyncSandbox":
        """A new sandbox; see Sandbox."""
        absent = {"mcp": mcp, "iam": iam, "volume_mounts": volume_mounts}
        made = asyncio.ensure_future(
            _thread(
                cls._new_box, template, timeout, metadata, envs, allow_internet_access, network, lifecycle,
                absent, policy, opts,
            )
        )  # fmt: skip
        try:
            box = await asyncio.shield(made)
        except asyncio.CancelledError:
            made.add_done_callback(lambda done: None if done.exception() else done.result().kill())
            raise
        return cls._of(box)

    async def __aenter__(self) -> "AsyncSandbox":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await _thread(self._box.kill)

    @property
    def commands(self) -> AsyncCommands:
        """Its commands."""
        return self._commands

    @property
    def files(self) -> AsyncFilesystem:
        """Its files."""
        return self._files

    @classmethod
    def list(
        cls, query: Optional[SandboxQuery] = None, limit: Optional[int] = None, next_token: Optional[str] = None,
        order: Optional[str] = None, **opts: Any,
    ) -> "AsyncSandboxPaginator":  # fmt: skip
        """The sandboxes of this process."""
        service_only(opts)
        return AsyncSandboxPaginator(query, limit)

    async def _connect(self, timeout: Optional[int] = None, *, on_resume: str = "restore", **opts: Any) -> "AsyncSandbox":
        """The same sandbox; ``AsyncSandbox.connect(id)``: another object for one of this process."""
        service_only(opts)
        self._box.check()
        if timeout is not None:
            self._box.extend(timeout)
        return self

    async def _kill(self, **opts: Any) -> bool:
        """Ends it with everything in it; False: that has happened before."""
        service_only(opts)
        return await _thread(self._box.kill)

    async def _set_timeout(self, timeout: int, **opts: Any) -> None:
        """How many seconds it lives from now on."""
        service_only(opts)
        self._box.check()
        self._box.set_timeout(timeout)

    async def _get_info(self, **opts: Any) -> SandboxInfo:
        """What is known of it from outside."""
        service_only(opts)
        return self._box.info()

    connect = both(_connect)
    kill = both(_kill, _false)
    set_timeout = both(_set_timeout)
    get_info = both(_get_info)

    async def is_running(self, request_timeout: Optional[float] = None) -> bool:
        """Whether it is there."""
        return self._box.is_running

    # --- code ------------------------------------------------------------------------------------

    @property
    def _kernels(self) -> "Kernels[AsyncInterpreter]":
        kernels: "Kernels[AsyncInterpreter]" = self._box.kernels
        return kernels

    async def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OutputHandler] = None,
        on_stderr: Optional[OutputHandler] = None,
        on_result: Optional[OutputHandler] = None,
        on_error: Optional[OutputHandler] = None,
        envs: Optional[Dict[str, str]] = None,
        timeout: Optional[float] = None,
        request_timeout: Optional[float] = None,
    ) -> Execution:
        """Runs code where the code before it has left off; see Sandbox.run_code(). Cancelling the task
        interrupts it."""
        kernel = self._kernels.chosen(language, context)
        (before, after), seconds = arguments(kernel, envs, timeout)
        async with kernel.lock:
            with translated():
                if before:
                    await kernel.interpreter.execute(before, timeout=10)
                is_there = True
                try:
                    done = await kernel.interpreter.execute(
                        code, timeout=seconds, on_stdout=messages(on_stdout, False), on_stderr=messages(on_stderr, True)
                    )
                    is_there = not done.ended
                finally:
                    if after and is_there and self._box.is_running:
                        await asyncio.shield(kernel.interpreter.execute(after, timeout=10))
        execution = finished(self._box, kernel, done)
        for result in execution.results:
            await _told(on_result, result)
        if execution.error is not None:
            await _told(on_error, execution.error)
        return execution

    async def create_code_context(
        self, cwd: Optional[str] = None, language: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> Context:
        """One more interpreter, with state of its own."""
        return self._kernels.create(language, cwd).context

    async def list_code_contexts(self) -> List[Context]:
        """The interpreters, those that run_code() has started by itself included."""
        return self._kernels.contexts()

    async def remove_code_context(self, context: Union[Context, str]) -> None:
        """Ends one."""
        await self._kernels.remove(context).interpreter.close()

    async def restart_code_context(self, context: Union[Context, str]) -> None:
        """Begins one anew."""
        kernel = self._kernels.find(context)
        with translated():
            await kernel.interpreter.restart()
        kernel.count = 0


class AsyncSandboxPaginator(SandboxPaginator):
    """What list() gives: pages of them."""

    async def next_items(self, **opts: Any) -> List[SandboxInfo]:  # type: ignore[override]
        """The next page."""
        return super().next_items(**opts)


def _interpreter(box: Box, language: str, cwd: str) -> AsyncInterpreter:
    return AsyncInterpreter(language, sandbox=cast(Any, box.sandbox), cwd=cwd, max_output=OUTPUT_MAX)


def _close_later(loop: asyncio.AbstractEventLoop, kernels: "Kernels[AsyncInterpreter]") -> None:
    """The sandbox is over: its interpreters are let go in their own loop."""

    async def close() -> None:
        for kernel in kernels.all():
            await kernel.interpreter.close()

    def begin() -> None:
        task = asyncio.ensure_future(close())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError:
        pass  # the loop is closed, and nothing waits in it
