# SPDX-License-Identifier: Apache-2.0
"""Packages for the runs of a sandbox, and for what runs already."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from . import _arguments, _cordon
from ._errors import UsageError, raise_native
from ._native import caller_home, launcher
from ._policy import Policy
from ._python import interpreter, search_path


#: Where a home has copies of layers.
COPIES = ".cordon-layers"


def before(value: str, own: Optional[str]) -> str:
    """A list of directories with others after it, where these are not named again."""
    first = value.split(":")
    rest = own.split(":") if own else []
    return ":".join([*first, *(path for path in rest if path not in first)])


@dataclass(frozen=True)
class Packages:
    """Layers in the cache. They are not removed as long as this object lives."""

    keeper: object = field(repr=False)
    dirs: Tuple[str, ...]
    env: Tuple[str, ...]
    programs: Tuple[str, ...]

    @property
    def variables(self) -> Dict[str, str]:
        """What runs need to find them, but for PATH."""
        return dict(entry.split("=", 1) for entry in self.env)

    @property
    def modules(self) -> List[str]:
        """The directories with Python's."""
        found = self.variables.get("PYTHONPATH")
        return found.split(":") if found else []

    def applied(self, policy: Policy) -> Policy:
        """The policy of runs that see the packages. What it says about their variables comes after
        them."""
        doc = policy.effective()
        own, read = doc.get("env.set", {}), doc.get("fs.read", ())
        variables = {name: before(value, own.get(name)) for name, value in self.variables.items()}
        return policy.merged(fs_read=[path for path in self.dirs if path not in read], env_set=variables)

    def over(self, older: "Optional[Packages]") -> "Packages":
        """These, with older ones after them."""
        if older is None:
            return self
        mine, theirs = self.variables, older.variables
        variables = {**theirs, **{name: before(value, theirs.get(name)) for name, value in mine.items()}}
        return Packages(
            (self.keeper, older.keeper),
            tuple(dict.fromkeys((*self.dirs, *older.dirs))),
            tuple(f"{name}={value}" for name, value in variables.items()),
            tuple(dict.fromkeys((*self.programs, *older.programs))),
        )


class Found:
    """Where something that runs already finds the layers it has: in the cache if it was started with
    them, else in a copy among its own files."""

    def __init__(self, packages: Optional[Packages]) -> None:
        self._packages = packages  # keeps them
        self._places: Dict[str, str] = {} if packages is None else {path: path for path in packages.dirs}

    def copy(self) -> "Found":
        """For a fork."""
        made = Found(self._packages)
        made._places = dict(self._places)
        return made

    def missing(self, packages: Packages, home: str) -> Dict[str, str]:
        """The layers that it has not, and a place for a copy of each. The name is one that nobody inside
        can have taken."""
        return {
            path: f"{home}/{COPIES}/{os.path.basename(os.path.dirname(path))[:12]}-{secrets.token_hex(8)}"
            for path in packages.dirs
            if path not in self._places
        }

    def _inside(self, path: str, places: Mapping[str, str]) -> str:
        top = next(top for top in places if path == top or path.startswith(f"{top}/"))
        return places[top] + path[len(top) :]

    def variables(self, packages: Packages, copies: Mapping[str, str]) -> Dict[str, str]:
        """What belongs before the values of variables, once the copies are there."""
        places = {**self._places, **copies}
        made = {name: self._inside(path, places) for name, path in packages.variables.items()}
        if packages.programs:
            made["PATH"] = ":".join(self._inside(path, places) for path in packages.programs)
        return made

    def add(self, packages: Packages, copies: Mapping[str, str]) -> None:
        """It has them."""
        self._packages = packages.over(self._packages)
        self._places.update(copies)

    @property
    def modules(self) -> List[str]:
        """The directories with Python's."""
        known = [] if self._packages is None else self._packages.modules
        return [self._inside(path, self._places) for path in known]


def _words(packages: Iterable[object]) -> List[str]:
    if isinstance(packages, (str, bytes)):
        raise UsageError("packages: a list is needed, not one string", hint=f"[{packages!r:.60}]")
    return [_arguments.text("packages", word) for word in packages]


def install(
    packages: Iterable[object],
    policy: Policy,
    may_build: bool,
    line: Optional[Callable[[str], object]] = None,
    base_dir: Optional[str] = None,
) -> Packages:
    """Finds or installs packages: ``"requests==2.32.3"`` and ``"npm:lodash@4"``, or the path of a
    requirements file or package-lock.json, which ends in ``.txt`` or ``.json``. ``may_build``: packages
    may run code to be installed. ``line`` gets what the installer says, and stops it by raising.
    ``base_dir``: where relative paths of the policy begin, if not in the current directory."""
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
            policy=policy.native(base_dir),
            line=line,
        )
    except _cordon.Error as error:
        raise_native(error)
    found = tuple(path for path in programs if os.path.isdir(path))
    return Packages(keeper, tuple(dirs), tuple(env), found)


def install_more(
    packages: Tuple[object, ...],
    policy: Policy,
    may_build: bool,
    line: Optional[Callable[[str], object]],
    base_dir: str,
) -> Packages:
    """The same for ``install()`` of an object that lives."""
    _arguments.flag("build_packages", may_build)
    if not packages:
        raise UsageError("install: no packages are named", hint='install("requests==2.32.3")')
    return install(packages, policy, may_build, line, base_dir)
