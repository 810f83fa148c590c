# SPDX-License-Identifier: Apache-2.0
"""Who waits for what in a session.

A session has one descriptor for all its events, and whoever waits for something handles all that happened,
also what others wait for. So each who handled events looks through this list afterwards, and tells those
whose command is over. It is set that a command is over before anybody looks, and who waits is in the list
before he looks himself: either he sees the end, or who handled it sees him.
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

if TYPE_CHECKING:
    from ._session_core import SessionCommand

Entry = Tuple["Optional[weakref.ReferenceType[SessionCommand]]", Callable[[], None]]

_WAIT_MOST = 1e6  # seconds


class Bell:
    """A descriptor that becomes readable when the session has something to do, or when rung."""

    def __init__(self, session_fd: int) -> None:
        self._lock = threading.Lock()
        self._epoll = select.epoll()
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(session_fd, select.EPOLLIN)
        self._epoll.register(self._pipe[0], select.EPOLLIN)
        self._session_fd = session_fd
        self._is_closed = False

    def fileno(self) -> int:
        """To wait for it."""
        return self._epoll.fileno()

    def ring(self) -> None:
        """Any thread may; also after close()."""
        with self._lock:
            if not self._is_closed:
                try:
                    os.write(self._pipe[1], b"x")
                except BlockingIOError:
                    pass

    def wait(self, seconds: float) -> None:
        """Waits for that, no longer than this."""
        self._epoll.poll(min(seconds, _WAIT_MOST))

    def only_ring(self) -> None:
        """What the session has to do is done by somebody else from now on."""
        if self._session_fd >= 0:
            self._epoll.unregister(self._session_fd)
            self._session_fd = -1

    def close(self) -> None:
        """No more."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._epoll.close()
                for fd in self._pipe:
                    os.close(fd)


class Watchers:
    """Those who wait in one session. Any thread may call this."""

    def __init__(self) -> None:
        # The end of an object may close a session while this thread looks; then it looks again.
        self._lock = threading.RLock()
        self._entries: List[Entry] = []
        self.is_over = False  # the session, or what handles its events has failed

    def add(self, command: "Optional[SessionCommand]", tell: Callable[[], None]) -> Entry:
        """Calls ``tell`` once, in any thread, when the command is over (None: the session), even if it is by
        now. It must not block."""
        entry = (None if command is None else weakref.ref(command), tell)
        with self._lock:
            self._entries = [*self._entries, entry]
        self.look()
        return entry

    def discard(self, entry: Entry) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._entries = [one for one in self._entries if one is not entry]

    def look(self, is_over: bool = False) -> None:
        """Events were handled; ``is_over``: the session is."""
        with self._lock:
            self.is_over = self.is_over or is_over
            told = [entry for entry in self._entries if self._is_due(entry)]
            self._entries = [entry for entry in self._entries if not any(entry is one for one in told)]
        for _, tell in told:
            tell()

    def _is_due(self, entry: Entry) -> bool:
        command = None if entry[0] is None else entry[0]()
        gone = entry[0] is not None and command is None
        return self.is_over or gone or (command is not None and command._native.result() is not None)
