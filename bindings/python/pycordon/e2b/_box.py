# SPDX-License-Identifier: Apache-2.0
"""A sandbox of this process as both fronts of the façade use it: a session, its clock and its commands."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from .. import _arguments
from .._in_session import InSession
from .._python import interpreter
from .._session_core import SessionCore
from .._session_reader import Reader, ReadFiles
from ._errors import (
    InvalidArgumentException, NotFoundException, RateLimitException, SandboxNotFoundException,
    SandboxNotRunningException, not_here, translated,
)  # fmt: skip
from ._models import ProcessInfo, SandboxInfo, SandboxState
from ._options import Options
from ._running import Running

HOME = "/home/user"
#: Sandboxes of one process, and commands of one sandbox that run at the same time.
BOXES_MAX = 256
COMMANDS_MAX = 256
#: What is still known of commands that have ended, for connect().
_ENDED_KEPT = 16
DEFAULT_SECONDS = 300
_boxes: "Dict[str, Box]" = {}
_boxes_lock = threading.Lock()


class BoxFiles(ReadFiles):
    """The files of a box."""

    def __init__(self, box: "Box") -> None:
        super().__init__(box.core)


class Box:
    """One sandbox. It lives until kill(), or until its time is over, whoever still has an object for it."""

    def __init__(self, options: Options) -> None:
        self.id = "i" + secrets.token_hex(10)
        self.options = options
        self.envs = options.envs
        with translated():
            self.core = SessionCore(options.config, None, self.envs, interpreter(), options.settings, HOME)
        self._started_at = datetime.now(timezone.utc)
        self._deadline = 0.0
        self.reason = "it was killed"
        self.lock = threading.Lock()
        self.kernels: Any = None  # the contexts, made by the first front
        self.closers: List[Callable[[], object]] = []  # called when it is over
        self._pids = 0
        self._known: Dict[int, Running] = {}
        self._shell = shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"
        try:
            self.set_timeout(options.timeout)
            with _boxes_lock:
                if len(_boxes) >= BOXES_MAX:
                    raise RateLimitException(f"{BOXES_MAX} sandboxes of this process are running: kill() some")
                _boxes[self.id] = self
        except BaseException:
            self.core.close()
            raise
        self.reader: Reader[Running] = Reader(
            self.core, lambda: self._deadline, self._expired, self._ended, self._over
        )
        self.sandbox = InSession(self.core)
        try:
            with translated():
                #: Where commands start: /home/user, or a private directory at level landlock.
                self.home = BoxFiles(self).realpath(".")
        except BaseException:
            self.kill()
            raise

    # --- its life --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it is there."""
        return not self.core.closed

    def check(self) -> None:
        """SandboxNotRunningException if it is not."""
        if self.core.closed:
            raise SandboxNotRunningException(
                f"sandbox {self.id} was not found: {self.reason}. 'timeout' at create(), or set_timeout(), "
                "keeps one longer"
            )

    def set_timeout(self, seconds: Union[int, float]) -> None:
        """How long it still lives, from now on."""
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e9:
            raise InvalidArgumentException(f"timeout: {seconds!r:.40} is no number of seconds")
        self._end_at = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        self._deadline = time.monotonic() + seconds
        if hasattr(self, "reader"):
            self.reader.wake()

    def extend(self, seconds: Union[int, float]) -> None:
        """The same, unless it lives longer anyway."""
        if time.monotonic() + seconds > self._deadline:
            self.set_timeout(seconds)

    def kill(self) -> bool:
        """Ends it with everything in it; False: that has happened before."""
        with _boxes_lock:
            was = _boxes.pop(self.id, None) is not None
        if not self.core.closed:
            self.core.close()
        if hasattr(self, "reader"):
            self.reader.wake()
        return was

    def _expired(self) -> None:
        self.reason = "it reached its timeout"
        self.kill()

    def _ended(self) -> None:
        receipt = self.core.receipt() or {}
        self.reason = f"it was ended ({receipt.get('kind', 'unknown')})"
        self.kill()

    def _over(self) -> None:
        for close in self.closers:
            close()

    def info(self) -> SandboxInfo:
        """What is known from outside."""
        self.check()
        memory = self.core.policy.get("limits_memory")
        return SandboxInfo(
            sandbox_id=self.id, sandbox_domain=None, template_id=self.options.template, name=None,
            metadata=dict(self.options.metadata), started_at=self._started_at, end_at=self._end_at,
            state=SandboxState.RUNNING, cpu_count=len(os.sched_getaffinity(0)),
            memory_mb=_mebibytes(memory), envd_version="0.0.0",
            allow_internet_access=bool(self.core.policy.get("net_allow")),
        )  # fmt: skip

    def host_of(self, port: int) -> str:
        """Where the host finds a port inside."""
        self.check()
        for one in self.core.published():
            if one.port == port:
                return f"{one.address}:{one.host_port}"
        raise InvalidArgumentException(
            f"port {port} is not published: Sandbox.create(net_publish=[{port}]) makes it reachable from this machine"
        )

    # --- commands --------------------------------------------------------------------------------

    def path(self, path: str) -> str:
        """A path inside; relative ones begin in the home directory."""
        with translated():
            text = _arguments.path("path", path)
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        while text.startswith("./"):
            text = text[2:].lstrip("/")
        if text in ("", "."):
            return self.home
        return text if text.startswith("/") else os.path.join(self.home, text)

    def start(
        self, cmd: str, envs: Optional[Mapping[str, str]], user: Optional[str], cwd: Optional[str],
        stdin: Optional[bool], timeout: Optional[float],
    ) -> Running:  # fmt: skip
        """Starts a command."""
        self.check()
        check_user(user)
        if len(self.reader.running()) >= COMMANDS_MAX:
            raise RateLimitException(f"{COMMANDS_MAX} commands of this sandbox are running")
        limit = 0 if timeout is None or timeout == 0 else max(1, int(check_seconds(timeout) * 1000))
        fds: List[int] = []
        try:
            with translated():
                options: Dict[str, Any] = {"env": _arguments.variables("envs", envs), "wall_ms": limit, "keep": True}
                text = _arguments.text("cmd", cmd)
                if cwd is not None:
                    options["cwd"] = self.path(cwd)
                for name in ("stdout", "stderr"):
                    fds += os.pipe2(os.O_CLOEXEC)
                    options[name] = fds[-1]
                    os.set_blocking(fds[-2], False)
                if stdin:
                    fds += os.pipe2(os.O_CLOEXEC)
                    options["stdin"] = fds[-2]
                    os.set_blocking(fds[-1], False)
                command = self.core.exec([self._shell, "-c", text], **options)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        for fd in (fds[1], fds[3], *fds[4:5]):
            os.close(fd)
        with self.lock:
            self._pids += 1
            running = Running(
                self._pids, command, {fds[0]: "stdout", fds[2]: "stderr"}, fds[5] if stdin else -1, text,
                dict(envs or {}), cwd,
            )  # fmt: skip
            self._known[running.pid] = running
            ended = [pid for pid, one in self._known.items() if one.is_done]
            for pid in ended[:-_ENDED_KEPT]:
                del self._known[pid]
        self.reader.add(running)
        return running

    def find(self, pid: int) -> Running:
        """A command by its number."""
        self.check()
        with self.lock:
            found = self._known.get(pid)
        if found is None:
            raise NotFoundException(f"there is no command with pid {pid}")
        return found

    def commands(self) -> List[ProcessInfo]:
        """The commands that run."""
        self.check()
        shell = self._shell
        return [
            ProcessInfo(one.pid, None, shell, ["-c", one.cmd], dict(one.envs), one.cwd) for one in self.reader.running()
        ]


def find_box(sandbox_id: str) -> Box:
    """A sandbox of this process."""
    with _boxes_lock:
        found = _boxes.get(sandbox_id)
    if found is None:
        raise SandboxNotFoundException(f"sandbox {sandbox_id!r:.60} was not found in this process")
    return found


def all_boxes() -> List[Box]:
    """Those that run, in the order in which they were made."""
    with _boxes_lock:
        return list(_boxes.values())


def check_user(user: Optional[str]) -> None:
    """There is one user inside."""
    if user not in (None, "user"):
        not_here(f"user={user!r:.40}", "there is one user inside, 'user', and root is nobody")


def check_seconds(value: float) -> float:
    """A number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise InvalidArgumentException(f"timeout: {value!r:.40} is no number of seconds")
    return float(value)


def _mebibytes(size: Any) -> int:
    from .._keys import magnitude

    number = magnitude("limits.memory", size)
    return 0 if number is None or number > 1 << 60 else int(number) >> 20
