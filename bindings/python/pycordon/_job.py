# SPDX-License-Identifier: Apache-2.0
"""A run's arguments, and what was prepared for it."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from typing import (
    IO, TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union,
)  # fmt: skip

from . import _arguments, _cordon
from ._errors import UsageError, raise_native

if TYPE_CHECKING:
    from ._code import Code, Drop
    from ._policy import Config, Policy
    from ._store import Home

Command = Union[str, Sequence[Union[str, bytes, "os.PathLike[str]"]]]
Stdin = Union[None, bytes, bytearray, memoryview, str, int, IO[Any]]
Callback = Callable[[bytes], object]
StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class RunArguments:
    """The arguments of run(), run_code() and popen(). ``overrides`` are settings of the policy."""

    cmd: Command
    shell: Optional[str] = None
    stdin: Stdin = None
    cwd: Optional[StrPath] = None
    env: Optional[Mapping[str, str]] = None
    timeout: Union[float, str, None] = None
    max_output: Union[int, str, None] = None
    merge: bool = False
    orphans: str = "kill"
    check: bool = False
    on_stdout: Optional[Callback] = None
    on_stderr: Optional[Callback] = None
    policy: "Config" = None
    tty: bool = False
    rows: int = 24
    cols: int = 80
    overrides: Mapping[str, Any] = field(default_factory=dict)
    code: Optional["Code"] = None  # the file that ``cmd`` runs

    def __post_init__(self) -> None:
        if self.orphans not in ("kill", "keep"):
            raise UsageError(f"orphans: 'kill' or 'keep' is needed, not {self.orphans!r:.40}")
        if self.tty:
            _arguments.whole("rows", self.rows, 0, 65535)
            _arguments.whole("cols", self.cols, 0, 65535)
        _arguments.callback("on_stdout", self.on_stdout)
        _arguments.callback("on_stderr", self.on_stderr)

    @property
    def is_streamed(self) -> bool:
        """Whether a callback gets the output while the command runs."""
        return self.on_stdout is not None or self.on_stderr is not None

    def stdin_for_library(self) -> Union[None, bytes, int]:
        """Standard input as the library takes it. A terminal has no end of file: Ctrl-D is typed,
        twice if the last line is incomplete."""
        found = _stdin(self.stdin)
        if isinstance(found, bytes):
            object.__setattr__(self, "stdin", found)  # what was read is not there a second time
        if not self.tty or isinstance(found, int):
            return found
        data = found or b""
        return data + (b"\4" if not data or data.endswith(b"\n") else b"\4\4")


@dataclass
class Job:
    """A run that can be started, and what has to be tidied up when it is over."""

    policy: _cordon.Policy
    argv: List[str]
    merge: bool = False
    cwd: Optional[StrPath] = None
    options: Dict[str, Any] = field(default_factory=dict)
    drop: Optional["Drop"] = None
    temporary_home: Optional["Home"] = None
    is_kept: bool = False
    stated: Optional["Policy"] = None  # what the run may do, for its result
    fds: List[int] = field(default_factory=list)  # lent to the run
    drains: List[int] = field(default_factory=list)  # other ends, to drain if orphans go on

    @property
    def leaves_files(self) -> bool:
        """Whether close() has files to remove, which takes time."""
        return (self.drop is not None and not self.drop.is_in_memory) or self.temporary_home is not None

    def set(self, key: str, value: str) -> None:
        """Adds to the run's policy."""
        set_in(self.policy, key, value)

    def pipe(self) -> Tuple[int, int]:
        """A pipe for a stream: (reading end, writing end). Both are closed with the job."""
        ends = os.pipe2(os.O_CLOEXEC)
        self.fds += ends
        return ends

    def connect(self, with_stdin: bool) -> Tuple[int, Dict[str, int]]:
        """Makes pipes for the streams. Gives the other ends, which the caller closes: the one to
        write to (-1: none), and those to read from."""
        stdin, readers = -1, {}
        if with_stdin:
            self.options["stdin"], stdin = self.pipe()
        for name in ["stdout"] if self.options["stderr"] == "join" else ["stdout", "stderr"]:
            readers[name], self.options[name] = self.pipe()
        self.fds = [fd for fd in self.fds if fd not in (stdin, *readers.values())]
        return stdin, readers

    def close(self) -> None:
        """Closes what was lent to the run, and removes the files that were made for it."""
        if self.is_kept:
            return  # processes that go on may need them; the sandbox's end tidies up
        while self.fds:
            os.close(self.fds.pop())
        drop, self.drop = self.drop, None
        if drop is not None:
            drop.close()
        home, self.temporary_home = self.temporary_home, None
        if home is not None:
            home.remove()


@dataclass(frozen=True)
class Endpoint:
    """Where the host finds a port of the sandbox."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """For web servers."""
        return f"http://{self.host}:{self.port}"


def argv_of(cmd: Command, shell: Optional[str]) -> List[str]:
    """A string is run by a shell, a sequence is the program and its arguments."""
    if isinstance(cmd, str):
        return [shell or "/bin/sh", "-c", cmd]
    return [os.fsdecode(word) for word in cmd]


def set_in(policy: _cordon.Policy, key: str, value: str) -> None:
    """Adds a setting to a policy of the library."""
    try:
        policy.set(key, value)
    except _cordon.Error as error:
        raise_native(error)


def free_port() -> int:
    """A loopback port that is not in use at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def _open_fd(number: int) -> int:
    try:
        os.fstat(number)
    except (OSError, OverflowError):
        raise UsageError(f"stdin: {number} is no open file descriptor") from None
    return number


def _stdin(value: Stdin) -> Union[None, bytes, int]:
    """Nothing (end of file at once), bytes or a descriptor."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        raise UsageError("stdin: bytes, text, a descriptor or a file is needed")
    if isinstance(value, int):
        return _open_fd(value)
    if isinstance(value, str):
        return _arguments.data("stdin", value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    try:
        return int(value.fileno())
    except (AttributeError, OSError, ValueError):
        pass
    if not callable(getattr(value, "read", None)):
        raise UsageError("stdin: bytes, text, a descriptor or a file is needed")
    got = value.read()
    return got if isinstance(got, bytes) else str(got).encode("utf-8", "surrogateescape")


def missing_cwd(
    cwd: StrPath, code: Optional[str], number: Optional[int], message: Optional[str]
) -> None:
    """Raises FileNotFoundError (or what fits) if the error is about the working directory."""
    if code not in ("path", "setup") or "cannot start in" not in (message or ""):
        return
    if number not in (errno.ENOTDIR, errno.EACCES):
        number = errno.ENOENT
    raise OSError(number, os.strerror(number), os.fspath(cwd))
