# SPDX-License-Identifier: Apache-2.0
"""What the runs of a sandbox see: its view, and its private directory."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _cordon, _store
from ._native import caller_home, launcher, log
from ._code import INSIDE, PROGRAMS, Drop
from ._errors import ClosedError, CordonError, PathError, StateError, raise_native
from ._hostfiles import write_all
from ._policy import Policy, from_document
from ._python import hidden
from ._runs import KeptRuns, Runs
from ._settings import Settings
from ._tighten import inside

_SHOWING = ("bind", "rule", "overlay")


@dataclass(frozen=True)
class View:
    """What a plan says about a run."""

    level: str
    cwd: str
    home: str
    path: str
    host_uid: int
    host_gid: int
    shown: Tuple[str, ...]  # files of the host that are visible, for whatever reason
    memory_bytes: int  # limits; 0: none
    disk_bytes: int
    env: Mapping[str, str]  # variables

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any]) -> "View":
        """From the plan's JSON."""
        env = dict(entry.split("=", 1) for entry in plan["env"])
        ids = plan["ids"]
        return cls(
            plan["level"],
            plan["cwd"],
            env.get("HOME", "/"),
            env.get("PATH", os.defpath),
            ids["host_uid"],
            ids["host_gid"],
            tuple(step["path"] for step in plan["steps"] if step["do"] in _SHOWING),
            int(plan["limits"].get("memory_bytes", 0)),
            int(plan["limits"].get("workspace_bytes", 0)),
            env,
        )


def own_home(home: str, view: View) -> str:
    """The home directory inside, if it is not one of the host that was granted."""
    if inside(home, view.shown) if view.level != "landlock" else home == caller_home():
        raise host_home(home)
    return home


def host_home(home: str) -> StateError:
    """The exception if it is."""
    return StateError(
        f"the home directory inside is the host's ('{home}'), where nothing is installed",
        hint="grant less than the home directory, or give packages= when it is made",
    )


class Viewer:
    """Plans runs without starting them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._common: Optional[View] = None
        self._limits: Optional[View] = None

    def plan(self, policy: _cordon.Policy, argv0: str) -> View:
        """The view of one run."""
        try:
            text = launcher().plan(policy, [argv0], **self._settings.launch_options())
        except _cordon.Error as error:
            raise_native(error)
        return View.from_plan(json.loads(text))

    def common(self) -> View:
        """What every run of the sandbox has in common."""
        view = self._common
        if view is None:
            settings = self._settings
            self.make_workdir()
            # At level landlock the private directory is the sandbox's disk; this plan has none.
            unneeded = ("commands", "limits.disk") if settings.persist else ("commands",)
            doc = {k: v for k, v in settings.policy.effective().items() if k not in unneeded}
            native = from_document(doc).native(settings.base_dir)
            view = self._common = self._with_owner(self.plan(native, "/bin/sh"), doc)
        return view

    def limits(self, private_dir: str) -> View:
        """The view of a run with this private directory, for its limits."""
        view = self._limits
        if view is None:
            settings = self._settings
            native, options = settings.policy.native(settings.base_dir), settings.launch_options()
            argv0 = next(iter(settings.policy.effective().get("commands", ())), "/bin/sh")
            for key, option in (("limits.wall", "wall_ms"), ("limits.memory", "memory_bytes")):
                if key in settings.policy.unlimited:
                    options[option] = -1
            try:
                text = launcher().plan(native, [argv0], private_dir=private_dir, **options)
            except _cordon.Error as error:
                raise_native(error)
            view = self._limits = View.from_plan(json.loads(text))
        return view

    def take(self, other: "Viewer") -> None:
        """What is known of a sandbox with the same settings."""
        self._common, self._limits = other._common, other._limits

    def _with_owner(self, view: View, doc: Mapping[str, Any]) -> View:
        """With a private directory root's runs at level landlock keep root's id."""
        if not self._settings.persist or view.level != "landlock" or "user" in doc:
            return view
        return replace(view, host_uid=os.geteuid(), host_gid=os.getegid())

    def make_workdir(self) -> None:
        """Makes the working directory on the host if it is missing."""
        path = self._settings.host_workdir
        if path is None:
            return
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            why = "it is no directory" if error.errno == errno.EEXIST else error.strerror
            raise PathError(
                f"workdir '{path}' cannot be used: {why}", errno=error.errno or 0
            ) from None


def _discard(home: _store.Home, keep: bool, kept: KeptRuns) -> None:
    """For a sandbox that was not closed: at its garbage collection or at the interpreter's end."""
    try:
        kept.end()  # before their files go away
        if home.owner and not keep:
            home.remove()
        else:
            home.release()
    except (OSError, CordonError) as error:
        log.debug("cannot remove sandbox %s: %s", home.id, error)


def _overlaps(place: str, shown: Collection[str]) -> bool:
    """Whether someone who is shown these sees the place, or a part of it."""
    return inside(place, shown) or any(inside(path, [place]) for path in shown)


