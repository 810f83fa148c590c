# SPDX-License-Identifier: Apache-2.0
"""Packages for the runs of a sandbox."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Callable, Iterable, List, Optional, Tuple

from . import _arguments, _cordon
from ._errors import UsageError, raise_native
from ._native import caller_home, launcher
from ._policy import Policy
from ._python import interpreter, search_path


@dataclass(frozen=True)
class Packages:
    """Layers in the cache. They are not removed as long as this object lives."""

    keeper: object = field(repr=False)
    dirs: Tuple[str, ...]
    env: Tuple[str, ...]
    programs: Tuple[str, ...]

    @property
    def modules(self) -> List[str]:
        """The directories with Python's."""
        found = dict(entry.split("=", 1) for entry in self.env).get("PYTHONPATH")
        return found.split(":") if found else []

    def applied(self, policy: Policy) -> Policy:
        """The policy of runs that see the packages. What it says about their variables comes after
        them."""
        own = policy.effective().get("env.set", {})
        variables = {}
        for name, value in (entry.split("=", 1) for entry in self.env):
            variables[name] = f"{value}:{own[name]}" if own.get(name) else value
        return policy.merged(fs_read=list(self.dirs), env_set=variables)


def _words(packages: Iterable[object]) -> List[str]:
    if isinstance(packages, (str, bytes)):
        raise UsageError("packages: a list is needed, not one string", hint=f"[{packages!r:.60}]")
    return [_arguments.text("packages", word) for word in packages]


def install(
    packages: Iterable[object], policy: Policy, may_build: bool, line: Optional[Callable[[str], object]] = None
) -> Packages:
    """Finds or installs packages: ``"requests==2.32.3"`` and ``"npm:lodash@4"``, or the path of a
    requirements file or package-lock.json, which ends in ``.txt`` or ``.json``. ``may_build``: packages
    may run code to be installed. ``line`` gets what the installer says, and stops it by raising."""
    words = _words(packages)
    files = [word for word in words if word.endswith((".txt", ".json"))]
    try:
        keeper, dirs, env, programs = launcher().packages(
            [word for word in words if word not in files],
            files,
            may_build,
            python=interpreter(),
            env=os.environ,
            home=caller_home(),
            search_path=search_path(),
            hosts=os.environ.get("CORDON_PACKAGE_HOSTS"),
            isolation=policy.effective().get("isolation"),
            policy=policy.native(),
            line=line,
        )
    except _cordon.Error as error:
        raise_native(error)
    found = tuple(path for path in programs if os.path.isdir(path))
    return Packages(keeper, tuple(dirs), tuple(env), found)
