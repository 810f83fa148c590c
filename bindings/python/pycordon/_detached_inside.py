# SPDX-License-Identifier: Apache-2.0
"""Files and interpreters of a detached session.

Both are commands of the session that speak a protocol: the file server over its standard streams, an
interpreter over a channel. The supervisor, which is another process, hands the ends of this one's pipes and
socket to them as they are (``cordon session exec --channel``). So what an interpreter has written before its
answer is here when the answer is. The process of the command stands for the interpreter: an interrupt is a
signal to it, and its end is the interpreter's.
"""

from __future__ import annotations

import os
import re
import signal as signals
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar, cast

from . import _arguments, _detached
from ._detached import Done, Order
from ._errors import SetupError, StateError, UnsupportedError
from ._fileops import parse_answers_of
from ._front import Front
from ._job import Job, RunArguments, argv_of
from ._native import current_directory
from ._packages import COPIES, Found, Packages, before, install_more
from ._policy import Policy
from ._session_core import result_of
from ._session_state import Update
from ._view import host_home

if TYPE_CHECKING:
    from ._engine import Engine
    from ._fileops import Op
    from ._result import Result

T = TypeVar("T")
_SAY_MODULES = 'printf %s "$PYTHONPATH"'
#: At level landlock the private home is one of the host's directories.
_SCRATCH = re.compile(r".*/cordon-[0-9a-f]{16}/home\Z")
_END_SECONDS = 5.0  # for a process that was killed to be gone
#: In the names of directories with packages (docs/packages.md), and of copies of them.
_LAYERS = ("/cordon/packages/", f"/{COPIES}/")
#: What install() asks: the home inside, what that is, and variables.
_SAY_PLACE = 'printf "%s\\n" "$HOME"; stat -L -c %d:%i "$HOME"'
_SAY_VALUES = 'for name; do eval "printf \'%s\\\\0\' \\"\\$$name\\""; done'


def files_order(name: str, op: "Op[Any]", fd: int) -> Order[None]:
    """Serves the requests of one operation; the answers go to ``fd``."""

    def finish(done: Done) -> None:
        if done.status != 0:
            raise _detached.failed(done, SetupError)

    return Order(
        ["session", "exec", "--quiet", "--serve-files", "--kill-rest", "--timeout=300s", "--", name],
        finish,
        stdin=op.request,
        stdout=fd,
    )


def answered(op: "Op[T]", fd: int) -> T:
    """What an operation gives once its order was carried out."""
    return op.finish(parse_answers_of(fd, op.count))


class Place:
    """What the files and interpreters of a session need to know of it. The session itself holds this."""

    def __init__(self, name: str, policy: Optional[Policy], perform: Callable[[Order[Any]], Any]) -> None:
        self.name = name
        self.policy = policy
        self._check: Callable[[], object] = lambda: None
        self._perform = perform
        self.found = Found(None)
        #: Packages that came later: what interpreters that run have to be told.
        self.updates: List[Update] = []

    def watch(self, check: Callable[[], object]) -> None:
        """``check`` raises once the session's object is closed."""
        self._check = check

    def check_open(self) -> None:
        """ClosedError if the session's object is closed."""
        self._check()

    def writable_paths(self) -> List[str]:
        """Directories of the host that commands can change; all, if the session's policy is not known here."""
        if self.policy is None:
            return ["/"]
        return [os.path.realpath(path) for path in self.policy.effective().get("fs.write", ())]

    def modules(self) -> List[str]:
        """Directories with Python's modules of packages. The session's environment has them."""
        said = cast("Result", self._perform(_detached.exec_order(self.name, _shell(_SAY_MODULES), self.policy)))
        return _layers_in(said.stdout)

    # --- packages for a session that goes on. Each of these is an order, or what its result means.

    def ask_home(self) -> Order["Result"]:
        """Where home_of() finds the directory for copies."""
        self.check_open()
        return _detached.exec_order(self.name, _shell(_SAY_PLACE), self.policy)

    @staticmethod
    def home_of(said: "Result") -> str:
        """The home directory inside. What commands say is only used inside; what is the host's is left alone."""
        home, _, identity = said.stdout.rstrip("\n").rpartition("\n")
        if not said.ok or not home.startswith("/"):
            raise StateError("the session's home directory cannot be found", hint=said.explain() or None)
        with suppress(OSError):
            known = os.stat(home)
            if identity == f"{known.st_dev}:{known.st_ino}" and not _SCRATCH.match(home):
                raise host_home(home)
        return home

    def find_packages(
        self, packages: Tuple[object, ...], may_build: bool, line: Optional[Callable[[str], object]] = None
    ) -> Packages:
        """Finds or installs packages; the session does not see them yet."""
        self.check_open()
        return install_more(packages, self.policy or Policy(), may_build, line, current_directory())

    def ask_values(self, packages: Packages, copies: Mapping[str, str]) -> Order["Result"]:
        """Values of the variables that the packages change."""
        names = self.found.variables(packages, copies)
        return _detached.exec_order(self.name, _shell(_SAY_VALUES, *names), self.policy)

    def _values(self, packages: Packages, copies: Mapping[str, str], said: "Result") -> Dict[str, str]:
        """What ask_values() was told."""
        names, values = list(self.found.variables(packages, copies)), said.stdout.split("\0")
        if not said.ok or len(values) != len(names) + 1:
            raise StateError("the session's variables cannot be found", hint=said.explain() or None)
        return dict(zip(names, values))

    def set_values(self, packages: Packages, copies: Mapping[str, str], said: "Result") -> Order[None]:
        """The packages come before what is there."""
        made, old = self.found.variables(packages, copies), self._values(packages, copies, said)
        return _detached.env_order(self.name, {name: before(value, old[name] or None) for name, value in made.items()})

    def use_packages(self, packages: Packages, copies: Mapping[str, str], said: "Result") -> None:
        """They are there."""
        older = _layers_in(self._values(packages, copies, said).get("PYTHONPATH", ""))
        update = (self.found.variables(packages, copies), older)
        self.found.add(packages, copies)
        self.updates = [*self.updates, update]

    def check_there(self) -> None:
        """ClosedError if the session is over."""
        self._perform(_detached.status_order(self.name))


