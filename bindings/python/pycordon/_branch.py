# SPDX-License-Identifier: Apache-2.0
"""What a fork begins with besides memory: private files, and a branch of the workspace."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Optional, Union

from . import _cordon
from ._errors import CordonError, raise_native
from ._native import log

if TYPE_CHECKING:
    from ._store import Home

_CHANGES = ("added", "modified", "deleted", "renamed", "mode", "symlink", "type")


class _Use:
    """Whether a run has begun in a branch."""

    has_begun = False


def _tidy(which: str, use: _Use, pid: int) -> None:
    """In a forked child the branch is the parent's."""
    if pid != os.getpid():
        return
    try:
        workspace = _cordon.Workspace(which)
        if not use.has_begun or not any(map(workspace.summary().get, _CHANGES)):
            workspace.discard()
        workspace.close()
    except _cordon.Error as error:  # it was committed or discarded, or is in use
        log.debug("the branch %s is left: %s", which, error.message)


class Branch:
    """A workspace that was made as a copy of another. It goes with this object as long as no run has begun
    in it, or if nothing differs from the directory. Otherwise it stays, like any other workspace,
    until it is committed or discarded."""

    def __init__(self, which: str) -> None:
        self.id = which
        self._use = _Use()
        self._end = weakref.finalize(self, _tidy, which, self._use, os.getpid())

    def use(self) -> None:
        """A run begins in it."""
        self._use.has_begun = True

    def close(self) -> None:
        """No run will begin in it any more."""
        self._end()


def of_run(run: "Union[_cordon.Run, _cordon.Session]", max_bytes: int, max_files: int) -> Branch:
    """Of the workspace that a run or session has, which is at rest."""
    try:
        return Branch(run.branch(max_bytes, max_files))
    except _cordon.Error as error:
        raise_native(error)


def of_workspace(which: str, max_bytes: int, max_files: int) -> Branch:
    """Of a workspace that no run has."""
    try:
        native = _cordon.Workspace(which)
        try:
            return Branch(native.branch(max_bytes, max_files))
        finally:
            native.close()
    except _cordon.Error as error:
        raise_native(error)


class Files:
    """The files of one fork, until it has them."""

    def __init__(self, home: "Home", branch: Optional[Branch]) -> None:
        self.home = home
        self.branch = branch

    def remove(self) -> None:
        """It is not going to be made."""
        try:
            self.home.remove()
        except (OSError, CordonError) as error:
            log.debug("cannot remove sandbox %s: %s", self.home.id, error)
        if self.branch is not None:
            self.branch.close()
