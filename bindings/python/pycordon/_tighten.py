# SPDX-License-Identifier: Apache-2.0
"""Decides whether a run's own settings tighten its sandbox's policy.

A limit may be lowered. A limit that the sandbox does not state is free: the library's defaults do
not count. A list of grants may name less, or what lies inside a grant. Lists of denials and of
required layers may grow. Everything else must stay as it is.
"""

from __future__ import annotations

import os
from typing import Any, Collection, FrozenSet, List, Mapping, Optional

from . import _keys
from ._native import caller_home
from ._errors import PolicyError
from ._policy import Policy, from_document, stated

#: What a run's setting replaces; the other lists add up.
_REPLACING = ("fs.read", "fs.write", "commands", "net.allow", "net.publish", "env.pass", "devices")
_ADDING = ("fs.deny", "net.deny", "require")
_LEVELS = {"landlock": 1, "auto": 2, "namespaces": 3}  # auto: the best that the machine can do


def inside(path: str, grants: Collection[str]) -> bool:
    """Follows links: an earlier run may have left one inside a write grant."""
    path = os.path.realpath(path)
    for grant in grants:
        grant = os.path.realpath(grant)
        if path == grant or path.startswith(grant.rstrip("/") + "/"):
            return True
    return False


def _is_below(path: str, grants: Collection[str]) -> bool:
    """Whether something that runs inside may have made the path what it is, or may do so now."""
    path = os.path.abspath(path)
    return any(path.startswith(os.path.abspath(grant).rstrip("/") + "/") for grant in grants)


def _paths(key: str, base: Mapping[str, Any], new: List[str], base_dir: str) -> Optional[str]:
    def full(path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = (caller_home() or os.path.expanduser("~")) + path[1:]
        return os.path.join(base_dir, path)

    written = [full(path) for path in base.get("fs.write", ())]
    read = base.get("fs.read", ()) if key == "fs.read" else ()
    grants = written + [full(path) for path in read]
    for path in map(full, new):
        if not inside(path, grants):
            return f"'{path}' lies in no {key.replace('.', '_')} grant of the sandbox"
        # The library refuses links on the way to write grants by itself, and on the way to read
        # grants where the same run may write; that this sandbox's other runs may is known here.
        if key == "fs.read" and _is_below(path, written):
            return f"'{path}' lies in what the sandbox may write, and may become a link"
    return None


def _ports(rule: str) -> List[str]:
    """HOST:80,443 as single rules; the library writes them with their ports."""
    host, colon, ports = rule.rpartition(":")
    if not colon or not ports.replace(",", "").isdigit():
        return [rule]
    return [f"{host}:{port}" for port in ports.split(",")]


def _subset(key: str, base: Collection[str], new: Collection[str]) -> Optional[str]:
    allowed = {single for rule in base for single in _ports(rule)}
    for rule in new:
        for single in _ports(rule):
            if single not in allowed:
                return f"{key.replace('.', '_')}: '{rule}' is not allowed by the sandbox"
    return None


def _limit(key: str, base: Any, new: Any) -> Optional[str]:
    if base is None:
        return None
    had, want = _keys.magnitude(key, base), _keys.magnitude(key, new)
    if had is not None and want is not None and want <= had * (1 + 1e-9):
        return None
    return f"{key.replace('.', '_')}: {new} is more than the sandbox's {base}"


def _switch(key: str, base: Mapping[str, Any], new: Any) -> Optional[str]:
    if key == "fs.protect":
        order = (False, "existing", True)
        had = base.get(key)
        fine = order.index(new) >= order.index(True if had is None else had)
    elif key == "isolation":
        fine = _LEVELS.get(new, 0) >= _LEVELS.get(base.get(key) or "auto", 0)
    elif key == "limits.output_end":
        fine = new is True or not base.get(key)
    else:
        fine = new == base.get(key)
    return None if fine else f"{key.replace('.', '_')} cannot be {new!r} here"


def _gpus(base: str, new: str) -> Optional[str]:
    had = base.split(",")
    wrong = [one for one in new.split(",") if one not in ("none", *had)]
    if not wrong or base == "all":
        return None
    return f"gpu: '{wrong[0]}' is not given by the sandbox"


def _one(
    key: str, base: Mapping[str, Any], new: Any, complete: bool, base_dir: str
) -> Optional[str]:
    if key in ("fs.read", "fs.write"):
        return _paths(key, base, new, base_dir)
    if key == "gpu":
        return _gpus(base.get(key) or "none", new)
    if key in ("net.allow", "net.publish", "env.pass", "best_effort", "devices"):
        return _subset(key, base.get(key, ()), new)
    if key == "commands":
        return _subset(key, base[key], new) if key in base else None
    if key in _ADDING:
        missing = [v for v in base.get(key, ()) if v not in new] if complete else []
        return f"{key.replace('.', '_')} lacks '{missing[0]}'" if missing else None
    if key == "env.set":
        return None  # variables give no rights
    if key == "cwd":
        return None  # what is visible does not depend on it
    if _keys.type_of(key) in ("duration", "size", "count", "share"):
        return _limit(key, base.get(key), new)
    return _switch(key, base, new)


def loosened(
    base: Policy,
    new: Mapping[str, Any],
    unlimited: FrozenSet[str],
    complete: bool = False,
    base_dir: str = "",
) -> Optional[str]:
    """Why ``new`` (key -> value) allows more than ``base``, or None. ``complete``: ``new`` is a
    whole policy, in which a missing value is a looser one. ``base_dir``: where relative paths
    begin."""
    had = base.effective()
    for key in sorted(unlimited):
        if key in had:
            return f"{key.replace('.', '_')}: no limit is more than the sandbox's {had[key]}"
    for key, value in new.items():
        why = _one(key, had, value, complete, base_dir)
        if why:
            return why
    if complete:
        for key, value in had.items():
            closed = _keys.type_of(key) in ("list", "map") and key not in (*_ADDING, "commands")
            if key not in new and not closed and key not in ("cwd", "fs.workspace", "env.set", "gpu"):
                return f"{key.replace('.', '_')} is not stated"
    return None


def tightened(base: Policy, over: Policy, *, base_dir: str, allow_overrides: bool) -> Policy:
    """``base`` with a run's own settings; PolicyError if they allow more, unless they may."""
    more = stated(over)
    if not allow_overrides:
        why = loosened(base, more, over.unlimited, base_dir=base_dir)
        if why:
            raise PolicyError(
                f"a run cannot have more than its sandbox: {why}",
                hint="set it on the sandbox, or make that with allow_overrides=True",
            )
    doc = base.effective()
    for key in over.unlimited:
        doc.pop(key, None)
    for key, value in more.items():
        if isinstance(value, list) and key not in _REPLACING:
            value = [*doc.get(key, ()), *(v for v in value if v not in doc.get(key, ()))]
        if isinstance(value, dict):
            value = {**doc.get(key, {}), **value}
        doc[key] = value
    return from_document(doc, base.unlimited | over.unlimited)
