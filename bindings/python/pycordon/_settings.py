# SPDX-License-Identifier: Apache-2.0
"""What a sandbox was made with, and the policies of its runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

from . import _cordon, _keys
from ._native import caller_home
from ._policy import Policy, from_document, make_policy, working_in
from ._python import changed_path, search_path
from ._tighten import tightened

if TYPE_CHECKING:
    from ._job import RunArguments
    from ._packages import Packages

#: Limits that are about commands: the file server, which works for the caller, has none of them.
_NOT_FOR_FILES = (
    "commands", "limits.wall", "limits.memory", "limits.output", "limits.output_end", "limits.cpu",
    "limits.cpu_time", "net.allow", "net.deny", "net.publish", "net.max",
)  # fmt: skip
_FILES_SECONDS = 300
_ANY_DISK = "1024T"  # the largest value that a policy accepts


@dataclass(frozen=True)
class Settings:
    """What a sandbox was made with. ``id`` names an existing sandbox to attach to."""

    policy: Policy
    base_dir: str  # where relative paths begin
    host_workdir: Optional[str] = None
    private_workdir: bool = False
    persist: bool = True
    keep: bool = False
    id: Optional[str] = None
    name: Optional[str] = None
    allow_overrides: bool = False
    parked: int = 0  # how many sandboxes are made ahead
    preload: Optional[Tuple[str, ...]] = None  # modules of an interpreter that is started ahead
    warm: Mapping[str, int] = field(default_factory=dict)  # interpreters that wait for a program
    fresh_aslr: bool = False  # and those of Python instead of an image
    packages: "Optional[Packages]" = None  # keeps their layers
    programs: Tuple[str, ...] = ()  # directories with programs of packages
    compile_timeout: str = "60s"  # limits of compilers
    compile_memory: Union[int, str] = "1G"

    def meta(self) -> Dict[str, Any]:
        """The settings as the store keeps them for attach()."""
        return {
            "base_dir": self.base_dir,
            "workdir": self.host_workdir,
            "own_workdir": self.private_workdir,
            "policy": self.policy.effective(),
            "unlimited": sorted(self.policy.unlimited),
            "name": self.name,
            "programs": list(self.programs),
            "compile": [self.compile_timeout, self.compile_memory],
            "allow_overrides": self.allow_overrides,
        }

    @classmethod
    def from_meta(cls, id: str, meta: Mapping[str, Any]) -> "Settings":
        """The settings of a sandbox that exists."""
        timeout, memory = meta.get("compile") or (cls.compile_timeout, cls.compile_memory)
        return cls(
            from_document(meta["policy"], frozenset(meta["unlimited"])),
            meta["base_dir"],
            host_workdir=meta["workdir"],
            private_workdir=meta["own_workdir"],
            keep=True,
            id=id,
            name=meta["name"],
            programs=tuple(meta.get("programs", ())),
            compile_timeout=timeout,
            compile_memory=memory,
            allow_overrides=meta["allow_overrides"],
        )

    def in_path(self, path: str) -> str:
        """``path`` with the programs of packages before others, as in a virtual environment."""
        return ":".join([*self.programs, path])

    def launch_options(self) -> Dict[str, Any]:
        """Where the launcher starts a run. Every run can read the directory it starts in, so that
        must not be the caller's, which may hold keys, unless it was named. From / the library goes
        to the private home."""
        return {
            "env": os.environ,
            "cwd": self.host_workdir or "/",
            "home": caller_home(),
            "search_path": self.in_path(search_path()) if self.programs else changed_path(),
        }


class Policies:
    """The policies of a sandbox's runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._native: Optional[_cordon.Policy] = None
        self._files: Optional[Policy] = None

    def for_run(self, args: "RunArguments") -> Policy:
        """The sandbox's policy with a run's own settings."""
        settings = self._settings
        over = Policy(**args.overrides) if args.overrides else None
        if args.policy is not None:
            own = working_in(make_policy(args.policy, {}), settings.host_workdir)
            over = own if over is None else own.merged(**args.overrides)
        given = {key: (name, getattr(args, name)) for name, key in _keys.RUN_LIMITS.items()}
        limits: Dict[str, Any] = {k: _keys.value_for(k, *v) for k, v in given.items() if v[1] is not None}
        if limits:
            over = (over or Policy()).merged(**limits)
        if over is None:
            return settings.policy
        return tightened(
            settings.policy,
            over,
            base_dir=settings.base_dir,
            allow_overrides=settings.allow_overrides,
        )

    def for_files(self, grows: bool, without_workspace: bool = False) -> Policy:
        """The policy of the file server. ``grows``: the operation may need space."""
        if without_workspace:
            made = self.for_files(grows)
            doc = {key: value for key, value in made.effective().items() if key not in ("fs.workspace", "cwd")}
            return from_document(doc, made.unlimited)
        policy = self._files
        if policy is None:
            stated = self._settings.policy
            doc = {k: v for k, v in stated.effective().items() if k not in _NOT_FOR_FILES}
            doc["limits.wall"] = f"{_FILES_SECONDS}s"
            policy = self._files = from_document(doc, stated.unlimited)
        if grows:
            return policy
        # A sandbox that is too full must stay readable, above all to be tidied up. Leaving the
        # limit out would mean the default, and stating one must not fail where none can be
        # enforced.
        doc = {**policy.effective(), "limits.disk": _ANY_DISK}
        doc["best_effort"] = [*doc.get("best_effort", ()), "disk"]
        return from_document(doc, policy.unlimited)

    def native(self, policy: Policy) -> _cordon.Policy:
        """The library's form of a policy: a copy that a run may add to."""
        if policy is not self._settings.policy:
            return policy.native(self._settings.base_dir)
        if self._native is None:
            self._native = policy.native(self._settings.base_dir)
        return self._native.copy()
