# SPDX-License-Identifier: Apache-2.0
"""A command that runs. The reader of its session takes what it writes without a pause, so no command waits for
somebody to look at its output. What is kept of each stream is bounded; what comes after that is counted as cut.
"""

from __future__ import annotations

import codecs
import os
import select
import threading
import time
from typing import Callable, Dict, List, Optional, Tuple

from .._errors import CordonError
from .._result import Result
from .._session_core import SessionCommand
from ._errors import InvalidArgumentException, SandboxException, SandboxNotRunningException, TimeoutException, translated
from ._models import CommandExitException, CommandResult

#: Bytes of each stream of a command that are kept, and pieces of both.
OUTPUT_MAX = 16 << 20
PIECES_MAX = 500_000
_PIECE = 4096  # characters up to which pieces that nobody has seen become one
_CHUNK = 1 << 16
_IN_PIPE = 2 << 20  # bytes at most: the guest's pipe may be enlarged
_STDIN_SECONDS = 60.0  # for a command to read what it is sent
_STDIN_LOOK = 0.1  # seconds between two looks whether it has ended

Event = Tuple[Optional[str], Optional[str], None]


def _is_ready(fd: int, event: int, seconds: float) -> bool:
    look = select.poll()
    look.register(fd, event)
    return bool(look.poll(seconds * 1000))


class Running:
    """A command, until its result is there and after."""

    def __init__(
        self, pid: int, command: SessionCommand, readers: Dict[int, str], stdin: int, cmd: str,
        envs: Dict[str, str], cwd: Optional[str],
    ) -> None:  # fmt: skip
        self.pid = pid
        self.command: Optional[SessionCommand] = command
        self._core = command._core
        self.cmd = cmd
        self.envs = envs
        self.cwd = cwd
        self.result: Optional[Result] = None
        self.failed: Optional[CordonError] = None
        self.is_done = False
        self.readers = readers
        self._stdin = stdin
        self._stdin_lock = threading.Lock()
        self._events: List[Event] = []
        self._kept = {"stdout": 0, "stderr": 0}
        self._cut = False
        self._seen = 0  # pieces that somebody has got
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._kept}
        self._changed = threading.Condition()
        self._listeners: List[Callable[[], None]] = []

    # --- the reading thread ----------------------------------------------------------------------

    def read(self, fd: int) -> bool:
        """Reads what there is; False: there will be no more."""
        name = self.readers[fd]
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        if data:
            self._add(name, data)
        return bool(data)

    def _add(self, name: str, data: bytes, is_last: bool = False) -> None:
        room = OUTPUT_MAX - self._kept[name]
        self._cut = self._cut or len(data) > room
        self._kept[name] += min(len(data), room)
        text = self._decoders[name].decode(data[:room], is_last)
        if text:
            with self._changed:
                self._keep(0 if name == "stdout" else 1, text)
            self._tell()

    def _keep(self, which: int, text: str) -> None:
        events = self._events
        if len(events) > self._seen and len(events[-1][which] or "") + len(text) <= _PIECE and events[-1][which]:
            text = (events.pop()[which] or "") + text
        if len(events) < PIECES_MAX:
            events.append((None, text, None) if which else (text, None, None))
        else:
            self._cut = True

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def settle(self) -> None:
        """It is over, and everything that it wrote is in the pipes."""
        command, self.command = self.command, None  # it keeps descriptors open
        for fd in list(self.readers):
            # A read leaves something only if it took a whole chunk. What the command has started may write
            # for ever.
            for _ in range(_IN_PIPE // _CHUNK):
                if not _is_ready(fd, select.POLLIN, 0) or not self.read(fd):
                    break
            os.close(fd)
        self.readers = {}
        for name in self._decoders:
            self._add(name, b"", True)
        try:
            self.result = None if command is None else command.take()
        except CordonError as error:
            self.failed = error
        self.close_stdin()
        self.is_done = True
        self._tell()

    # --- those who wait --------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None]) -> None:
        """Has a function called from the reading thread when something has changed."""
        with self._changed:
            self._listeners.append(listener)
        listener()

    def forget(self, listener: Callable[[], None]) -> None:
        """No longer."""
        with self._changed:
            self._listeners.remove(listener)

    def event(self, index: int) -> Optional[Event]:
        """What was written as the index-th piece, as far as it was."""
        with self._changed:
            self._seen = max(self._seen, min(index + 1, len(self._events)))
            return self._events[index] if index < len(self._events) else None

    def written(self) -> int:
        """How many pieces there are so far; what comes later begins a new one."""
        with self._changed:
            self._seen = len(self._events)
            return self._seen

    def events(self) -> List[Event]:
        """All pieces so far."""
        with self._changed:
            return list(self._events)

    def wait_for(self, index: int) -> Optional[Event]:
        """Waits for the index-th piece; None: the command has ended before."""
        with self._changed:
            while index >= len(self._events) and not self.is_done:
                self._changed.wait()
            self._seen = max(self._seen, min(index + 1, len(self._events)))
            return self._events[index] if index < len(self._events) else None

    def outcome(self, retain: bool) -> CommandResult:
        """The result, or the exception that stands for it."""
        if self.failed is not None and not self._core.closed:
            if "cannot start in" in self.failed.message:
                raise InvalidArgumentException(str(self.failed))
            with translated():
                raise self.failed
        if self.result is None:
            raise SandboxNotRunningException("the sandbox was killed or reached its timeout while the command ran")
        result = self.result
        with self._changed:
            texts = ["".join(event[i] or "" for event in self._events) if retain else None for i in (0, 1)]
        if result.kind == "timeout":
            raise TimeoutException(
                "the time of the command is over: its 'timeout' option can be used to increase it"
            )
        if result.kind == "cancelled" and result.signal is None:
            raise SandboxNotRunningException("the sandbox was killed or reached its timeout while the command ran")
        error: Optional[str] = f"only {OUTPUT_MAX} bytes of a stream are kept" if self._cut else None
        if result.kind != "exited":
            error = result.explain().split("\n")[0]
        elif result.returncode != 0:
            error = f"exit status {result.returncode}"
        if result.returncode != 0:
            raise CommandExitException(texts[1], texts[0], result.returncode, error)
        return CommandResult(texts[1], texts[0], 0, error)

    # --- its input -------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Writes to its standard input; TimeoutException if it does not read that."""
        end = time.monotonic() + _STDIN_SECONDS
        with self._stdin_lock:
            if self._stdin < 0:
                raise SandboxException("the command has no standard input: it ended, or was run without stdin=True")
            while data:
                if time.monotonic() >= end:
                    raise TimeoutException("the command does not read its standard input")
                if self.command is None:
                    raise SandboxException("the command has ended")
                if not _is_ready(self._stdin, select.POLLOUT, _STDIN_LOOK):
                    continue
                try:
                    data = data[os.write(self._stdin, data[:4096]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise SandboxException("the command has closed its standard input") from None

    def close_stdin(self) -> None:
        """The end of its input."""
        with self._stdin_lock:
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1

    def kill(self) -> bool:
        """Ends it and what it started; False: it has ended before."""
        command = self.command
        if command is None or self._core.closed:
            return False
        with translated():
            command.kill()
        return True

    @property
    def is_over(self) -> bool:
        """Whether the session has its result."""
        command = self.command
        return command is None or command._native.result() is not None
