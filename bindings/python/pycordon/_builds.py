# SPDX-License-Identifier: Apache-2.0
"""The compiled programs of a sandbox: who waits for which, and what is kept.

Compilers are waited for by a few threads, so that callers of every kind wait for the same thing: a program
that many runs need at once is compiled once. When the last caller stops waiting, its compiler is ended.
What was made is kept as bytes in this process, and each run is shown a copy of its own: no run can change
it for another one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Mapping, Optional, Tuple, Union

from . import _arguments, _keys
from ._code import Code, source_files
from ._compiler import Made, Outcome, compile_one, identity, policy_for
from ._errors import ClosedError, CommandNotFoundError, SystemCallError
from ._native import PerProcess
from ._python import search_path
from ._result import Result
from ._tighten import inside
from ._toolchains import Recipe, Request

if TYPE_CHECKING:
    from ._engine import Engine
    from ._job import RunArguments
    from ._policy import Policy
    from ._result import Usage
    from ._settings import Settings

_KEPT_MAX = 256 << 20  # bytes of all programs that are kept
_ENTRIES_MAX = 512
#: A program whose compiler reached a limit is not compiled again for so many times as long as that took.
_AGAIN_FACTOR = 2


class _Threads:
    """A few threads that come when there is work and go when there is none. The program's end does not
    wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: "Deque[Callable[[], object]]" = deque()
        self._running = 0
        self._most = max(2, min(8, os.cpu_count() or 2))

    def submit(self, work: Callable[[], object]) -> None:
        """Calls ``work`` in one of them, sooner or later."""
        with self._lock:
            self._waiting.append(work)
            if self._running == self._most:
                return
            self._running += 1
        try:
            threading.Thread(target=self._work, name="cordon-compile", daemon=True).start()
        except RuntimeError:  # no more threads: those that run will do it
            with self._lock:
                self._running -= 1
                if self._running or work not in self._waiting:
                    return
                self._waiting.remove(work)
            raise SystemCallError("no thread can be started to wait for a compiler") from None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                work = self._waiting.popleft()
            work()


_threads = PerProcess(_Threads)


class Build:
    """A program that is being compiled, or was, and how many wait for it."""

    def __init__(self) -> None:
        self.outcome: "Future[Outcome]" = Future()
        self.outcome.set_running_or_notify_cancel()  # from now on no waiting caller can cancel it
        self.waiting = 0
        self.has_begun = False
        self.is_unwanted = False
        self.engine: Optional["Engine"] = None

    def end(self, why: str) -> None:
        """Ends the compiler, without waiting for that. The lock of the builds is held."""
        self.is_unwanted = True
        engine = self.engine
        if engine is not None:
            engine.runs.stop()
        elif not self.has_begun:
            self.outcome.set_exception(ClosedError(why))

    def began(self, engine: "Engine") -> None:
        """The compiler's sandbox exists."""
        self.engine = engine
        if self.is_unwanted:
            raise ClosedError("the program is not needed any more")


class Need:
    """A caller's need of a compiled program. A context manager around the wait for ``outcome``."""

    def __init__(self, builds: "Builds", key: str, args: "RunArguments", recipe: Recipe, build: Build) -> None:
        self._builds = builds
        self._key = key
        self._args = args
        self._recipe = recipe
        self._build = build

    @property
    def outcome(self) -> "Future[Outcome]":
        """Ready when the compiler is done."""
        return self._build.outcome

    @property
    def is_given_up(self) -> bool:
        """Whether the compiler was ended because no caller waits."""
        return self._build.is_unwanted

    def arguments(self) -> "Union[RunArguments, Result]":
        """Once it is ready: the arguments of the program's run, or what the compiler said."""
        got = self.outcome.result()
        return got if isinstance(got, Result) else _with(self._args, self._recipe, got)

    def leave(self) -> None:
        """This caller does not need it any more."""
        self._builds.leave(self._key, self._build)

    def __enter__(self) -> "Need":
        return self

    def __exit__(self, *exception: object) -> None:
        self.leave()


def _with(args: "RunArguments", recipe: Recipe, made: Made) -> "RunArguments":
    """A run of what was made, with the program's other files beside it."""
    code, program = args.code, recipe.program
    assert code is not None
    files: Dict[str, Any] = {os.path.join(program.place, name): data for name, data in made.files.items()}
    entry = files.pop(program.entry)
    for name, data in (code.files or {}).items():
        name = _arguments.path("files", name)
        if name != program.entry:
            files.setdefault(name, data)
    argv = [*program.argv[: program.index], "", *program.argv[program.index + 1 :], *code.argv[1:]]
    assert code.compiled is not None
    built = Code(
        argv, program.index, program.entry, entry, files, shown=program.shown, is_program=code.compiled.is_native
    )  # fmt: skip
    return replace(args, cmd=argv, code=built)


