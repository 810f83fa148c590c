# SPDX-License-Identifier: Apache-2.0
"""Interpreters that have started and wait, each in a sandbox of its own. None is used twice.

A thread starts them, since that takes as long as the interpreter does. The thread that wants one asks
the library whether an interpreter that it started now would inherit the same; if not, it starts one.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import weakref
from collections import deque
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Deque, Dict, Generic, Iterable, List, Mapping, Optional, Protocol, Tuple, TypeVar

from ._errors import CordonError, SetupError
from ._native import PerProcess, log
from ._parked import Refiller

if TYPE_CHECKING:
    from ._engine import Engine

#: Of one language, at most.
MOST = 64
#: Older ones are not used: the host's files may have changed.
AGE_SECONDS = 60.0
_AGAIN_SECONDS = 5.0  # after a failure: what cannot be started must not keep the host busy

#: What a run gets of the caller's variables, whatever the policy says.
_PASSED = ("HOME", "LANG", "LC_*", "TZ", "TERM", "COLUMNS", "LINES", "PATH")
_starter = PerProcess(lambda: Refiller("cordon-ahead"))


class Waiting(Protocol):
    """Something that was started, and waits."""

    def is_as_new(self) -> bool:
        """Whether it goes on, and one that this thread started now would inherit the same."""

    def close(self) -> None:
        """Ends it."""


One = TypeVar("One", bound=Waiting)
#: What one has of its caller: variables, and the host's files that its policy names.
Inherited = Tuple[Dict[str, str], List[object]]
Since = Tuple[float, Inherited]
_GRANTS = ("fs.read", "fs.write", "fs.deny")


def _inherited(engine: "Engine") -> Inherited:
    doc = engine.settings.policy.effective()
    passed = (*_PASSED, *doc.get("env.pass", ()))
    variables = {name: text for name, text in os.environ.items() if any(fnmatchcase(name, word) for word in passed)}
    return variables, states([path for key in _GRANTS for path in _paths(engine, doc.get(key, ()))])


def _paths(engine: "Engine", named: Iterable[str]) -> List[str]:
    return [os.path.join(engine.settings.base_dir, os.path.expanduser(path)) for path in named]


def states(paths: Iterable[str]) -> List[object]:
    """What tells whether they are still the same. What is in a directory is seen as it is."""
    found: List[object] = []
    for path in paths:
        try:
            st = os.stat(path)
        except OSError:
            found.append(None)
            continue
        is_file = stat.S_ISREG(st.st_mode)
        found.append((st.st_dev, st.st_ino, is_file and (st.st_size, st.st_mtime_ns)))
    return found


def _check_fixed(engine: "Engine") -> None:
    """SetupError if what is hidden from a run depends on the files that are there when it starts."""
    for pattern in engine.settings.policy.effective().get("fs.deny", ()):
        if any(letter in pattern for letter in "*?[{"):
            raise SetupError(f"what '{pattern}' matches is looked for when a run starts")


class Stock(Generic[One]):
    """What waits for one sandbox, by names. A forked child has none."""

    def __init__(self, engine: "Engine", counts: Mapping[str, int]) -> None:
        self._engine = weakref.ref(engine)
        self._counts = dict(counts)
        self._waiting: Dict[str, Deque[Tuple[Since, One]]] = {name: deque() for name in counts}
        self._pid = os.getpid()
        self._is_closed = False
        self._round = 0  # how often those that wait were ended
        self._not_before = 0.0  # after a failure
        self._lock = threading.Lock()
        #: Why none could be started last, for those who ask.
        self.reason: Optional[str] = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _make(self, engine: "Engine", name: str) -> One:
        raise NotImplementedError

    def start(self) -> None:
        """Begins to make what is missing, and returns."""
        if self._counts and not self._is_closed and self._pid == os.getpid():
            _starter().add(self, None)

    def take(self, name: str) -> Optional[One]:
        """One that waits and may be used by this thread; None: start one."""
        engine = self._engine()
        if name not in self._counts or self._pid != os.getpid() or engine is None:
            return None
        found, inherited = None, _inherited(engine)
        while found is None:
            with self._lock:
                if self._is_closed or not self._waiting[name]:
                    break
                (since, its), one = self._waiting[name].popleft()
            if its == inherited and time.monotonic() - since < AGE_SECONDS and one.is_as_new():
                found = one
            else:
                one.close()
        self.start()
        return found

    def refill(self) -> None:
        """Makes what is missing. A failure is not told: the one who wants one starts it, and meets it, too."""
        engine = self._engine()
        if engine is None or self._pid != os.getpid() or time.monotonic() < self._not_before:
            return
        try:
            for name, count in self._counts.items():
                while not self._is_closed and len(self._waiting[name]) < count:
                    _check_fixed(engine)
                    began, inherited = self._round, _inherited(engine)
                    self._add(name, self._make(engine, name), began, inherited)
                    self.reason = None
        except (CordonError, OSError) as error:
            log.debug("no interpreter could be started ahead: %s", error)
            self.reason = str(error)
            self._not_before = time.monotonic() + _AGAIN_SECONDS

    def _add(self, name: str, one: One, began: int, inherited: Inherited) -> None:
        with self._lock:
            if not self._is_closed and self._round == began:
                self._waiting[name].append(((time.monotonic(), inherited), one))
                return
        one.close()

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
            left = [one for waiting in self._waiting.values() for _, one in waiting]
            for waiting in self._waiting.values():
                waiting.clear()
        for one in left:
            one.close()
