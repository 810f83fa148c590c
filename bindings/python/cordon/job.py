# SPDX-License-Identifier: Apache-2.0
"""Small parts of a run: its arguments, what was prepared for it, the view it has."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import arguments
from .errors import UsageError, raise_native

if TYPE_CHECKING:
    from . import _cordon
    from .code import Content, Drop
    from .policy import Config, Policy
    from .store import Home

Stdin = Union[None, bytes, bytearray, memoryview, str, int, IO[Any]]
Callback = Callable[[bytes], object]
StrPath = Union[str, "os.PathLike[str]"]


@dataclass
class RunArguments:
    """The arguments that run(), run_code() and popen() have in common."""

    shell: Optional[str] = None
    stdin: Stdin = None
    cwd: Optional[StrPath] = None
    env: Optional[Mapping[str, str]] = None
    timeout: Union[float, str, None] = None
    max_output: Union[int, str, None] = None
    merge: bool = False
    orphans: str = "kill"
    policy: "Config" = None
    tty: bool = False
    rows: int = 24
    cols: int = 80
    overrides: Dict[str, Any] = field(default_factory=dict)
    code: Optional[Tuple["Content", str, Optional[Mapping[str, "Content"]]]] = None
    code_index: int = 0
    search_first: Optional[str] = None

    def __post_init__(self) -> None:
        if self.orphans not in ("kill", "keep"):
            raise UsageError(f"orphans={self.orphans!r}: 'kill' or 'keep' is needed")
        if self.tty:
            self.rows = arguments.whole("rows", self.rows, 0, 65535)
            self.cols = arguments.whole("cols", self.cols, 0, 65535)


@dataclass
class Job:
    """A run that can be started, and what has to be tidied up when it is over."""

    policy: "_cordon.Policy"
    argv: List[str]
    merge: bool = False
    cwd: Optional[StrPath] = None
    options: Dict[str, Any] = field(default_factory=dict)
    drop: Optional["Drop"] = None
    own_home: Optional["Home"] = None
    is_kept: bool = False
    stated: Optional["Policy"] = None  # what the run may do, for its result
    fds: List[int] = field(default_factory=list)  # lent to the run
    drains: List[int] = field(default_factory=list)  # other ends, to be read if it goes on

    def set(self, key: str, value: str) -> None:
        """Adds to the run's policy."""
        set_in(self.policy, key, value)

    def pipe(self) -> Tuple[int, int]:
        """A pipe for a stream: (reading end, writing end). Both are closed with the job, unless
        they are taken out of ``fds`` before."""
        ends = os.pipe2(os.O_CLOEXEC)
        self.fds += ends
        return ends

    def close_fd(self, fd: int) -> None:
        """Closes one of ``fds``; twice is fine."""
        if fd in self.fds:
            self.fds.remove(fd)
            os.close(fd)

    def close(self) -> None:
        """Removes the code's directory, and the private directory if it was for this run only."""
        if self.is_kept:
            return  # what goes on may need them; the sandbox's end tidies up
        for fd in list(self.fds):
            self.close_fd(fd)
        drop, self.drop = self.drop, None
        if drop is not None:
            drop.close()
        home, self.own_home = self.own_home, None
        if home is not None:
            home.remove()


_SHOWING = ("bind", "rule", "overlay")


@dataclass(frozen=True)
class View:
    """What the plan says about every run of a sandbox."""

    level: str
    cwd: str
    home: str
    path: str
    host_uid: int
    host_gid: int
    shown: Tuple[str, ...]  # what of the host's files is there, whoever granted it

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any]) -> "View":
        """From the plan's JSON."""
        env = dict(entry.split("=", 1) for entry in plan["env"])
        ids = plan["ids"]
        return cls(
            plan["level"],
            plan["cwd"],
            env.get("HOME", "/"),
            env.get("PATH", os.defpath),
            ids["host_uid"],
            ids["host_gid"],
            tuple(step["path"] for step in plan["steps"] if step["do"] in _SHOWING),
        )


@dataclass(frozen=True)
class Endpoint:
    """Where the host finds a port of the sandbox's."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """For web servers."""
        return f"http://{self.host}:{self.port}"


def set_in(policy: "_cordon.Policy", key: str, value: str) -> None:
    """One more setting of a policy of the library."""
    from . import _cordon

    try:
        policy.set(key, value)
    except _cordon.Error as error:
        raise_native(error)


def free_port() -> int:
    """A port of the loopback that nobody uses at this moment."""
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


def stdin_of(value: Stdin) -> Union[None, bytes, int]:
    """What the library takes: nothing (end of file at once), bytes or a descriptor."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        raise UsageError("stdin: bytes, text, a descriptor or a file is needed")
    if isinstance(value, int):
        return _open_fd(value)
    if isinstance(value, str):
        return arguments.data("stdin", value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    try:
        return int(value.fileno())
    except (AttributeError, OSError, ValueError):
        pass
    if not hasattr(value, "read"):
        raise UsageError("stdin: bytes, text, a descriptor or a file is needed")
    got = value.read()
    return got if isinstance(got, bytes) else str(got).encode("utf-8", "surrogateescape")


def typed(stdin: Union[None, bytes, int]) -> Union[None, bytes, int]:
    """The same for a terminal, which has no end of its own: Ctrl-D after it, and once more to end a
    line that is not complete."""
    if isinstance(stdin, int):
        return stdin
    data = stdin or b""
    return data + (b"\4" if not data or data.endswith(b"\n") else b"\4\4")


def missing_cwd(
    cwd: StrPath, code: Optional[str], number: Optional[int], message: Optional[str]
) -> None:
    """Raises FileNotFoundError (or what fits) if the error is about the working directory."""
    if code not in ("path", "setup") or "cannot start in" not in (message or ""):
        return
    if number not in (errno.ENOTDIR, errno.EACCES):
        number = errno.ENOENT
    raise OSError(number, os.strerror(number), os.fspath(cwd))