def _write_new(place: str, parts: Sequence[str], data: bytes, owner: Optional[Tuple[int, int]]) -> None:
    """A new file of the run's user, and the directories on the way."""
    *parents, last = parts
    for parent in parents:
        place = os.path.join(place, parent)
        try:
            os.mkdir(place)
        except FileExistsError:
            continue
        if owner is not None:
            os.chown(place, *owner)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(os.path.join(place, last), flags, 0o666), "wb", buffering=0) as file:
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        write_all(file, data)


class PrivateDir:
    """The sandbox's private directory, and where runs find it. The first use makes it."""

    def __init__(self, settings: Settings, viewer: Viewer, runs: Runs) -> None:
        self._settings = settings
        self._viewer = viewer
        self._runs = runs
        self._finalizer: "Optional[weakref.finalize[..., Any]]" = None
        self._is_closed = False
        self._links: Dict[Tuple[str, bool], Optional[str]] = {}
        self._paths: Dict[str, str] = {}
        self._programs: Dict[str, Drop] = {}  # by where the links lead
        self._shows_memory: Optional[bool] = None
        #: None before the first use. Stays after close(), for its id.
        self.home: Optional[_store.Home] = None
        self.renew_lock()

    def renew_lock(self) -> None:
        """In a forked child another thread of the parent may hold the old one for ever."""
        self._lock = threading.RLock()  # a signal handler may close the sandbox meanwhile

    def use(self, settings: Settings, viewer: Viewer) -> None:
        """Later runs have these."""
        with self._lock:
            self._settings, self._viewer = settings, viewer
            self._links, self._paths, self._shows_memory = {}, {}, None

    def take(self, home: _store.Home) -> None:
        """Uses a directory that exists."""
        self.home = home
        self._finalizer = weakref.finalize(
            self, _discard, home, self._settings.keep, self._runs.kept
        )

    def open(self) -> _store.Home:
        """The directory; makes or attaches to it if that was not done yet."""
        home = self.home
        if home is None:
            with self._lock:
                if self._is_closed:
                    raise ClosedError("the sandbox is closed")
                if self.home is None:
                    self._make()
                home = self.home
        assert home is not None
        home.require()
        return home

    def _make(self) -> None:
        settings = self._settings
        if settings.id is not None:
            self.take(_store.attach(settings.id))
            return
        self._viewer.common()  # fails before anything is made if no run can be planned
        self.take(self._create(settings.meta(), settings.keep))

    def copy(self) -> _store.Home:
        """A new directory with the same files. The caller sees to it that no run changes them now."""
        return self._copy_of(self.open())

    def replace(self, other: _store.Home) -> None:
        """Puts a copy of another directory's files in the place of those here, at once or not at all."""
        mine, made = self.open(), self._copy_of(other)
        try:
            _store.exchange_private(mine.path, made.path)
        finally:
            made.remove()

    def _copy_of(self, source: _store.Home) -> _store.Home:
        view = self._viewer.limits(source.path)
        # The name is that of the workspace, which the copy has not.
        home = _store.create(replace(self._settings, name=None).meta(), keep=False)
        try:
            # limits.disk counts a file for each 4 KiB.
            _store.copy_private(source.path, home.path, view.disk_bytes, view.disk_bytes // 4096)
        except BaseException:
            home.remove()
            raise
        return home

    def temporary(self) -> _store.Home:
        """A directory for one run of a sandbox that has none. The caller removes it."""
        return self._create({}, keep=False)

    def _create(self, meta: Mapping[str, Any], keep: bool) -> _store.Home:
        """A new directory, complete before any other thread can see it."""
        home = _store.create(meta, keep)
        try:
            self._furnish(home.path)
        except BaseException:
            home.remove()
            raise
        return home

    def close(self, remove: bool) -> None:
        """Removes the directory, or lets go of it if it is to stay."""
        with self._lock:
            self._is_closed = True
            home, finalizer = self.home, self._finalizer
            self._finalizer = None
        if finalizer is not None:
            finalizer.detach()
        for drop in self._programs.values():
            drop.close()
        if home is not None:
            if (home.owner and not self._settings.keep) or remove:
                home.remove()
            else:
                home.release()

    def _furnish(self, path: str) -> None:
        """Makes tmp, home and their content, before any guest can write there."""
        view = self._viewer.common()
        parts = [os.path.join(path, "tmp"), os.path.join(path, "home")]
        if self._settings.private_workdir:
            parts.append(os.path.join(path, "home", "work"))
        for directory in parts:
            os.mkdir(directory, 0o700)
            if os.geteuid() == 0:
                os.chown(directory, view.host_uid, view.host_gid)

    def fill(self, files: Mapping[str, bytes]) -> bool:
        """Writes files below the private working directory, before any guest can write there. False: they are not all
        there, because runs start elsewhere, for want of room, or for another reason."""
        home, view = self.open(), self._viewer.common()
        used = sum((len(data) | 4095) + 1 for data in files.values())
        if not self._settings.private_workdir or self.inside_workdir() != os.path.join(self.inside_home(), "work"):
            return False
        if used + (64 << 10) > self._viewer.limits(home.path).disk_bytes:
            return False
        owner = (view.host_uid, view.host_gid) if os.geteuid() == 0 else None
        try:
            for name, data in files.items():
                _write_new(os.path.join(home.path, "home", "work"), name.split("/"), data, owner)
        except OSError as error:
            log.debug("files cannot be put into a sandbox from outside: %s", error)
            return False
        return True

    def path_for(self, home: _store.Home, policy: Policy) -> str:
        """The directory's path, for a run with ``policy``. The library hides the user's state
        directory whatever is granted. At level landlock it cannot where the policy grants reading,
        and elsewhere it hides only the run's own directory and not its neighbours."""
        self._check_hidden(home.path, policy)
        return home.path

    def place_for_code(self, policy: Policy) -> str:
        """A path beside which the code of runs lies that have no private directory."""
        path = os.path.join(_store.directory(), "code")
        self._check_hidden(path, policy)
        return path

    def _grants(self, policy: Policy) -> List[str]:
        doc = policy.effective()
        grants = [*doc.get("fs.write", ()), *doc.get("fs.read", ())]
        return [os.path.join(self._settings.base_dir, grant) for grant in grants]

    def is_memory_closed(self, policy: Policy) -> bool:
        """Whether no run sees the host's place in memory: then code may lie there. At level landlock
        runs see the host's paths, so there it never does."""
        if self._viewer.common().level == "landlock":
            return False
        place = _store.place_in_memory()
        if self._shows_memory is None:  # what all runs see does not change
            self._shows_memory = _overlaps(place, self._viewer.common().shown)
        return not self._shows_memory and not _overlaps(place, self._grants(policy))

    def _check_hidden(self, path: str, policy: Policy) -> None:
        view = self._viewer.common()
        if _store.is_hidden(path) and view.level != "landlock":
            return
        # The caller's directory and a workspace are shown without being grants of the policy.
        if inside(path, [*self._grants(policy), *view.shown]):
            raise StateError(
                f"sandboxes are kept in '{os.path.dirname(path)}', which is granted",
                hint="set XDG_STATE_HOME to a directory of yours, or grant less",
            )

    # --- where runs find things --------------------------------------------------------------

    def inside_home(self) -> str:
        """The home directory, as runs see it."""
        view = self._viewer.common()
        if view.level == "landlock" and self.home is not None:
            return os.path.join(self.home.path, "home")
        return view.home

    def inside_copies(self) -> str:
        """The same, for copies of packages: it must be the sandbox's own."""
        view = self._viewer.common()
        return own_home(self.inside_home(), view)

    def inside_code(self, drop: str) -> str:
        """A run's code, as it sees that. ``drop``: the host's directory."""
        return drop if self._viewer.common().level == "landlock" else INSIDE

    def inside_workdir(self) -> str:
        """The private working directory, as runs see it. If the home is granted, that is the host's,
        with no such directory; then it is where the library starts them."""
        view = self._viewer.common()
        if view.level != "landlock" and inside(view.home, view.shown):
            return view.cwd
        return os.path.join(self.inside_home(), "work")

    def python_link(self, policy: Policy) -> Optional[str]:
        """Where a link called ``python`` has to lead; None if PATH has the right one. What a list of
        commands allows is found by PATH, so then it only stands in for one that is missing."""
        path, doc = self._viewer.common().path, policy.effective()
        if (path, "commands" in doc) not in self._links:
            found = None if "commands" in doc else hidden(path)
            if found is None and shutil.which("python", path=path) is None:
                found = shutil.which("python3", path=path)
            self._links[path, "commands" in doc] = found
        return self._links[path, "commands" in doc]

    def programs(self, policy: Policy) -> Optional[Drop]:
        """What runs without code are shown: a program called python, if they need one."""
        python, doc = self.python_link(policy), policy.effective()
        grants = [*doc.get("fs.write", ()), *doc.get("fs.read", ())]
        if python is None or os.path.dirname(INSIDE) in map(os.path.normpath, grants):
            return None
        with self._lock:
            # A forked child uses its parent's, which is there as long as the sandbox is.
            made = self._programs.get(python)
            if not self._is_closed and (made is None or not os.path.isdir(made.path)):
                try:
                    base = _store.directory() if self.home is None else os.path.dirname(self.home.path)
                    self._programs[python] = made = Drop(base, python)
                except CordonError:
                    if self.home is not None:
                        raise
                    return None  # a sandbox without persist works without a place for files
                weakref.finalize(self, made.close)
            return self._programs.get(python)

    def search_path(
        self, argv0: str, policy: _cordon.Policy, stated: Policy, drop: Optional[str]
    ) -> Optional[str]:
        """PATH of a run with the directory of our ``python``, at its end unless it hides another
        one; None: leave it alone."""
        if self.python_link(stated) is None or drop is None:
            return None
        if argv0 not in self._paths:
            try:
                self._paths[argv0] = self._viewer.plan(policy, argv0).path
            except CordonError:
                return None  # starting it will say the same
        path, programs = self._paths[argv0], f"{self.inside_code(drop)}/{PROGRAMS}"
        comes_first = "commands" not in stated.effective() and hidden(path) is not None
        return f"{programs}:{path}" if comes_first else f"{path}:{programs}"
