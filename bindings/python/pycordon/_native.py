# SPDX-License-Identifier: Apache-2.0
"""The launcher of this process, and facts about the machine that do not change."""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, List, Optional, Tuple, TypeVar

from . import _cordon
from ._errors import PathError, UnsupportedError, raise_native
from ._hints import in_python

log = logging.getLogger("pycordon")
log.addHandler(logging.NullHandler())

T = TypeVar("T")


class PerProcess(Generic[T]):
    """An object that a process has one of: made on first use, and anew in a forked child."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._made: Optional[T] = None

    def __call__(self) -> T:
        made = self._made
        if made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
                made = self._made
        return made


def _launcher() -> _cordon.Launcher:
    try:
        return _cordon.Launcher()
    except _cordon.Error as error:
        raise_native(error)


launcher = PerProcess(_launcher)


def command() -> str:
    """Absolute path of the ``cordon`` command that belongs to this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cordon")
    if not os.path.isfile(path):
        raise UnsupportedError(
            "the cordon command is not part of this installation",
            hint="install the package with pip: an import from the source tree has no command",
        )
    return path


def current_directory(otherwise: Optional[str] = None) -> str:
    """The current directory. It may have been removed: then ``otherwise``, if that is given."""
    try:
        return os.getcwd()
    except OSError as error:
        if otherwise is not None:
            return otherwise
        raise PathError(
            f"the current directory cannot be used: {os.strerror(error.errno or 0)}",
            hint="change to one that exists; a sandbox may have workdir= (True is a private one)",
            errno=error.errno or 0,
        ) from None


def caller_home() -> Optional[str]:
    """The caller's home directory. Another user's HOME (``sudo -E``) must not decide where it is;
    None lets the library look into the user database."""
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        return None
    try:
        st = os.stat(home)
    except OSError:
        return None
    return home if st.st_uid == os.geteuid() and os.path.isdir(home) else None


@dataclass(frozen=True)
class CheckItem:
    """One layer or mechanism: ``state`` is "yes", "no" or "partial"; ``remedy`` may be None."""

    name: str
    state: str
    detail: str
    remedy: Optional[str]


@dataclass(frozen=True)
class Check:
    """What this machine offers. ``level`` is the best isolation level to be had, "" if none."""

    level: str
    items: Tuple[CheckItem, ...]
    raw: Dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether commands can be run here at all."""
        return self.level not in ("", "none")

    def to_dict(self) -> Dict[str, Any]:
        """As ``cordon check --json`` prints it."""
        return dict(self.raw)


def check() -> Check:
    """Tries each layer for real, in throw-away processes, and says what it found."""
    try:
        raw = json.loads(launcher().check())
    except _cordon.Error as error:
        raise_native(error)
    entries: List[Dict[str, Any]] = raw.get("layers") or []
    items = tuple(
        CheckItem(e["name"], e["state"], in_python(e.get("detail")) or "", in_python(e.get("remedy")))
        for e in entries
    )
    return Check(raw.get("level") or "", items, raw)
