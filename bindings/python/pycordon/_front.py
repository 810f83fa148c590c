# SPDX-License-Identifier: Apache-2.0
"""What Sandbox and AsyncSandbox have in common: everything that does not wait."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union, cast

from . import _arguments, _keys, _store
from ._native import current_directory
from ._engine import Engine
from ._held import Wanted, wanted
from ._errors import UsageError
from ._job import Endpoint, StrPath
from ._packages import Packages, install
from ._parked import MOST
from ._warm import module_names
from ._policy import Config, Policy, make_policy, working_in
from ._python import interpreter
from ._result import Usage
from ._settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import SandboxSettings
    from .workspaces import Workspace

Self = TypeVar("Self", bound="Front")


def _is_relative(workdir: str, policy: Policy) -> bool:
    """Whether a path is given that begins in the current directory."""
    doc = policy.effective()
    given = [workdir, doc.get("fs.workspace"), doc.get("cwd")]
    given += [path for key in ("fs.read", "fs.write", "fs.deny") for path in doc.get(key, ())]
    return any(path and not path.startswith(("/", "~")) for path in given)


def _with_cwd(policy: Policy, base_dir: str, host_workdir: Optional[str]) -> Policy:
    """Where runs start that have no private directory for it: as stated, or in the workspace."""
    doc = policy.effective()
    where = doc.get("cwd") or (doc.get("fs.workspace") if host_workdir is None else None)
    if where is None or where.startswith(("/", "~")) and "cwd" in doc:
        return policy
    return policy.replaced(cwd=os.path.normpath(os.path.join(base_dir, os.path.expanduser(where))))


class Front:
    """A sandbox as programs use it; see Sandbox and AsyncSandbox."""

    #: Whether an interpreter in it is not this program's alone.
    _is_shared = False

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
        parked: int = 0,
        preload: Union[str, Sequence[str], None] = None,
        warm: Wanted = None,
        fresh_aslr: bool = False,
        packages: Union[Sequence[str], Packages] = (),
        build_packages: bool = False,
        compile_timeout: Union[float, str] = "60s",
        compile_memory: Union[int, str] = "1G",
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        _arguments.flag("persist", persist)
        _arguments.flag("keep", keep)
        _arguments.flag("allow_overrides", allow_overrides)
        _arguments.flag("build_packages", build_packages)
        if fresh_aslr and preload is None:
            raise UsageError("fresh_aslr needs preload=: without it each program has an interpreter of its own")
        if keep and not persist:
            raise UsageError("keep=True needs persist=True")
        policy, host_workdir = make_policy(config, cast(Dict[str, Any], settings)), None
        is_private = workdir is None or workdir is True
        given = "" if is_private else _arguments.path("workdir", workdir)
        if not given and not is_private:
            raise UsageError(f"workdir: {workdir!r} is no path", hint="'.' is the current directory")
        # Most sandboxes work without a current directory.
        base_dir = current_directory(None if _is_relative(given, policy) else "/")
        if given:
            host_workdir = os.path.realpath(os.path.join(base_dir, given))
            policy = policy.merged(fs_write=[host_workdir])
        if env:
            policy = policy.merged(env_set=_arguments.variables("env", env))
        layers = packages if isinstance(packages, Packages) else None
        if layers is None and packages:
            layers = install(cast(Sequence[str], packages), policy, build_packages)
        policy = policy if layers is None else layers.applied(policy)
        policy = _with_cwd(working_in(policy, host_workdir), base_dir, host_workdir)
        made = Settings(
            policy,
            base_dir,
            host_workdir=host_workdir,
            private_workdir=persist and host_workdir is None and "cwd" not in policy.effective(),
            persist=persist,
            keep=keep,
            name=None if name is None else _arguments.text("name", name),
            id=None if id is None else _store.check_id(id),
            allow_overrides=allow_overrides,
            parked=_arguments.whole("parked", parked, 0, MOST),
            preload=module_names(preload),
            warm=wanted(warm),
            fresh_aslr=_arguments.flag("fresh_aslr", fresh_aslr),
            packages=layers,
            programs=() if layers is None else layers.programs,
            compile_timeout=_keys.limit("limits.wall", "compile_timeout", compile_timeout),
            compile_memory=_keys.limit("limits.memory", "compile_memory", compile_memory),
        )
        self._engine = Engine(made)

    @classmethod
    def attach(cls: Type[Self], id: str) -> Self:
        """A second object for a sandbox that exists, perhaps made by another process. It has the
        same settings and the same files. Closing it leaves the sandbox as it is."""
        self = cls.__new__(cls)
        self._engine = Engine.attach(id)
        return self

    def __repr__(self) -> str:
        engine = self._engine
        home = engine.private.home
        where = "not started" if home is None else home.id
        return f"<{type(self).__name__} {'closed' if engine.runs.is_closed else where}>"

    @property
    def id(self) -> str:
        """The id by which others can attach, with ``keep`` also after close(). Makes the private
        directory if there is none yet."""
        return self._engine.id

    @property
    def policy(self) -> Policy:
        """What runs may do, the working directory and variables included."""
        return self._engine.settings.policy

    @property
    def closed(self) -> bool:
        """Whether it was closed, or removed by another process."""
        return self._engine.is_closed

    @property
    def host_workdir(self) -> Optional[Path]:
        """The working directory on the host; None if it is private."""
        path = self._engine.settings.host_workdir
        return None if path is None else Path(path)

    @property
    def workdir(self) -> str:
        """The directory that commands start in, as they see it."""
        return self._engine.workdir

    @property
    def workspace(self) -> "Optional[Workspace]":
        """The workspace that the last run with ``fs_workspace=`` has or left, or None."""
        return self._engine.runs.workspace.open()

    def parked(self) -> Dict[str, int]:
        """What became of the sandboxes that were made ahead (``parked=``): how many wait now
        (``parked``); runs that had one (``warm``) or not (``cold``), because they asked for something
        else (``misfits``) or because the host had changed (``stale``); how many were ``made`` and
        ``dropped`` unused."""
        parked = self._engine.parked
        return {} if parked is None else parked.stats()

    def compiled(self) -> Dict[str, int]:
        """What became of programs that have to be compiled: how often a compiler was started
        (``compiled``), how often what it makes or said was there already (``reused``); how many are
        ``kept``, and their ``bytes``."""
        return self._engine.builds.stats()

    def _modules(self) -> List[str]:
        """Directories with modules of packages."""
        layers = self._packages()
        return [] if layers is None else layers.modules

    def _packages(self) -> Optional[Packages]:
        """What it was given, or has installed."""
        return self._engine.settings.packages

    # How an interpreter asks what differs in a session; see InSession.

    def _python(self) -> str:
        """The Python of interpreters."""
        return interpreter() or "python3"

    def _updates(self) -> Sequence[Tuple[Mapping[str, str], List[str]]]:
        """Packages that interpreters which run are told of: variables, and the directories of modules that
        there were before."""
        return ()

    def _check_there(self) -> None:
        """Raises if it is gone, and an interpreter's account of its end is not wanted."""

    def _check_own(self, what: str, instead: str) -> None:
        """UnsupportedError unless an interpreter has it for itself."""

    @property
    def warm_reason(self) -> Optional[str]:
        """Why programs start cold although ``preload=``, ``warm=`` or ``fresh_aslr=`` was given; None if they do
        not. Known from the first program on."""
        made = (self._engine.warm, self._engine.held)
        return next((one.reason for one in made if one is not None and one.reason is not None), None)

    def usage(self) -> Usage:
        """What all runs so far used: times and traffic added up, of the rest the highest."""
        return self._engine.runs.usage

    def wrap(
        self,
        argv: Sequence[StrPath],
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> List[str]:
        """The command line that runs ``argv`` in this sandbox: ``[cordon, "run", …, "--", …]``.
        For frameworks that start processes themselves. Start it in the working directory or in
        /: the command may read the directory that it is started in. Values in ``env`` stand in the
        command line, which every user of the machine can see; spawn_popen() hands them over
        unseen."""
        return self._engine.wrap(argv, cwd, env)

    def spawn_popen(
        self,
        argv: Sequence[StrPath],
        *,
        cwd: Optional[StrPath] = None,
        env: Optional[Mapping[str, str]] = None,
        **popen: Any,
    ) -> "subprocess.Popen[Any]":
        """A plain subprocess.Popen that runs ``argv`` in this sandbox (see wrap()). ``popen`` are
        its arguments, such as ``stdin=subprocess.PIPE``. What runs inside ends with that process,
        and that process with close()."""
        return self._engine.spawn(argv, cwd, env, popen)

    def expose(self, port: int, host_port: int = 0) -> Endpoint:
        """Lets the host connect to a port inside, from the next run on. While several runs go on at
        once, the first of them has it."""
        self._engine.check_open()
        port = _arguments.whole("port", port, 1, 65535)
        return self._engine.runs.expose(port, _arguments.whole("host_port", host_port, 0, 65535))


def close_now(sandbox: Front) -> None:
    """Closes a sandbox of either kind in the caller's thread."""
    sandbox._engine.shut(remove=False)
