# SPDX-License-Identifier: Apache-2.0
"""Interpreters that have started and wait, each in a sandbox of its own. None is used twice.

A thread starts them, since that takes as long as the interpreter does. The thread that wants one asks
the library whether an interpreter that it started now would inherit the same; if not, it starts one.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Deque, Dict, Mapping, Optional, Tuple, Union

from . import _arguments
from ._errors import CordonError, UsageError
from ._interpreter import MAX_OUTPUT, Interpreter
from ._interpreters import Kind, find_kind
from ._job import RunArguments
from ._live import GRACE_SECONDS, Live
from ._native import PerProcess, log
from ._parked import Refiller

if TYPE_CHECKING:
    from ._engine import Engine
    from ._interpreter import InterpreterFront

#: Of one language, at most.
MOST = 64
#: Older ones are not used: the host's files may have changed.
AGE_SECONDS = 60.0

#: What a pool's argument ``interpreters`` may be.
Wanted = Union[Mapping[str, int], None]

_starter = PerProcess(lambda: Refiller("cordon-ahead"))


def wanted(interpreters: Wanted) -> Dict[str, int]:
    """The argument, checked: how many of each language."""
    if interpreters is None:
        return {}
    if not isinstance(interpreters, Mapping):
        raise UsageError("interpreters: a mapping is needed", hint="interpreters={'javascript': 2}")
    return {
        find_kind(language).name: _arguments.whole(f"interpreters[{language!r}]", count, 1, MOST)
        for language, count in interpreters.items()
    }


class Ahead:
    """Those of one pool. A forked child has none."""

    def __init__(self, engine: "Engine", counts: Mapping[str, int]) -> None:
        self._engine = weakref.ref(engine)
        self._counts = dict(counts)
        self._waiting: Dict[str, Deque[Tuple[float, Live]]] = {name: deque() for name in counts}
        self._pid = os.getpid()
        self._is_closed = False
        self._round = 0  # how often those that wait were ended
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def start(self) -> None:
        """Begins to make what is missing, and returns."""
        if self._counts and not self._is_closed and self._pid == os.getpid():
            _starter().add(self, None)

    def take(self, kind: Kind) -> Optional[Live]:
        """One that waits and may be used by this thread; None: start one."""
        if kind.name not in self._counts or self._pid != os.getpid():
            return None
        found = None
        while found is None:
            with self._lock:
                if self._is_closed or not self._waiting[kind.name]:
                    break
                since, live = self._waiting[kind.name].popleft()
            if time.monotonic() - since < AGE_SECONDS and live.is_as_new():
                found = live
            else:
                live.close()
        self.start()
        return found

    def refill(self) -> None:
        """Makes what is missing. A failure is not told: the one who wants an interpreter meets it, too."""
        engine = self._engine()
        if engine is None or self._pid != os.getpid():
            return
        try:
            for name, count in self._counts.items():
                while not self._is_closed and len(self._waiting[name]) < count:
                    began = self._round
                    self._add(name, _started(engine, find_kind(name)), began)
        except (CordonError, OSError) as error:
            log.debug("no interpreter could be started ahead: %s", error)

    def _add(self, name: str, live: Live, began: int) -> None:
        with self._lock:
            if not self._is_closed and self._round == began:
                self._waiting[name].append((time.monotonic(), live))
                return
        live.close()

    def reopen(self) -> None:
        """After close(): the sandbox begins anew."""
        self._is_closed = False
        self.start()

    def close(self) -> None:
        """Ends those that wait."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            self._round += 1
            left = [live for waiting in self._waiting.values() for _, live in waiting]
            for waiting in self._waiting.values():
                waiting.clear()
        for live in left:
            live.close()


def _started(engine: "Engine", kind: Kind) -> Live:
    layers = engine.settings.packages
    packages = [] if layers is None else layers.modules
    live = Live(kind, MAX_OUTPUT, GRACE_SECONDS)
    try:
        live.start(engine, RunArguments(kind.argv(packages)), ahead=True)
        Interpreter._wait(live)
        task = live.task
        if task is None or task.answer is None:
            raise CordonError(live.why())
        live.task = None
    except BaseException:
        live.close()
        raise
    return live


def adopt(front: "InterpreterFront", ahead: Optional[Ahead]) -> None:
    """Gives a new front an interpreter that waits, if there is one. Else it starts its own when it is
    used first."""
    if ahead is not None and front.has_usual_limits:
        front._live = ahead.take(front._kind)