def _layers_in(value: str) -> List[str]:
    return [path for path in value.split(":") if any(part in path for part in _LAYERS)]


def _shell(script: str, *words: str) -> RunArguments:
    return RunArguments(["/bin/sh", "-c", script, "sh", *words], timeout=60)


class _Run:
    """The command's process, as the part of a run's interface that interpreters use."""

    def __init__(self, process: "subprocess.Popen[bytes]", watched: int, channel: int) -> None:
        self.process_of = process
        self._watched = watched
        self._channel = channel

    def fileno(self) -> int:
        return self._watched

    def channel(self) -> int:
        return self._channel

    def process(self) -> bool:
        """Whether it is over."""
        return self.process_of.poll() is not None

    def signal(self, number: int) -> None:
        assert number == signals.SIGINT  # the others end the command
        self.process_of.send_signal(number)

    def cancel(self) -> None:
        """The supervisor ends a command whose client is gone."""
        self.process_of.kill()

    def ends_soon(self) -> bool:
        """Whether it is over; that it will be is known."""
        with suppress(subprocess.TimeoutExpired):
            self.process_of.wait(_END_SECONDS)
        return self.process()

    def end(self) -> None:
        """Ends one that is the session's, for all who use it."""
        self.process_of.terminate()


class _Started:
    """It goes on; see Started."""

    def __init__(self, run: _Run, job: Job) -> None:
        self.run = run
        self.job = job

    def settle(self) -> "Result":
        """The result, once it is over."""
        status = self.run.process_of.wait()
        by_signal = 128 < status <= 192
        raw: Dict[str, Any] = {
            "kind": "cancelled" if status < 0 else "signaled" if by_signal else "exited",
            "status": status if status >= 0 else 137,
            "exit_code": status if status >= 0 and not by_signal else None,
            "signal": status - 128 if by_signal else None,
        }
        return result_of(raw, False, None, False)

    def abandon(self) -> None:
        """Ends it; there will be no result."""
        self.run.cancel()
        with suppress(subprocess.TimeoutExpired):
            self.run.process_of.wait(_END_SECONDS)


class _Engine:
    """Starts commands of a detached session as if each was a run of a sandbox."""

    def __init__(self, place: Place, env: Optional[Mapping[str, str]], shared: Optional[str]) -> None:
        self._place = place
        self._env = _arguments.variables("env", env)
        self._shared = shared

    def begin(self, args: RunArguments, connect: Callable[[Job], None]) -> _Started:
        self._place.check_open()
        job = Job(cast(Any, None), argv_of(args.cmd, args.shell), options={"stderr": "capture"})
        ends: List[socket.socket] = []
        try:
            connect(job)
            ends += socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            args = replace(args, env=self._env, orphans="kill")
            lifeline, _ = job.pipe()  # ended with this process, however that ends
            process = self._start(args, job, ends[1].fileno(), lifeline)
            ends[1].close()
            channel = ends[0].detach()
            watched = os.pidfd_open(process.pid)
            job.fds += [channel, watched]
        except BaseException:
            job.close()
            for end in ends:
                end.close()
            raise
        return _Started(_Run(process, watched, channel), job)

    def _start(
        self, args: RunArguments, job: Job, channel: int, lifeline: int
    ) -> "subprocess.Popen[bytes]":
        with _detached.channel_order(self._place.name, args, channel, self._shared).ready() as (words, options):
            options.update(stdin=lifeline, stdout=job.options["stdout"], stderr=job.options["stderr"], pass_fds=(channel,))
            try:
                return subprocess.Popen(words, **options)
            except OSError as error:
                raise _detached.cannot_start(error) from None


class InDetached(Front):
    """A detached session as the sandbox of an interpreter; see InSession. ``shared``: it is the session's own
    of this name, which its supervisor holds, and which goes on when this process is gone."""

    def __init__(
        self, place: Place, env: Optional[Mapping[str, str]] = None, shared: Optional[str] = None
    ) -> None:
        self._engine = cast("Engine", _Engine(place, env, shared))
        self._place = place
        self._is_shared = shared is not None

    def _modules(self) -> List[str]:
        return self._place.modules()

    def _packages(self) -> None:
        return None  # the session has them

    def _python(self) -> str:
        return "python3"

    def _updates(self) -> List[Update]:
        return self._place.updates

    def _check_there(self) -> None:
        self._place.check_there()

    def _check_own(self, what: str, instead: str) -> None:
        raise UnsupportedError(f"an interpreter of a detached session {what}", hint="a Session's can")
