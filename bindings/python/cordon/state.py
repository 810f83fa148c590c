# SPDX-License-Identifier: Apache-2.0
"""A sandbox's settings, its private directory, and the view that its runs have."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import threading
import weakref
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import _cordon, arguments, store
from ._native import caller_home, current_directory, launcher, log
from .errors import ClosedError, CordonError, PathError, StateError, UsageError, raise_native
from .job import Endpoint, Job, View
from .policy import Config, Policy, make_policy
from .result import Usage
from .tighten import inside

if TYPE_CHECKING:
    from .workspaces import Workspace

Self = TypeVar("Self", bound="SandboxState")


def _discard(home: store.Home, keep: bool) -> None:
    """When a sandbox was not closed: at its garbage collection or at the interpreter's end."""
    try:
        if home.owner and not keep:
            home.remove()
        else:
            home.release()
    except (OSError, CordonError) as error:
        log.debug("cannot remove sandbox %s: %s", home.id, error)


class SandboxState:
    """What a sandbox is; see Sandbox and AsyncSandbox."""

    def __init__(
        self,
        config: Config = None,
        *,
        workdir: Union[str, "os.PathLike[str]", bool, None] = None,
        persist: bool = True,
        keep: bool = False,
        id: Optional[str] = None,
        name: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        allow_overrides: bool = False,
        **settings: Any,
    ) -> None:
        self._persist = arguments.flag("persist", persist)
        self._keep = arguments.flag("keep", keep)
        self._allow_overrides = arguments.flag("allow_overrides", allow_overrides)
        if keep and not persist:
            raise UsageError("keep=True needs persist=True")
        if workdir is True and not persist:
            raise UsageError("workdir=True needs persist=True", hint="it lies in the private home")
        # A sandbox that does not start in the current directory can do without one.
        is_elsewhere = workdir is True or isinstance(workdir, str) and os.path.isabs(workdir)
        self._base_dir = current_directory("/" if is_elsewhere else None)
        self._host_workdir: Optional[str] = None
        self._own_workdir = workdir is True
        policy = make_policy(config, settings)
        if workdir is not None and not isinstance(workdir, bool):
            given = arguments.path("workdir", workdir)
            if not given:
                raise UsageError("workdir: '' is no path", hint="'.' is the current directory")
            self._host_workdir = os.path.realpath(os.path.join(self._base_dir, given))
            policy = policy.merged(fs_write=[self._host_workdir])
        if env:
            policy = policy.merged(env_set=arguments.variables("env", env))
        self._policy = policy
        self._name = None if name is None else arguments.text("name", name)
        self._attach_id = None if id is None else store.check_id(id)
        self._init_state()

    def _init_state(self) -> None:
        self._new_lock()
        self._pid = os.getpid()
        self._closed = False
        self._native: Optional[_cordon.Policy] = None
        self._files_policy: Optional[Policy] = None
        self._view_made: Optional[View] = None
        self._home: Optional[store.Home] = None
        self._finalizer: Optional[weakref.finalize[..., Any]] = None
        # Whoever waits for a run holds it. One that nobody holds any more, because an interrupt came
        # at the wrong moment, ends with its object.
        self._live: "weakref.WeakSet[_cordon.Run]" = weakref.WeakSet()
        self._kept: List[Tuple[_cordon.Run, Job]] = []
        self._spawned: "weakref.WeakSet[subprocess.Popen[Any]]" = weakref.WeakSet()
        self._usage = Usage(0.0, 0.0, 0, 0, 0, runs=0)
        self._endpoints: Dict[int, Endpoint] = {}
        self._publisher: Optional[Job] = None
        self._beginner: "Optional[weakref.ref[Job]]" = None  # the run that makes the workspace
        self._paths: Dict[str, Optional[str]] = {}
        self._lacks_python: Optional[bool] = None
        self._workspace_id: Optional[str] = None

    def _new_lock(self) -> None:
        self._lock = threading.RLock()
        self._quiet = threading.Condition(self._lock)  # no run goes on

    def __repr__(self) -> str:
        name = type(self).__name__
        where = self._home.id if self._home is not None else "not started"
        return f"<{name} {'closed' if self._closed else where}>"

    # --- what it is ----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id by which others can attach, with ``keep`` also after close(). Makes the private
        directory if there is none yet."""
        if not self._persist:
            raise UsageError("a sandbox without persist has no id")
        if self._closed and self._keep and self._home is not None:
            return self._home.id
        return self._make_home().id

    @property
    def policy(self) -> Policy:
        """What runs may do, the working directory and variables included."""
        return self._policy

    @property
    def closed(self) -> bool:
        """Whether it was closed, or removed by somebody else."""
        return self._closed or (self._home is not None and not self._home.exists)

    @property
    def host_workdir(self) -> Optional[Path]:
        """The working directory on the host, if it is a directory of the host's."""
        return None if self._host_workdir is None else Path(self._host_workdir)

    @property
    def workdir(self) -> str:
        """The directory that commands start in, as they see it."""
        view = self._view()
        if view.level == "landlock" and self._persist:
            self._make_home()  # without a view of its own, home is where that lies
        if self._own_workdir:
            return os.path.join(self._inside_home(), "work")
        return self._inside_home() if view.cwd == view.home else view.cwd

    @property
    def workspace(self) -> "Optional[Workspace]":
        """The workspace that the last run with ``workspace=`` left, or None."""
        if self._workspace_id is None:
            return None
        from . import workspaces

        try:
            return workspaces.open(self._workspace_id)
        except PathError:
            return None  # committed or discarded meanwhile

    def _workspace_name(self) -> Optional[str]:
        """Which workspace a run continues: the one that the last run left. If somebody has discarded
        it since, a new one begins."""
        found = self.workspace
        if found is None:
            return self._name
        found.close()
        return found.id

    def usage(self) -> Usage:
        """What all runs so far used: times and traffic added up, of the rest the highest."""
        return self._usage

    @classmethod
    def attach(cls: Type[Self], id: str) -> Self:
        """A second object for a sandbox that exists, perhaps made by another process. It has the
        same settings and the same files. Closing it leaves the sandbox as it is."""
        home = store.attach(id)
        try:
            meta = home.meta()
            self = cls.__new__(cls)
            self._base_dir = meta["base_dir"]
            self._host_workdir = meta["workdir"]
            self._own_workdir = meta["own_workdir"]
            self._policy = Policy._from_doc(meta["policy"], frozenset(meta["unlimited"]))
            self._persist, self._keep = True, True
            self._name = meta["name"]
            self._allow_overrides = meta["allow_overrides"]
            self._attach_id = id
        except (OSError, ValueError, KeyError) as error:
            home.release()
            raise CordonError(f"cannot attach to sandbox '{id}': {error}") from None
        self._init_state()
        self._take(home)
        return self

    # --- the private directory -----------------------------------------------------------------

    def _meta(self) -> Dict[str, Any]:
        return {
            "base_dir": self._base_dir,
            "workdir": self._host_workdir,
            "own_workdir": self._own_workdir,
            "policy": self._policy.effective(),
            "unlimited": sorted(self._policy.unlimited),
            "name": self._name,
            "allow_overrides": self._allow_overrides,
        }

    def _take(self, home: store.Home) -> None:
        self._home = home
        self._finalizer = weakref.finalize(self, _discard, home, self._keep)

    def _make_home(self) -> store.Home:
        """The sandbox's private directory; made by whoever comes first."""
        self._check_open()
        home = self._home
        if home is None:
            with self._lock:
                if self._home is None:
                    if self._attach_id is not None:
                        self._take(store.attach(self._attach_id))
                    else:
                        self._view()  # what cannot be planned needs no directory
                        made = store.create(self._meta(), self._keep)
                        self._take(made)
                        self._furnish(made.path)
                home = self._home
        assert home is not None
        home.require()
        return home

    def _private_dir(self, home: store.Home, policy: Policy) -> str:
        """The private directory for a run. The library hides the user's state directory whatever is
        granted, except that level landlock cannot, where it may be read; in the temporary directory
        only the run's own would be hidden, not its neighbours."""
        if store.is_hidden(home.path) and self._view().level != "landlock":
            return home.path
        doc = policy.effective()
        grants = [*doc.get("fs.write", ()), *doc.get("fs.read", ())]
        grants = [os.path.join(self._base_dir, grant) for grant in grants]
        # The caller's directory and a workspace are shown, too, without being such grants.
        if inside(home.path, [*grants, *self._view().shown]):
            raise StateError(
                f"sandboxes are kept in '{os.path.dirname(home.path)}', which is granted",
                hint="set XDG_STATE_HOME to a directory of yours, or grant less",
            )
        return home.path

    def _furnish(self, path: str) -> None:
        """tmp, home and what belongs there, before anything of the guest's is in it."""
        view = self._view()
        parts = [os.path.join(path, "tmp"), os.path.join(path, "home")]
        if self._own_workdir:
            parts.append(os.path.join(path, "home", "work"))
        python = self._missing_python(view)
        if python:
            parts += [os.path.join(path, "home", ".local"), os.path.join(path, "home/.local/bin")]
        for directory in parts:
            os.mkdir(directory, 0o700)
            if os.geteuid() == 0:
                os.chown(directory, view.host_uid, view.host_gid)
        if python:
            os.symlink(python, os.path.join(path, "home/.local/bin/python"))

    @staticmethod
    def _missing_python(view: View) -> Optional[str]:
        """Where python3 is, if there is no program called python inside."""
        if shutil.which("python", path=view.path):
            return None
        return shutil.which("python3", path=view.path)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the sandbox is closed")
        if self._pid != os.getpid():
            self._after_fork()

    def _after_fork(self) -> None:
        """In a forked child: runs are the parent's, the private directory is shared with it."""
        self._pid = os.getpid()
        self._new_lock()
        self._live, self._kept, self._publisher = weakref.WeakSet(), [], None
        self._spawned, self._beginner = weakref.WeakSet(), None

    # --- the view --------------------------------------------------------------------------------

    def _plan(self, policy: _cordon.Policy, argv: Sequence[str]) -> Dict[str, Any]:
        try:
            text = launcher().plan(policy, list(argv), **self._where())
        except _cordon.Error as error:
            raise_native(error)
        got = json.loads(text)
        assert isinstance(got, dict)
        return got

    def _view(self) -> View:
        """What every run of this sandbox has in common."""
        view = self._view_made
        if view is None:
            self._make_workdir()
            # The disk of a sandbox at level landlock is its private directory, which this plan lacks.
            unneeded = ("commands", "limits.disk") if self._persist else ("commands",)
            doc = {k: v for k, v in self._policy.effective().items() if k not in unneeded}
            native = Policy._from_doc(doc).native(self._base_dir)
            view = self._view_made = View.from_plan(self._plan(native, ["/bin/sh"]))
        return view

    def _make_workdir(self) -> None:
        path = self._host_workdir
        if path is None:
            return
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            why = "it is no directory" if error.errno == errno.EEXIST else error.strerror
            raise PathError(
                f"workdir '{path}' cannot be used: {why}", errno=error.errno or 0
            ) from None

    def _where(self) -> Dict[str, Any]:
        # The caller's directory is readable in every run that starts there. Who asks for a private
        # one must not have it beside: there may be keys in it.
        return {
            "env": os.environ,
            "cwd": self._host_workdir or ("/" if self._own_workdir else self._base_dir),
            "home": caller_home(),
        }

    def _path_of(self, argv0: str, policy: _cordon.Policy) -> Optional[str]:
        """PATH of a run with the place of our own `python` at its end; None = leave it alone."""
        if self._lacks_python is None:
            self._lacks_python = self._missing_python(self._view()) is not None
        if not self._lacks_python:
            return None
        if argv0 not in self._paths:
            try:
                plan = View.from_plan(self._plan(policy, [argv0]))
                self._paths[argv0] = f"{plan.path}:{self._inside_home()}/.local/bin"
            except CordonError:
                return None  # starting it will say the same
        return self._paths[argv0]

    def _inside_home(self) -> str:
        view = self._view()
        if view.level == "landlock" and self._home is not None:
            return os.path.join(self._home.path, "home")
        return view.home

    def _inside_tmp(self, home: store.Home) -> str:
        return os.path.join(home.path, "tmp") if self._view().level == "landlock" else "/tmp"
