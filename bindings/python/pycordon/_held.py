# SPDX-License-Identifier: Apache-2.0
"""Interpreters that have started and wait for a program, each in the sandbox of a run that has not
begun. Each is used for one program, and then it is over like any run.

The interpreter is that of a cold run, started by the same command in the same sandbox, with a library
that holds it when it first looks at its program (src/warm/hold.c). So only the program, what it reads on
standard input and its time are still open. A run that asks for anything else starts cold.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple, Union

from . import _arguments, _cordon, _keys
from ._code import LANGUAGES, Code, source_files
from ._errors import SetupError, UsageError
from ._job import Job, RunArguments
from ._python import interpreter
from ._result import Result
from ._stock import MOST, Stock, states
from ._warm import MODULES

if TYPE_CHECKING:
    from ._engine import Engine, Started
    from ._policy import Policy
    from ._settings import Settings

_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_hold.so")
_INSIDE = ".hold.so"  # beside the program, until that begins
_START_SECONDS = 60.0
_CODE_MAX = 1 << 20  # of a larger program the time is its own
#: With these a run does something to the host, or needs it for itself, from its start on.
_NOT_AHEAD = ("fs.write", "fs.workspace", "net.publish")
#: The interpreter, or the library, would do something before the program is there.
_NOT_SET = ("LD_PRELOAD", "CORDON_HOLD", "CORDON_HOLD_IMPORT", "BASH_ENV", "NODE_OPTIONS")
_LANGUAGES = {"javascript": "javascript", "js": "javascript", "node": "javascript", "nodejs": "javascript", "bash": "bash"}

#: What the argument ``warm`` may be.
Wanted = Union[Mapping[str, int], None]


def wanted(warm: Wanted) -> Dict[str, int]:
    """The argument, checked: how many of each language."""
    if warm is None:
        return {}
    if not isinstance(warm, Mapping):
        raise UsageError("warm: a mapping is needed", hint="warm={'javascript': 2, 'bash': 1}")
    found = {}
    for language, count in warm.items():
        name = _LANGUAGES.get(_arguments.text("warm", language).lower())
        if name is None:
            raise UsageError(
                f"warm: '{language}' does not start warm this way",
                hint="javascript and bash do; preload= is for Python",
            )
        if name in found:
            raise UsageError(f"warm: '{name}' has two names here", hint="use one of them")
        found[name] = _arguments.whole(f"warm[{language!r}]", count, 1, MOST)
    return found


def counts_of(settings: "Settings") -> Dict[str, int]:
    """How many of each language wait for a sandbox; UsageError if none can."""
    counts = dict(settings.warm)
    if settings.fresh_aslr:
        counts["python"] = settings.parked or 2
    doc = settings.policy.effective()
    used = [key for key in _NOT_AHEAD if key in doc]
    if counts and (settings.persist or used):
        what = "warm" if settings.warm else "fresh_aslr"
        if settings.persist:
            raise UsageError(f"{what}: no program can wait where runs keep their files", hint="use a Pool, or persist=False")
        raise UsageError(f"{what}: no program can wait where the policy has {used[0]}", hint="leave it out")
    return counts


def _is_plain(policy: "Policy") -> bool:
    doc = policy.effective()
    return not any(name in _NOT_SET for name in (*doc.get("env.set", ()), *doc.get("env.pass", ())))


@lru_cache(maxsize=1)
def _library() -> bytes:
    with open(_LIBRARY, "rb") as file:
        return file.read()


def _command(name: str) -> Tuple[str, ...]:
    """The words before the program's file."""
    return LANGUAGES[name].argv or (interpreter() or "",)


class Held:
    """A run that waits for its program."""

    def __init__(self, started: "Started", program: List[str], state: List[object]) -> None:
        self.started = started
        self._program, self._states = program, state
        self.channel = socket.socket(fileno=os.dup(started.run.channel()))

    def wait(self) -> None:
        """Until its interpreter has started."""
        run, end = self.started.run, time.monotonic() + _START_SECONDS
        look = select.poll()
        for fd in (run.fileno(), self.channel.fileno()):
            look.register(fd, select.POLLIN)
        said = b""
        while not said and time.monotonic() < end and not run.process():
            look.poll(1000)
            try:
                said = self.channel.recv(1) or b"end"
            except BlockingIOError:
                pass
        if said != b"!":
            raise SetupError(f"the interpreter does not wait for a program: {self._why()}")

    def _why(self) -> str:
        raw = self.started.run.result() if self.started.run.wait(1.0) else None
        text = b"" if raw is None else raw["stderr"] or b""
        return text.decode("utf-8", "replace").strip()[-400:] or "it ended, or is no ordinary program"

    def is_as_new(self) -> bool:
        """Whether it waits, and one that this thread started now would be the same."""
        try:
            return self.started.run.is_as_new() and states(self._program) == self._states
        except _cordon.Error:
            return False

    def begin(self, filename: str, data: bytes, stdin: bytes, wall_ms: int) -> bool:
        """Gives it its program. False: it has ended by itself, without one."""
        drop = self.started.job.drop
        assert drop is not None
        try:
            drop.fill(filename, data)
            self.started.run.begin(stdin, wall_ms)
            self.channel.send(b"!", socket.MSG_NOSIGNAL)
        except (_cordon.Error, OSError):
            return False
        self.channel.close()
        return True

    def close(self) -> None:
        """Ends it."""
        self.channel.close()
        self.started.abandon()
        self.started.job.close()


