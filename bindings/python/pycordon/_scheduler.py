# SPDX-License-Identifier: Apache-2.0
"""The scheduler: many pieces of code, each in a fresh sandbox, as many at once as the caller allows.

It waits for nothing by itself: runs belong to the tasks that await them. What only computes runs in a
pool; what has files gets a sandbox of its own, which is removed before run() returns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union, cast,
)  # fmt: skip
from contextlib import asynccontextmanager

from . import _arguments, _keys
from ._aio import AsyncSandbox
from ._aio_wait import in_thread
from ._code import Content
from ._errors import ClosedError, PolicyError, UsageError
from ._fileops import FileInfo, contents
from ._held import Wanted, wanted as counts_wanted
from ._job import Callback, StrPath
from ._policy import Config, Policy, from_document, make_policy, stated
from ._pool import default_workers
from ._result import Result
from ._scheduler_kit import Gate, Kit, Kits, name_of, package_words
from ._tighten import loosened

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._scheduler_session import SchedulerSession
    from ._types import RunSettings, SandboxSettings

#: Seconds of a run, where neither the scheduler nor the run says.
RUN_SECONDS = 60.0
#: Files that one run may bring or give back, and patterns for them.
FILES_MAX = 1000
OUTPUTS_MAX = 100
_GLOB = frozenset("*?[")
_PYTHON = ("python", "python3", "py")
# What a run without a word about it has: the library's own defaults. A run may not have more than these.
_DEFAULTS = {
    "limits.grace": "1s",
    "limits.memory": "256M",
    "limits.procs": 256,
    "limits.open_files": 1024,
    "limits.disk": "256M",
    "limits.output": "1M",
}


@dataclass(frozen=True, repr=False)
class ScheduledResult(Result):
    """The Result of a scheduled run, with the files that it was asked for."""

    files: Mapping[str, bytes] = field(default_factory=dict)  # of outputs=
    missing: Mapping[str, str] = field(default_factory=dict)  # outputs that are not there, and why
    queued_ms: float = 0.0  # until its turn came, packages included

    @classmethod
    def of(cls, result: Result, **more: Any) -> "ScheduledResult":
        """A result with what the scheduler knows besides."""
        return cls(**{one.name: getattr(result, one.name) for one in fields(Result)}, **more)


class Scheduler:
    """Runs pieces of code for many callers of one event loop, each in a fresh sandbox.

    >>> async with Scheduler(max_concurrency=4) as scheduler:
    ...     result = await scheduler.run("print(6 * 7)", timeout_seconds=10)
    '42\\n'

    ``config``, ``env`` and ``settings`` are those of a Sandbox and hold for every run; what a run says
    itself may only tighten them. Without any: 60 seconds, 256 MiB, no network.

    ``max_concurrency``: runs at once (default: as many as CPUs). ``max_queue``: how many more may wait;
    beyond that QueueFullError. ``max_sessions``: sessions at once; ``session_seconds``: how long one may
    live. ``packages``: for all runs, also files with requirements. ``build_packages``: packages may run
    code to be installed. ``allowed_packages``: the names that a run may ask for; None: any, []: none.
    ``parked``, ``preload``, ``warm`` and ``fresh_aslr``: as for a Pool. ``max_file_bytes``: of all files that a run gives back.
    """

    def __init__(
        self,
        config: Config = None,
        *,
        max_concurrency: Optional[int] = None,
        max_queue: int = 10_000,
        max_sessions: int = 16,
        session_seconds: float = 3600.0,
        packages: Sequence[str] = (),
        build_packages: bool = False,
        allowed_packages: Optional[Sequence[str]] = None,
        parked: Optional[int] = None,
        preload: Union[str, Sequence[str], None] = None,
        warm: Wanted = None,
        fresh_aslr: bool = False,
        env: Optional[Mapping[str, str]] = None,
        max_file_bytes: int = 64 << 20,
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        for name in ("workdir", "persist", "keep", "id", "name", "allow_overrides"):
            if name in settings:
                raise UsageError(f"a scheduler has no '{name}': each run is fresh", hint="use a Sandbox")
        many = default_workers() if max_concurrency is None else max_concurrency
        self._room = _arguments.whole("max_concurrency", many, 1, 4096)
        self._queue = _arguments.whole("max_queue", max_queue, 0, 1 << 20)
        self._most_sessions = _arguments.whole("max_sessions", max_sessions, 0, 4096)
        self._file_bytes = _arguments.whole("max_file_bytes", max_file_bytes, 0, 1 << 40)
        self._build_packages = _arguments.flag("build_packages", build_packages)
        policy = make_policy(config, cast(Dict[str, Any], settings))
        given = policy.effective()
        if "limits.wall" not in given and "limits.wall" not in policy.unlimited:
            policy = policy.merged(limits_wall=RUN_SECONDS)
        self._ceiling = _with_defaults(policy)
        self._seconds = _keys.magnitude("limits.wall", policy.effective().get("limits.wall"))
        self._policy = policy
        self._session_policy = _for_sessions(policy, _check_seconds("session_seconds", session_seconds))
        words = _arguments.words("packages", packages)
        self._allowed = None if allowed_packages is None else {name_of(w) for w in allowed_packages}
        env = _arguments.variables("env", env)
        ahead = {"preload": preload, "warm": counts_wanted(warm), "fresh_aslr": fresh_aslr}
        self._kits = Kits(policy, env, words, build_packages, self._room, parked, ahead, self._most_sessions)
        self._gate: Optional[Gate] = None
        self._session_gate: Optional[Gate] = None
        self._boxes: Set[AsyncSandbox] = set()
        self._sessions: "Set[SchedulerSession]" = set()
        self._is_closed = False

    async def __aenter__(self) -> "Scheduler":
        return await self.start()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def policy(self) -> Policy:
        """What every run may do at most."""
        return self._policy

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._is_closed

    def stats(self) -> Dict[str, int]:
        """What goes on now: ``running``, ``waiting``, ``sessions``."""
        gate = self._gate
        running, waiting = (0, 0) if gate is None else (gate.running, gate.waiting)
        return {"running": running, "waiting": waiting, "sessions": len(self._sessions)}

    async def start(self) -> "Scheduler":
        """Installs the packages and makes the first sandboxes now instead of at the first run."""
        self._gates()
        try:
            self._kits.give_back(await self._kits.take(()))
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Ends what runs (its callers get ClosedError) and what waits, and goes on when nothing is left. So it
        is not for the callback of a run."""
        self._is_closed = True
        for session in list(self._sessions):
            await session.close()
        for box in list(self._boxes):
            await box.close()
        await self._kits.close()
        for gate in (self._gate, self._session_gate):
            if gate is not None:
                await gate.until_idle()

    async def run(
        self,
        code: Content,
        language: str = "python",
        *,
        packages: Sequence[str] = (),
        timeout_seconds: Optional[float] = None,
        files: Optional[Mapping[str, Content]] = None,
        outputs: Sequence[str] = (),
        args: Sequence[str] = (),
        stdin: Optional[Content] = None,
        env: Optional[Mapping[str, str]] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        **tighter: "Unpack[RunSettings]",
    ) -> ScheduledResult:
        """Runs code in a fresh sandbox and waits for its end. A cancelled task ends it.

        ``language``: ``python``, ``javascript``, another one of Sandbox.run_code(), or ``raw``, a shell
        command. ``packages``: names for pip and npm (``"npm:lodash"``); installed before, if they were
        not, without counting against the time. ``files``: name -> content, put where the code starts,
        and writable. ``outputs``: paths or patterns (``"*.png"``) of files to give back in ``files``.
        ``on_stdout`` and ``on_stderr`` get bytes as they come, and may be coroutine functions.
        ``timeout_seconds`` and ``tighter`` may only tighten what the scheduler states.
        """
        began = time.monotonic()
        words = package_words(packages, self._allowed)
        arguments = self._arguments(tighter, timeout_seconds)
        # No descriptor: a number from elsewhere must not name one of this process.
        given = None if stdin is None else _arguments.data("stdin", stdin)
        arguments.update(stdin=given, env=env, on_stdout=on_stdout, on_stderr=on_stderr)
        _arguments.callback("on_stdout", on_stdout)
        _arguments.callback("on_stderr", on_stderr)
        brought, wanted = _named(files), _arguments.words("outputs", outputs)
        if len(wanted) > OUTPUTS_MAX:
            raise UsageError(f"outputs: {len(wanted)} are too many, {OUTPUTS_MAX} is the most")
        gate, _ = self._gates()
        with gate.admitted():
            async with self._kit(words) as kit, gate.turn():
                self._check_open()
                queued = (time.monotonic() - began) * 1000
                if not brought and not wanted:
                    result = await _begin(kit.pool, code, language, args, arguments)
                    return ScheduledResult.of(result, queued_ms=queued)
                return await self._with_files(kit, code, language, args, arguments, brought, wanted, queued)

    async def _with_files(
        self, kit: Kit, code: Content, language: str, args: Sequence[str], arguments: Mapping[str, Any],
        brought: Mapping[str, bytes], wanted: Sequence[str], queued: float,
    ) -> ScheduledResult:  # fmt: skip
        if language in _PYTHON:
            await kit.prepare()
        async with self._box(kit) as box:
            await _put(box, brought)
            result = await _begin(box, code, language, args, arguments)
            found, missing = await self._collect(box, wanted)
        return ScheduledResult.of(result, files=found, missing=missing, queued_ms=queued)

    def session(
        self,
        language: str = "python",
        *,
        packages: Sequence[str] = (),
        files: Optional[Mapping[str, Content]] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[StrPath] = None,
        **tighter: "Unpack[RunSettings]",
    ) -> "SchedulerSession":
        """A sandbox that keeps state from run to run: an asynchronous context manager. ``language``:
        ``python``, ``javascript``, ``bash`` or ``raw`` (bash). The rest is as for run()."""
        from ._scheduler_session import SchedulerSession

        words = package_words(packages, self._allowed)
        self._check(tighter)
        return SchedulerSession(self, language, words, _named(files), env, cwd, cast(Dict[str, Any], tighter))

    # --- behind it -------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the scheduler is closed")

    def _gates(self) -> Tuple[Gate, Gate]:
        """Made late: they belong to the loop that is running."""
        self._check_open()
        if self._gate is None or self._session_gate is None:
            self._gate = Gate(self._room, self._queue, "runs")
            self._session_gate = Gate(self._most_sessions, 0, "sessions")
        return self._gate, self._session_gate

    def _check(self, tighter: Mapping[str, Any]) -> None:
        """PolicyError if a run asks for more than the scheduler states, the defaults included."""
        if "timeout" in tighter or "policy" in tighter:
            raise UsageError("a scheduled run has no 'timeout' or 'policy'", hint="timeout_seconds=")
        over = Policy(**tighter)
        why = loosened(self._ceiling, stated(over), over.unlimited)
        if why:
            raise PolicyError(f"a run cannot have more than its scheduler: {why}")

    def _limit(self, seconds: Optional[float]) -> Optional[float]:
        """The time of a run, in seconds; None: as long as it likes."""
        if seconds is None:
            return self._seconds
        _check_seconds("timeout_seconds", seconds)
        if self._seconds is not None and seconds > self._seconds:
            raise PolicyError(
                f"timeout_seconds: {seconds:g} is more than the scheduler's {self._seconds:g}",
                hint="set max_execution_seconds on the Scheduler",
            )
        return float(seconds)

    def _arguments(self, tighter: Mapping[str, Any], seconds: Optional[float]) -> Dict[str, Any]:
        self._check(tighter)
        limit = self._limit(seconds)
        return {**tighter, **({} if limit is None or seconds is None else {"timeout": limit})}

    @asynccontextmanager
    async def _kit(self, words: Tuple[str, ...]) -> AsyncIterator[Kit]:
        self._check_open()
        kit = await self._kits.take(words)
        try:
            yield kit
        finally:
            self._kits.give_back(kit)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The turn of an execution in a session."""
        gate, _ = self._gates()
        with gate.admitted():
            async with gate.turn():
                self._check_open()
                yield

    @asynccontextmanager
    async def _box(self, kit: Kit, policy: Optional[Policy] = None) -> AsyncIterator[AsyncSandbox]:
        """A sandbox with files, which are removed at the end."""
        box = kit.fresh(policy)
        self._boxes.add(box)
        try:
            yield box
        finally:
            self._boxes.discard(box)
            await box.close()

    async def _collect(
        self, box: AsyncSandbox, wanted: Sequence[str]
    ) -> Tuple[Dict[str, bytes], Dict[str, str]]:
        """The files that were asked for, as far as they are there and fit. Nothing of the run is left that
        could change them meanwhile."""
        missing: Dict[str, str] = {}
        chosen: List[FileInfo] = []
        room = self._file_bytes
        for one in await _matches(box, wanted, missing):
            if len(chosen) >= FILES_MAX:
                missing[one.path] = f"more than {FILES_MAX} files"
                break
            if one.size > room:
                missing[one.path] = f"more than {self._file_bytes} bytes together"
                continue
            chosen.append(one)
            room -= one.size
        found: Dict[str, bytes] = {}
        answers = await box.files._do(contents(chosen, None))
        for one, data in zip(chosen, answers):
            if isinstance(data, bytes):
                found[one.path] = data
            else:
                missing[one.path] = data.strerror or str(data)
        return found, missing


async def _matches(box: AsyncSandbox, wanted: Sequence[str], missing: Dict[str, str]) -> List[FileInfo]:
    """The files that paths and patterns stand for, each once."""
    found: Dict[str, FileInfo] = {}
    for path in wanted:
        try:
            if _GLOB.intersection(path):
                found.update((one.path, one) for one in await box.files.glob(path) if one.is_file)
                continue
            one = await box.files.stat(path)
            if one.is_file:
                found[path] = one
            else:
                missing[path] = f"it is no file ({one.type})"
        except OSError as error:
            missing[path] = error.strerror or str(error)
    return list(found.values())


async def _begin(
    box: AsyncSandbox, code: Content, language: str, args: Sequence[str], arguments: Mapping[str, Any]
) -> Result:
    if language != "raw":
        return await box.run_code(code, language, args=args, **arguments)
    if args:
        raise UsageError("args: a raw command has no arguments of its own", hint="write them into it")
    if not isinstance(code, str):
        raise UsageError("code: a raw command is text")
    return await box.run(code, **arguments)


async def _put(box: AsyncSandbox, files: Mapping[str, bytes]) -> None:
    """Nothing has run in the sandbox yet: the host writes them, as it does with the code of a run. Where that
    cannot be, or fails, a run does it, which says why."""
    if not files or await in_thread(box._engine.private.fill, files):
        return
    for error in await box.files.put_many(list(files.items())):
        if error is not None:
            raise error


def _check_seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.001 <= value <= 366 * 86400:
        raise UsageError(f"{name}: {value!r:.40} is no number of seconds")
    return float(value)


def _named(files: Optional[Mapping[str, Content]]) -> Dict[str, bytes]:
    """The files that a run brings, checked: names below the directory that it starts in."""
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise UsageError(f"files: a dict of names and contents is needed, not {type(files).__name__}")
    if len(files) > FILES_MAX:
        raise UsageError(f"files: {len(files)} are too many, {FILES_MAX} is the most")
    found: Dict[str, bytes] = {}
    for key, content in files.items():
        name = _arguments.path("files", key)
        if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
            raise UsageError(f"files: {name!r:.60} is no name below the directory of the run")
        found[name] = _arguments.data(f"files[{name!r:.60}]", content)
    return found


def _with_defaults(policy: Policy) -> Policy:
    """The policy with the limits that hold where it states none."""
    doc = policy.effective()
    for key, value in _DEFAULTS.items():
        if key not in doc and key not in policy.unlimited:
            doc[key] = value
    return from_document(doc, policy.unlimited)


def _for_sessions(policy: Policy, seconds: float) -> Policy:
    """The policy of a session: the time of a run holds for each execution, not for all of them."""
    doc = policy.effective()
    doc["limits.wall"] = _keys.value_for("limits.wall", "session_seconds", seconds)
    return from_document(doc, policy.unlimited - {"limits.wall"})