def _heap(policy: "Policy") -> Optional[int]:
    """Memory of a Java program's heap; the rest of the run's limit is for the machine itself."""
    if "limits.memory" in policy.unlimited:
        return None
    stated = policy.effective().get("limits.memory") or "256M"
    return int((_keys.magnitude("limits.memory", stated) or 0) * 6 // 10)


class Builds:
    """What the runs of one sandbox had compiled. Nothing of it is shared with another one."""

    def __init__(self, settings: "Settings", add_usage: "Callable[[Usage], None]") -> None:
        self._settings = settings
        self._add_usage = add_usage
        self._kept: "OrderedDict[str, Tuple[Outcome, int, float]]" = OrderedDict()
        self._bytes = 0
        self._is_closed = False
        self._counts = {"compiled": 0, "reused": 0}
        self.after_fork()

    def use(self, settings: "Settings") -> None:
        """Later programs are compiled for runs with these."""
        self._settings = settings

    def after_fork(self) -> None:
        """In a forked child: what goes on is the parent's."""
        self._lock = threading.RLock()  # a signal handler may close the sandbox meanwhile
        self._going_on: Dict[str, Build] = {}

    def stats(self) -> Dict[str, int]:
        """How often a compiler was started, and how often a program was there already."""
        with self._lock:
            return {**self._counts, "kept": len(self._kept), "bytes": self._bytes}

    def need(self, args: "RunArguments", policy: "Policy") -> Need:
        """A program for a run with ``policy``; its compiler is started if it has to be."""
        code = args.code
        assert code is not None and code.compiled is not None
        language = code.compiled
        sources = source_files(code.filename, code.content, code.files)
        text = sources[code.filename].decode("utf-8", "replace")
        path = self._path()
        memory = int(_keys.magnitude("limits.memory", self._settings.compile_memory) or 0)
        recipe = language.find(Request(code.filename, text, tuple(sources), path, memory, _heap(policy)))
        own = policy_for(self._settings, policy, path, recipe)
        key = _key(own, recipe, sources)

        def work(build: Build) -> Outcome:
            try:
                return compile_one(self._settings, own, recipe, sources, build.began)
            except CommandNotFoundError as error:
                missing = language.not_found()
                missing.message = f"{missing.message}: {error.message}"
                raise missing from None

        with self._lock:
            if self._is_closed:
                raise ClosedError("the sandbox is closed")
            build = self._find(key)
            if build is None:
                build = Build()
                _threads().submit(partial(self._work, key, build, work))
                self._going_on[key] = build  # before the thread may look: it takes the lock first
                self._counts["compiled"] += 1
            else:
                self._counts["reused"] += 1
            build.waiting += 1
        return Need(self, key, args, recipe, build)

    def _path(self) -> str:
        """Where tools are searched. Not where runs can write: they would choose what compiles the next
        program."""
        settings = self._settings
        written = [os.path.join(settings.base_dir, p) for p in settings.policy.effective().get("fs.write", ())]
        path = settings.in_path(search_path()).split(":")
        return ":".join(p for p in path if p.startswith("/") and not (written and inside(p, written)))

    def _work(self, key: str, build: Build, work: Callable[[Build], Outcome]) -> None:
        """In a thread: compiles one program."""
        with self._lock:
            if build.is_unwanted:
                return
            build.has_begun = True
        began, until = time.monotonic(), float("inf")
        try:
            outcome = work(build)
        except BaseException as error:
            with self._lock:
                self._is_over(key, build)
            build.outcome.set_exception(error)
            return
        self._add_usage(outcome.usage)
        if isinstance(outcome, Result) and outcome.kind != "exited":
            until = time.monotonic() + _AGAIN_FACTOR * (time.monotonic() - began)
        with self._lock:
            if self._is_over(key, build) and not self._is_closed:
                self._keep(key, outcome, until)
        build.outcome.set_result(outcome)

    def _is_over(self, key: str, build: Build) -> bool:
        """Forgets that it goes on. False: it was given up before."""
        build.engine = None
        if self._going_on.get(key) is not build:
            return False
        del self._going_on[key]
        return True

    def leave(self, key: str, build: Build) -> None:
        """One caller less; the last one ends the compiler."""
        with self._lock:
            build.waiting -= 1
            if build.waiting or self._going_on.get(key) is not build:
                return
            del self._going_on[key]  # who needs it from now on begins anew
            build.end("the program is not needed any more")

    def close(self) -> None:
        """Ends all compilers and forgets what they made."""
        with self._lock:
            self._is_closed = True
            self._kept.clear()
            self._bytes = 0
            for build in self._going_on.values():
                build.end("the sandbox was closed while the program was compiled")

    # --- what is kept ------------------------------------------------------------------------------

    def _find(self, key: str) -> Optional[Build]:
        """One that goes on, or one that is over already."""
        if key in self._going_on:
            return self._going_on[key]
        outcome, _, until = self._kept.get(key, (None, 0, 0.0))
        if outcome is None or time.monotonic() > until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        build = Build()
        build.outcome.set_result(outcome)
        return build

    def _keep(self, key: str, outcome: Outcome, until: float) -> None:
        if isinstance(outcome, Made):
            size = outcome.size
        else:
            size = len(outcome.stderr_bytes) + len(outcome.stdout_bytes)
        self._drop(key)
        self._kept[key] = (outcome, size, until)
        self._bytes += size
        while self._bytes > _KEPT_MAX or len(self._kept) > _ENTRIES_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        _, size, _ = self._kept.pop(key, (None, 0, 0.0))
        self._bytes -= size


def _key(policy: "Policy", recipe: Recipe, sources: Mapping[str, bytes]) -> str:
    """The same for the same program, compiled by the same tools with the same rights."""
    tools = [identity(path) for path in recipe.tools]
    contents = {name: hashlib.sha256(data).hexdigest() for name, data in sources.items()}
    doc = policy.effective()
    passed = {name: os.environ.get(name) for name in doc.get("env.pass", ())}
    parts = [tools, recipe.command, sorted(contents.items()), sorted(doc.items()), sorted(passed.items())]
    return hashlib.sha256(json.dumps(parts, default=str).encode("utf-8", "surrogateescape")).hexdigest()