class HeldStock(Stock[Held]):
    """Those of one sandbox."""

    def begin(self, args: RunArguments) -> "Optional[Started]":
        """Starts a run of code with one that waits; None: start it cold."""
        engine, code = self._engine(), args.code
        name = None if code is None else self._name_of(code, args)
        if engine is None or code is None or name is None or engine.runs.endpoints:
            return None
        policy = engine.policies.for_run(args)
        wall_ms = _time_of(policy, engine.settings.policy)
        stdin = args.stdin_for_library() or b""
        contents = source_files(code.filename, code.content, None)
        data = contents[code.filename]
        if wall_ms is None or not isinstance(stdin, bytes) or len(data) > _CODE_MAX:
            return None
        held = self.take(name)
        while held is not None and not held.begin(code.filename, data, stdin, wall_ms):
            held.close()
            held = self.take(name)
        if held is None:
            return None
        held.started.job.stated = policy
        return held.started

    def _name_of(self, code: Code, args: RunArguments) -> Optional[str]:
        """The language, if nothing is asked for that was settled at the start."""
        if args.env or args.cwd is not None or args.tty or args.merge or args.orphans != "kill" or args.is_streamed:
            return None
        if code.compiled is not None or code.files or code.file_index != len(code.argv) - 1:
            return None
        for name in self._counts:
            if code.filename == LANGUAGES[name].filename and tuple(code.argv[:-1]) == _command(name):
                return name
        return None

    def _make(self, engine: "Engine", name: str) -> Held:
        if not os.path.exists(_LIBRARY):
            raise SetupError("this build cannot hold interpreters")
        if not _is_plain(engine.settings.policy):
            raise SetupError("the sandbox has a variable with which interpreters start otherwise")
        if engine.level == "landlock":
            raise SetupError("programs do not wait at level landlock")
        program = _program(engine, name)
        state = states(program)
        code = Code.make("", name, None, (), {_INSIDE: _library()})
        started = engine.begin(RunArguments(code.argv, code=code), lambda job: _connect(engine, job, name))
        if isinstance(started, Result):
            started.raise_for_status()
            raise SetupError("the interpreter was not started")
        try:
            held = Held(started, program, state)
        except BaseException:
            started.abandon()
            started.job.close()
            raise
        try:
            held.wait()
            assert started.job.drop is not None
            started.job.drop.remove(_INSIDE)
        except BaseException:
            held.close()
            raise
        return held


def _connect(engine: "Engine", job: Job, name: str) -> None:
    assert job.drop is not None
    place = engine.private.inside_code(job.drop.path)
    variables = {"LD_PRELOAD": f"{place}/{_INSIDE}", "CORDON_HOLD": place}
    if name == "python":
        variables["CORDON_HOLD_IMPORT"] = ",".join((*MODULES, *(engine.settings.preload or ())))
    for variable, value in variables.items():
        job.set("env.set", f"{variable}={value}")
    job.options.update(channel=True, ahead=True, held=True)


def _program(engine: "Engine", name: str) -> List[str]:
    """The host's file that is started."""
    path = engine.settings.in_path(os.environ.get("PATH") or os.defpath)
    return [shutil.which(_command(name)[0], path=path) or ""]


def _time_of(policy: "Policy", usual: "Policy") -> Optional[int]:
    """limits.wall of a run in milliseconds: 0: as usual, -1: none; None if it differs from the sandbox's policy
    in anything else."""
    if policy is usual:
        return 0
    mine, theirs = policy.effective(), usual.effective()
    wall = mine.pop("limits.wall", None)
    theirs.pop("limits.wall", None)
    key = {"limits.wall"}
    if mine != theirs or policy.unlimited - key != usual.unlimited - key:
        return None
    if wall is None:
        return -1 if "limits.wall" in policy.unlimited else 0
    seconds = _keys.magnitude("limits.wall", wall)
    return None if seconds is None else max(1, round(seconds * 1000))
