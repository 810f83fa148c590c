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
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _cordon, store
from ._native import launcher, log
from .errors import ClosedError, CordonError, PathError, StateError, raise_native
from .policy import Policy, from_document
from .settings import Settings
from .tighten import inside

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
        )

    def missing_python(self) -> Optional[str]:
        """Where python3 is, if there is no program called python."""
        if shutil.which("python", path=self.path):
            return None
        return shutil.which("python3", path=self.path)


class Viewer:
    """Plans runs without starting them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._common: Optional[View] = None

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


def _discard(home: store.Home, keep: bool) -> None:
    """For a sandbox that was not closed: at its garbage collection or at the interpreter's end."""
    try:
        if home.owner and not keep:
            home.remove()
        else:
            home.release()
    except (OSError, CordonError) as error:
        log.debug("cannot remove sandbox %s: %s", home.id, error)


class PrivateDir:
    """The sandbox's private directory, and where runs find it. The first use makes it."""

    def __init__(self, settings: Settings, viewer: Viewer) -> None:
        self._settings = settings
        self._viewer = viewer
        self._finalizer: "Optional[weakref.finalize[..., Any]]" = None
        self._is_closed = False
        self._lacks_python: Optional[bool] = None
        self._paths: Dict[str, str] = {}
        #: None before the first use. Stays after close(), for its id.
        self.home: Optional[store.Home] = None
        self.renew_lock()

    def renew_lock(self) -> None:
        """In a forked child another thread of the parent may hold the old one for ever."""
        self._lock = threading.RLock()  # a signal handler may close the sandbox meanwhile

    def take(self, home: store.Home) -> None:
        """Uses a directory that exists."""
        self.home = home
        self._finalizer = weakref.finalize(self, _discard, home, self._settings.keep)

    def open(self) -> store.Home:
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
            self.take(store.attach(settings.id))
            return
        self._viewer.common()  # fails before anything is made if no run can be planned
        self.take(self._create(settings.meta(), settings.keep))

    def temporary(self) -> store.Home:
        """A directory for one run of a sandbox that has none. The caller removes it."""
        return self._create({}, keep=False)

    def _create(self, meta: Mapping[str, Any], keep: bool) -> store.Home:
        """A new directory, complete before any other thread can see it."""
        home = store.create(meta, keep)
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
        python = view.missing_python()
        if python:
            parts += [os.path.join(path, "home", ".local"), os.path.join(path, "home/.local/bin")]
        for directory in parts:
            os.mkdir(directory, 0o700)
            if os.geteuid() == 0:
                os.chown(directory, view.host_uid, view.host_gid)
        if python:
            os.symlink(python, os.path.join(path, "home/.local/bin/python"))

    def path_for(self, home: store.Home, policy: Policy) -> str:
        """The directory's path, for a run with ``policy``. The library hides the user's state
        directory whatever is granted. At level landlock it cannot where the policy grants reading,
        and elsewhere it hides only the run's own directory and not its neighbours."""
        view = self._viewer.common()
        if store.is_hidden(home.path) and view.level != "landlock":
            return home.path
        doc = policy.effective()
        grants = [*doc.get("fs.write", ()), *doc.get("fs.read", ())]
        grants = [os.path.join(self._settings.base_dir, grant) for grant in grants]
        # The caller's directory and a workspace are shown without being such grants.
        if inside(home.path, [*grants, *view.shown]):
            raise StateError(
                f"sandboxes are kept in '{os.path.dirname(home.path)}', which is granted",
                hint="set XDG_STATE_HOME to a directory of yours, or grant less",
            )
        return home.path

    # --- where runs find things --------------------------------------------------------------

    def inside_home(self) -> str:
        """The home directory, as runs see it."""
        view = self._viewer.common()
        if view.level == "landlock" and self.home is not None:
            return os.path.join(self.home.path, "home")
        return view.home

    def inside_tmp(self, home: store.Home) -> str:
        """The temporary directory, as runs see it."""
        is_landlock = self._viewer.common().level == "landlock"
        return os.path.join(home.path, "tmp") if is_landlock else "/tmp"

    def inside_workdir(self) -> str:
        """The private working directory, as runs see it."""
        return os.path.join(self.inside_home(), "work")

    def search_path(self, argv0: str, policy: _cordon.Policy) -> Optional[str]:
        """PATH of a run with the directory of our ``python`` at its end; None: leave it alone."""
        if self._lacks_python is None:
            self._lacks_python = self._viewer.common().missing_python() is not None
        if not self._lacks_python:
            return None
        if argv0 not in self._paths:
            try:
                plan = self._viewer.plan(policy, argv0)
            except CordonError:
                return None  # starting it will say the same
            self._paths[argv0] = f"{plan.path}:{self.inside_home()}/.local/bin"
        return self._paths[argv0]
