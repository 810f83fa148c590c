# SPDX-License-Identifier: Apache-2.0
"""Looks after the processes that runs with orphans="keep" leave.

They would block if their output were not taken. One daemon thread does that for all runs of this
process; it starts on first use.
"""

from __future__ import annotations

import os
import selectors
import threading
import weakref
from typing import Callable, Dict, Sequence

from . import _cordon
from ._native import PerProcess


class Keeper:
    """A set of runs whose output is drained."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a sandbox may be collected while this thread holds it
        self._runs: Dict[int, _cordon.Run] = {}
        self._drains: Dict[int, _cordon.Run] = {}
        self._when_over: Dict[int, "weakref.WeakMethod[Callable[[_cordon.Run], None]]"] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._work, name="cordon-keeper", daemon=True)
        self._thread.start()

    def add(
        self, run: _cordon.Run, drains: Sequence[int], when_over: Callable[[_cordon.Run], None]
    ) -> None:
        """Looks after ``run`` and throws away what comes out of ``drains``. Calls ``when_over``
        once the last process is gone, a method whose object need not live that long."""
        with self._lock:
            self._runs[run.fileno()] = run
            self._when_over[run.fileno()] = weakref.WeakMethod(when_over)
            self._selector.register(run.fileno(), selectors.EVENT_READ)
            for fd in drains:
                self._drains[fd] = run
                self._selector.register(fd, selectors.EVENT_READ)
        os.write(self._wake_w, b"x")

    def discard(self, run: _cordon.Run) -> None:
        """Stops that. Called before the run and its descriptors are closed."""
        with self._lock:
            for table in (self._runs, self._drains):
                for fd in [fd for fd, other in table.items() if other is run]:
                    self._forget(fd)

    def _forget(self, fd: int) -> None:
        known = self._runs.pop(fd, None) or self._drains.pop(fd, None)
        self._when_over.pop(fd, None)
        if known is not None:
            self._selector.unregister(fd)

    def _work(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._wake_r:
                    os.read(self._wake_r, 4096)
                    continue
                with self._lock:
                    run, method = self._runs.get(key.fd), self._when_over.get(key.fd)
                    is_over = not self._look_at(key.fd)
                    if is_over:
                        self._forget(key.fd)
                when_over = method() if is_over and method is not None else None
                if run is not None and when_over is not None:
                    when_over(run)
                run = when_over = None  # this thread must not keep a sandbox alive

    def _look_at(self, fd: int) -> bool:
        """False: nothing more will come."""
        run = self._runs.get(fd)
        try:
            if run is not None:
                run.process()
                return not run.over
            elif fd in self._drains:
                return bool(os.read(fd, 65536))
            return True
        except (_cordon.Error, OSError):
            return False


keeper = PerProcess(Keeper)
