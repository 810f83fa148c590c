# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a sandbox's private files."""

from __future__ import annotations

import time
import weakref
from typing import Dict, Optional, Union

from . import _arguments, _store
from ._errors import CordonError, StateError, UnsupportedError, UsageError
from ._native import log

#: That a sandbox has at the same time. Each takes the space of its files, unless the file system shares blocks.
SNAPSHOTS_MAX = 64
_NAME_MAX = 100


def _remove(home: _store.Home) -> None:
    try:
        home.remove()
    except (OSError, CordonError) as error:
        log.debug("cannot remove snapshot %s: %s", home.id, error)


class Snapshot:
    """The private files of a sandbox as they were. It goes with its sandbox, or with ``close()``."""

    def __init__(self, name: str, home: _store.Home) -> None:
        #: By which restore() finds it.
        self.name = name
        #: When it was made (time.time()).
        self.created = time.time()
        self._home = home
        self._end = weakref.finalize(self, _remove, home)

    def __repr__(self) -> str:
        return f"<Snapshot {self.name!r}{' closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether its files are gone."""
        return not self._end.alive

    def close(self) -> None:
        """Removes its files. Closing twice is fine."""
        self._end()


class Snapshots:
    """Those of one sandbox, by name."""

    def __init__(self) -> None:
        self._made: Dict[str, Snapshot] = {}
        self._count = 0

    def new_name(self, name: Optional[str]) -> str:
        """A name for a new one, checked."""
        self._made = {key: item for key, item in self._made.items() if not item.closed}
        if len(self._made) >= SNAPSHOTS_MAX:
            raise StateError(f"the sandbox has {SNAPSHOTS_MAX} snapshots", hint="close() one of them")
        if name is None:
            while True:
                self._count += 1
                name = f"snapshot-{self._count}"
                if name not in self._made:
                    return name
        if not _arguments.text("name", name) or len(name) > _NAME_MAX:
            raise UsageError(f"name: 1 to {_NAME_MAX} characters are needed")
        if name in self._made:
            raise UsageError(f"there is a snapshot '{name}' already", hint="close() it, or take another name")
        return name

    def add(self, name: str, home: _store.Home) -> Snapshot:
        """``home`` is one from now on."""
        made = self._made[name] = Snapshot(name, home)
        return made

    def find(self, which: Union[Snapshot, str]) -> _store.Home:
        """Its files."""
        return self.named(which)._home

    def named(self, which: Union[Snapshot, str]) -> Snapshot:
        """The snapshot."""
        name = which.name if isinstance(which, Snapshot) else _arguments.text("snapshot", which)
        found = self._made.get(name)
        if found is None or found.closed or (isinstance(which, Snapshot) and which is not found):
            raise UsageError(f"the sandbox has no snapshot '{name:.100}'")
        return found

    def close(self) -> None:
        """Removes them all."""
        for item in self._made.values():
            item.close()
        self._made = {}


def check_persist(persist: bool) -> None:
    """Without, files are in memory, each run's own."""
    if not persist:
        raise UnsupportedError("a sandbox without persist has no files to keep", hint="leave persist=True")
