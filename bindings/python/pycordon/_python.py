# SPDX-License-Identifier: Apache-2.0
"""Which program ``python`` is inside: the interpreter of this program, in run() as in run_code()."""

from __future__ import annotations

import os
import shutil
import sys
from functools import lru_cache
from typing import Optional

_NAMES = ("python", "python3")
#: Variables of runs in a home that others have written to. Python would execute what an earlier run
#: left in its user site (``usercustomize.py``, ``*.pth``) before anything else.
KEPT_HOME = {"PYTHONNOUSERSITE": "1"}
#: Directories in which the interpreter is one program of many. Others are an installation's own.
_SHARED = frozenset(
    f"{prefix}/{name}" for prefix in ("", "/usr", "/usr/local") for name in ("bin", "sbin")
)


def interpreter() -> Optional[str]:
    """The interpreter of this program; None in a program that only embeds one."""
    return sys.executable if (sys.executable or "").startswith("/") else None


@lru_cache(maxsize=64)  # a run costs about a millisecond, a search a tenth of that
def _finds(path: str, name: str, ours: str) -> bool:
    """Whether a search finds the interpreter ``ours`` by this name."""
    found = shutil.which(name, path=path)
    if found is None:
        return False
    # An environment's interpreter is a link: where it lies makes the difference.
    return os.path.dirname(found) == os.path.dirname(ours) or (
        sys.prefix == sys.base_prefix and os.path.realpath(found) == os.path.realpath(ours)
    )


def callers_path() -> str:
    """PATH of this process."""
    return os.environ.get("PATH") or os.defpath


def search_path() -> str:
    """The same for runs. An environment that was not activated comes first, as if it were: its
    directory holds nothing but what belongs to it."""
    path, ours = callers_path(), interpreter()
    if ours is None or os.path.dirname(ours) in _SHARED:
        return path
    if all(_finds(path, name, ours) for name in _NAMES):
        return path
    return f"{os.path.dirname(ours)}:{path}"


def changed_path() -> Optional[str]:
    """search_path(), if it differs from the caller's."""
    path = search_path()
    return None if path == callers_path() else path


def hidden(path: str) -> Optional[str]:
    """The interpreter, if it lies among other programs and ``path`` has another one before it. A
    directory with links must come first then: its own would hide more than that."""
    ours = interpreter()
    if ours is None or _finds(path, "python3", ours):
        return None
    return ours if os.path.dirname(ours) in _SHARED else None


def program(name: str, path: str) -> str:
    """A program's name for those who search it in ``path``: ``python`` in full if they would find
    another one, or none."""
    ours = interpreter()
    if name not in _NAMES or ours is None or _finds(path, name, ours):
        return name
    return ours
