# SPDX-License-Identifier: Apache-2.0
"""Workspaces: changes that runs made to a directory, kept apart from it until they are committed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _arguments, _cordon
from ._errors import UsageError, raise_native

StrPath = Union[str, "os.PathLike[str]"]


def _state(directory: Optional[StrPath]) -> Optional[str]:
    return None if directory is None else _arguments.path("state_dir", directory)


@dataclass(frozen=True)
class CommitResult:
    """The outcome of a commit; ``changes`` has it for each path."""

    applied: int
    refused: int
    conflicts: int
    skipped: int
    failed: int
    is_empty: bool
    changes: Tuple[Dict[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was refused, in conflict or failed."""
        return not (self.refused or self.conflicts or self.failed)


class Workspace:
    """A workspace that exists. Nothing in it touches the directory before ``commit()``."""

    def __init__(self, which: StrPath, state_dir: Optional[StrPath] = None) -> None:
        try:
            self._native = _cordon.Workspace(_arguments.path("which", which), _state(state_dir))
        except _cordon.Error as error:
            raise_native(error)
        self.info: Dict[str, Any] = self._call("info")

    def _call(self, name: str, *values: Any, **more: Any) -> Any:
        try:
            return getattr(self._native, name)(*values, **more)
        except _cordon.Error as error:
            raise_native(error)

    @property
    def id(self) -> str:
        """Its id, which stays the same."""
        return str(self.info["id"])

    @property
    def name(self) -> Optional[str]:
        """The name it was given, if any."""
        name = self.info["name"]
        return None if name is None else str(name)

    @property
    def base(self) -> str:
        """The directory that it is a view of."""
        return str(self.info["base"])

    def changes(self) -> List[Dict[str, Any]]:
        """What differs from the base, sorted by path, with its risks."""
        found: List[Dict[str, Any]] = self._call("changes")
        return found

    def summary(self) -> Dict[str, int]:
        """How many changes there are of each kind."""
        counts: Dict[str, int] = self._call("summary")
        return counts

    def _to_memory(self, name: str, *first: Any, paths: Sequence[StrPath]) -> bytes:
        fd = os.memfd_create("cordon-workspace", os.MFD_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            self._call(name, *first, fd, paths=_arguments.words("paths", paths))
            file.seek(0)
            return file.read()

    def patch(self, paths: Sequence[StrPath] = ()) -> str:
        """Unified diffs of all changes, or of those at ``paths``."""
        return self._to_memory("patch", paths=paths).decode("utf-8", "replace")

    def export(self, format: str = "patch", paths: Sequence[StrPath] = ()) -> bytes:
        """The changes as an archive ("tar") or for ``git apply`` ("patch")."""
        if format not in ("tar", "patch"):
            raise UsageError(f"format={format!r}: 'tar' or 'patch' is needed")
        return self._to_memory("export", format, paths=paths)

    def commit(
        self,
        paths: Sequence[StrPath] = (),
        exclude: Sequence[StrPath] = (),
        conflicts: str = "refuse",
        dry_run: bool = False,
    ) -> CommitResult:
        """Applies the changes to the base, all or those at ``paths``. ``conflicts``: what to do
        where the base changed too ("refuse": nothing at all; "ours": the base stays; "theirs": the
        workspace wins). Risky changes are only applied if ``paths`` names them exactly."""
        if conflicts not in ("refuse", "ours", "theirs"):
            raise UsageError(f"conflicts={conflicts!r}: 'refuse', 'ours' or 'theirs' is needed")
        got = self._call(
            "commit",
            paths=_arguments.words("paths", paths),
            exclude=_arguments.words("exclude", exclude),
            conflicts=conflicts,
            dry_run=dry_run,
        )
        changes = tuple(got.pop("changes", ()))
        return CommitResult(**got, changes=changes)

    def discard(self) -> None:
        """Removes the workspace and everything in it."""
        self._call("discard")

    def close(self) -> None:
        """Lets go of it; it stays as it is."""
        self._call("close")

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Workspace {self.id} of {self.base}>"


def open(which: StrPath, state_dir: Optional[StrPath] = None) -> Workspace:
    """A workspace by its id, its name, or the directory it is over."""
    return Workspace(which, state_dir)


def list(state_dir: Optional[StrPath] = None) -> List[Dict[str, Any]]:
    """All workspaces of this user, oldest first."""
    try:
        return _cordon.workspace_list(_state(state_dir))
    except _cordon.Error as error:
        raise_native(error)


def gc(
    state_dir: Optional[StrPath] = None, older_than: Optional[int] = None, dry_run: bool = False
) -> List[Dict[str, Any]]:
    """Removes workspaces that are not needed any more; with ``older_than`` (seconds) also those
    that were not used for so long. Gives what was removed, and why."""
    if older_than is not None:
        older_than = _arguments.whole("older_than", older_than, 0, (1 << 62) - 1)
    try:
        return _cordon.workspace_gc(_state(state_dir), older_than, dry_run)
    except _cordon.Error as error:
        raise_native(error)
