# SPDX-License-Identifier: Apache-2.0
"""Sandboxes made ahead for the runs of one sandbox.

The library makes them only when it is told to. One daemon thread does that for all sandboxes of this
process, after a run has ended: the caller does not wait for it. It starts on first use.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from typing import Any, Callable, Dict, Optional, Protocol, Sequence, Tuple

from . import _cordon
from ._native import PerProcess, launcher, log

#: As many as the library takes (CORDON_POOL_MAX).
MOST = 256


#: Ended runs that may wait to be freed; each has some open files.
_BACKLOG = 16


class Refillable(Protocol):
    """Where something is made ahead."""

    def refill(self) -> None:
        """Makes what is missing."""


class Refiller:
    """Frees runs that have ended and makes what is missing, in a thread of its own."""

    def __init__(self, name: str = "cordon-refill") -> None:
        self._queue: "queue.SimpleQueue[Tuple[weakref.ref[Refillable], Optional[_cordon.Run]]]"
        self._queue = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def add(self, stock: Refillable, run: Optional[_cordon.Run]) -> bool:
        """A run is over, and something may be missing there. False: free the run yourself."""
        takes = self._queue.qsize() < _BACKLOG
        self._queue.put((weakref.ref(stock), run if takes else None))
        return takes

    def _work(self) -> None:
        while True:
            known, run = self._queue.get()
            if run is not None:
                try:
                    run.close()
                except _cordon.Error as error:
                    log.debug("cannot free a run: %s", error)
            stock = known()
            if stock is not None:
                stock.refill()
            stock = run = None  # this thread must not keep a sandbox alive


refiller = PerProcess(Refiller)


class Parked:
    """The library's pool of a sandbox. ``make`` makes it, at the first run. A forked child has none:
    its runs are started cold."""

    def __init__(self, make: Callable[[], _cordon.Pool]) -> None:
        self._make = make
        self._pool: Optional[_cordon.Pool] = None
        self._pid = os.getpid()
        self._is_closed = False
        self.renew_lock()

    def renew_lock(self) -> None:
        """In a forked child another thread of the parent may hold the old one for ever."""
        self._lock = threading.Lock()

    def open(self) -> Optional[_cordon.Pool]:
        """The pool, or None if there is none here."""
        if self._pid != os.getpid() or self._is_closed:
            return None
        pool = self._pool
        if pool is None:
            with self._lock:
                if self._pool is None and not self._is_closed:
                    # Its thread has the rights of the one that makes the pool, and not of one that has
                    # given some up when its run ends.
                    refiller()
                    self._pool = self._make()
                pool = self._pool
        return pool

    def start(self, policy: _cordon.Policy, argv: Sequence[str], options: Dict[str, Any]) -> _cordon.Run:
        """Starts a run, with what was made ahead if that fits."""
        pool = self.open()
        if pool is not None:
            try:
                return pool.start(policy, argv, **options)
            except _cordon.Error as error:
                if error.name != "state" or not self._is_closed:
                    raise
        return launcher().start(policy, argv, **options)  # also if it was closed just now

    def ended(self, run: Optional[_cordon.Run] = None) -> bool:
        """A run is over: there may be room for a new one. Freeing the run takes a moment, for which
        the caller need not wait either. False: that is still to be done."""
        if self._pool is None or self._is_closed or self._pid != os.getpid():
            return False
        return refiller().add(self, run)

    def refill(self) -> None:
        """Makes what is missing. A failure is not told: the next run is cold then."""
        try:
            pool = self.open()
            if pool is not None:
                pool.refill()
        except _cordon.Error as error:
            log.debug("nothing could be made ahead: %s", error)

    def stats(self) -> Dict[str, int]:
        """What the library counts; zeros while there is no pool."""
        pool = self._pool if self._pid == os.getpid() and not self._is_closed else None
        if pool is None:
            names = ("parked", "warm", "cold", "misfits", "stale", "made", "dropped")
            return dict.fromkeys(names, 0)
        return pool.stats()

    def close(self) -> None:
        """Ends what waits."""
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()
