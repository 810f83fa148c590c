# SPDX-License-Identifier: Apache-2.0
"""``sandbox.commands``, for programs without an event loop."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

from ._box import Box
from ._errors import InvalidArgumentException
from ._models import CommandResult, ProcessInfo
from ._running import Event, Running


def as_bytes(data: Union[str, bytes]) -> bytes:
    """Input for a command."""
    if isinstance(data, str):
        return data.encode()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidArgumentException(f"data: text or bytes are needed, not {type(data).__name__}")
    return bytes(data)


class CommandHandle:
    """A command that runs in the background. Iterating gives ``(stdout, stderr, None)`` as it comes, one of
    the two None."""

    def __init__(self, running: Running, retain_output: bool = True, begin: int = 0) -> None:
        self._running = running
        self._retain = retain_output
        self._next = begin
        self._is_connected = True

    @property
    def pid(self) -> int:
        """Its number among the commands of the sandbox; not the one that it sees itself."""
        return self._running.pid

    def __iter__(self) -> Iterator[Event]:
        while self._is_connected:
            event = self._running.wait_for(self._next)
            if event is None:
                return
            self._next += 1
            yield event

    def wait(
        self,
        on_pty: Optional[Callable[[bytes], None]] = None,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
    ) -> CommandResult:
        """Waits for its end; CommandExitException if its status is not 0, TimeoutException if its time
        was over."""
        for out, err, _ in self:
            if out is not None and on_stdout is not None:
                on_stdout(out)
            elif err is not None and on_stderr is not None:
                on_stderr(err)
        if not self._is_connected:
            raise InvalidArgumentException("the handle was disconnected: commands.connect(pid) gives another")
        return self._running.outcome(self._retain)

    def kill(self) -> bool:
        """Ends it and what it started; False: it had ended."""
        return self._running.kill()

    def disconnect(self) -> None:
        """This handle gets nothing more. The command goes on."""
        self._is_connected = False

    def send_stdin(self, data: Union[str, bytes], request_timeout: Optional[float] = None) -> None:
        """Writes to its standard input; it must have been run with ``stdin=True``."""
        self._running.send(as_bytes(data))

    def close_stdin(self, request_timeout: Optional[float] = None) -> None:
        """The end of its standard input."""
        self._running.close_stdin()


class Commands:
    """Runs shell commands in the sandbox. They share its files, its processes and its network."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def run(
        self,
        cmd: str,
        background: Optional[bool] = None,
        envs: Optional[Dict[str, str]] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
        stdin: Optional[bool] = None,
        timeout: Optional[float] = 60,
        request_timeout: Optional[float] = None,
        *,
        retain_output: bool = True,
    ) -> Any:
        """Runs a command by bash and waits for its end, or gives a CommandHandle at once (``background``).
        Its result; CommandExitException if its status is not 0. ``timeout``: seconds; None or 0: none."""
        handle = CommandHandle(self._box.start(cmd, envs, user, cwd, stdin, timeout), retain_output)
        if background:
            return handle
        try:
            return handle.wait(on_stdout=on_stdout, on_stderr=on_stderr)
        except BaseException:
            handle.kill()
            raise

    def list(self, request_timeout: Optional[float] = None) -> List[ProcessInfo]:
        """The commands that run."""
        return self._box.commands()

    def kill(self, pid: int, request_timeout: Optional[float] = None) -> bool:
        """Ends a command; False: there is none with that number."""
        return any(one.pid == pid and one.kill() for one in self._running())

    def _running(self) -> List[Running]:
        self._box.check()
        return self._box.reader.running()

    def connect(
        self, pid: int, timeout: Optional[float] = 60, request_timeout: Optional[float] = None, *,
        retain_output: bool = True,
    ) -> CommandHandle:  # fmt: skip
        """A second handle of a command, which gets what is written from now on. ``timeout`` has no effect:
        that of run() holds."""
        running = self._box.find(pid)
        return CommandHandle(running, retain_output, running.written())

    def send_stdin(self, pid: int, data: Union[str, bytes], request_timeout: Optional[float] = None) -> None:
        """Writes to a command's standard input."""
        self._box.find(pid).send(as_bytes(data))

    def stream_input(
        self, pid: int, data: Iterable[Union[str, bytes]], *, timeout: Optional[float] = 60.0
    ) -> None:
        """The same, piece by piece."""
        if isinstance(data, (str, bytes, bytearray, memoryview)):
            raise InvalidArgumentException("data: pieces are needed, such as [data]")
        running = self._box.find(pid)
        for piece in data:
            running.send(as_bytes(piece))

    def close_stdin(self, pid: int, request_timeout: Optional[float] = None) -> None:
        """The end of a command's standard input."""
        self._box.find(pid).close_stdin()
