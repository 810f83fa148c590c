# SPDX-License-Identifier: Apache-2.0
"""What a session can hand on: its private files, the branch of its workspace, the packages that it was
given, and the image of its Python. Forks begin with a copy of these, a restored session with its own."""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple

from . import _cordon
from ._errors import CordonError, StateError, UnsupportedError
from ._native import log
from ._packages import Found, Packages

if TYPE_CHECKING:
    from ._engine import Engine
    from ._image import Image
    from ._session_core import SessionCore

#: For a command that was ended a moment ago to be gone.
_GONE_SECONDS = 2.0
_LOOK_SECONDS = 0.01

Update = Tuple[Mapping[str, str], List[str]]


@dataclass
class Given:
    """The packages of a session, and how its commands find them."""

    found: Found
    variables: Dict[str, str] = field(default_factory=dict)  # of packages that came later
    #: The same one by one, with the directories of modules that there were before.
    updates: List[Update] = field(default_factory=list)

    @classmethod
    def from_start(cls, packages: Optional[Packages]) -> "Given":
        """Of a session that begins with these."""
        return cls(Found(packages))

    def copy(self, known: Optional[int] = None) -> "Given":
        """For another session. ``known``: the image that it begins with knows so many updates; None: it
        begins with none, so none has to be told."""
        left = [] if known is None else self.updates[known:]
        return Given(self.found.copy(), dict(self.variables), left)


def check_files(engine: "Engine") -> None:
    """Whether a session has files that can be copied."""
    if not engine.settings.persist:
        raise UnsupportedError(
            "the files of this session are in memory, where they cannot be copied",
            hint="make it with persist=True",
        )


def check_forks(core: "SessionCore") -> None:
    """Whether a session can be forked at all."""
    core.check_open()
    check_files(core.engine)
    if core.engine.level == "landlock":
        raise UnsupportedError("sessions cannot be forked at level landlock")
    if core.is_paused:
        raise StateError("the session is paused", hint="resume() it first")


def check_alone(core: "SessionCore", expected: int) -> None:
    """StateError if more than ``expected`` commands, or any other processes, run: a fork would lack them
    without saying so."""
    end = time.monotonic() + _GONE_SECONDS
    while True:
        used = core.order("usage")
        others = used["commands"] - expected
        if others <= 0 and (expected or not used["tasks"]):
            return
        if time.monotonic() >= end:
            break
        time.sleep(_LOOK_SECONDS)
    what = "command or interpreter runs" if others == 1 else "commands or interpreters run"
    if others > 0:
        raise StateError(
            f"{others} {what} in the session, which its forks would not have",
            hint="end them first: kill(), close(), or close_interpreter(language). Python's state is taken along",
        )
    raise StateError(
        "processes that commands have left run in the session, which its forks would not have",
        hint="end them first; with orphans='kill' a command leaves none",
    )


def _discard(native: _cordon.Session, engine: "Engine", pid: int) -> None:
    """For a session that was not closed: its files go after its processes."""
    if pid != os.getpid():
        return  # in a forked child they are the parent's
    try:
        with suppress(_cordon.Error):
            native.close()
        engine.shut(remove=False)
    except CordonError as error:
        log.debug("cannot end a session: %s", error)


def when_forgotten(core: "SessionCore") -> "weakref.finalize[..., object]":
    """Ends what is left of a session with its object, in order."""
    return weakref.finalize(core, _discard, core.native, core.engine, os.getpid())


class Packed:
    """Which packages the snapshots of a session were taken with: copies of layers lie among its files."""

    def __init__(self) -> None:
        self._kept: "weakref.WeakKeyDictionary[object, Given]" = weakref.WeakKeyDictionary()

    def note(self, snapshot: object, given: Given) -> None:
        """It was taken now."""
        self._kept[snapshot] = given.copy()

    def of(self, snapshot: object, now: Given) -> Given:
        """What a session has whose files are those of the snapshot."""
        return self._kept.get(snapshot, now).copy()


@dataclass(frozen=True)
class Beginning:
    """What a session begins with besides its settings."""

    given: Given
    image: "Optional[Image]" = None
