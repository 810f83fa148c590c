# SPDX-License-Identifier: Apache-2.0
"""A sandbox, without the waiting: Sandbox and AsyncSandbox each own an Engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arguments, _cordon, _store
from ._branch import Branch, Files, of_run, of_workspace
from ._native import command as cordon_command
from ._native import launcher
from ._builds import Builds, Need
from ._code import Code, put_code
from ._commands import SHELLS, refused
from ._errors import ClosedError, CordonError, NotExecutableError, UsageError, raise_native
from ._flags import flags_of
from ._filesteps import check_room
from ._held import HeldStock, counts_of
from ._job import Job, RunArguments, StrPath, set_in
from ._packages import Packages, install_more
from ._parked import Parked
from ._policy import Policy, from_document
from ._python import KEPT_HOME, callers_path, hidden, interpreter, program, search_path
from ._result import Result, not_started
from ._runs import Runs
from ._settings import Policies, Settings
from ._snapshot import Snapshot, Snapshots, check_persist
from ._view import PrivateDir, Viewer
from ._warm import MAIN, Warm

if TYPE_CHECKING:
    from ._ahead import Ahead
    from ._fileops import Op
    from ._filesteps import Steps

# The command line tool itself obeys these variables: they must not change for it.
USED_BY_COMMAND = ("PATH", "HOME", "XDG_STATE_HOME", "TMPDIR", "NO_COLOR", "TERM")
_ARGUMENT_MAX = 120 * 1024  # the kernel takes 128 KiB in one argument


class Started:
    """A run that goes on. Used as a context manager around the wait: whatever interrupts that ends
    the run, too."""

    def __init__(self, engine: "Engine", run: _cordon.Run, job: Job) -> None:
        self._private = engine.private  # it must not go away before the run
        self._runs = engine.runs
        self.run = run
        self.job = job

    def __enter__(self) -> _cordon.Run:
        return self.run

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if error is not None:
            self.abandon()
        if isinstance(error, _cordon.Error):
            raise_native(error)

    def settle(self) -> Result:
        """The result, once the run is over."""
        try:
            return self._runs.settle(self.run, self.job)
        except _cordon.Error as error:
            self.abandon()
            raise_native(error)

    def abandon(self) -> None:
        """Ends the run; there will be no result."""
        self._runs.abandon(self.run, self.job)


class Engine:
    """A sandbox: what it was made with, its private directory and its runs."""

    def __init__(self, settings: Settings) -> None:
        #: Interpreters that wait, of a pool that has some.
        self.ahead: "Optional[Ahead]" = None
        self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        self.settings = settings
        self.policies = Policies(settings)
        self._viewer = Viewer(settings)
        self.parked = Parked(self._make_pool) if settings.parked else None
        self.runs = Runs(settings.name, self.parked)
        self.private = PrivateDir(settings, self._viewer, self.runs)
        self.builds = Builds(settings, self.runs.add_usage)
        self._snapshots = Snapshots()
        # With fresh_aslr no two runs come from one image.
        is_shared = settings.preload is not None and not settings.fresh_aslr
        self.warm = Warm(settings, self.private.place_for_code) if is_shared else None
        self._owns_image = True
        self.held: "Optional[HeldStock]" = None
        counts = counts_of(settings)
        if counts:
            self.held = HeldStock(self, counts)
        self._pid = os.getpid()
        self._adding = threading.Lock()

    @classmethod
    def attach(cls, id: str) -> "Engine":
        """A second engine for a sandbox that exists, perhaps made by another process."""
        home = _store.attach(id)
        try:
            engine = cls(Settings.from_meta(id, home.meta()))
        except (OSError, ValueError, KeyError) as error:
            home.release()
            raise CordonError(f"cannot attach to sandbox '{id}': {error}") from None
        engine.private.take(home)
        return engine

    def copy_files(self, run: "Union[_cordon.Run, _cordon.Session, None]") -> Files:
        """A copy of the private files and a branch of the workspace, if there is one. ``run``: the one
        that has them and is at rest; nothing else uses them."""
        home = self.private.copy()
        try:
            return Files(home, self._branch_of_workspace(run))
        except BaseException:
            home.remove()
            raise

    def _branch_of_workspace(self, run: "Union[_cordon.Run, _cordon.Session, None]") -> Optional[Branch]:
        if "fs.workspace" not in self.settings.policy.effective():
            return None
        # As for the private files: limits.disk counts a file for each 4 KiB.
        limit = self._viewer.limits(self.private.open().path).disk_bytes
        if run is not None:
            return of_run(run, limit, limit // 4096)
        left = self.runs.workspace.open()
        if left is None:
            return None  # nothing was changed, or it was committed or discarded
        left.close()
        return of_workspace(left.id, limit, limit // 4096)

    def branch(self, files: Files) -> "Engine":
        """A sandbox like this one with ``files``, a copy of this one's."""
        engine = Engine(replace(self.settings, id=None, keep=False, name=None, parked=0))
        engine._viewer.take(self._viewer)
        engine.private.take(files.home)
        if files.branch is not None:
            engine.runs.workspace.take(files.branch)
        return engine

    def use_image_of(self, other: "Engine") -> None:
        """Programs start from another sandbox's image: one with the same settings, which closes it."""
        self.warm, self._owns_image = other.warm, False

    def snapshot(self, name: Optional[str], besides: Optional[_cordon.Run] = None) -> Snapshot:
        """A copy of the private files. ``besides``: a run that does not change them now."""
        self.check_open()
        check_persist(self.settings.persist)
        name = self._snapshots.new_name(name)
        self.runs.check_quiet(besides)
        return self._snapshots.add(name, self.private.copy())

    def check_restore(self, which: Union[Snapshot, str], besides: Optional[_cordon.Run] = None) -> _store.Home:
        """Whether it can be restored once a run has ended; its files."""
        self.check_open()
        home = self._snapshots.find(which)
        self.runs.check_quiet(besides)
        return home

    def find_snapshot(self, which: Union[Snapshot, str]) -> Snapshot:
        """One of this sandbox's."""
        self.check_open()
        return self._snapshots.named(which)

    def restore(self, which: Union[Snapshot, str]) -> None:
        """Puts a copy of a snapshot in the place of the private files."""
        home = self.check_restore(which)
        if self.parked is not None:
            self.parked.close()  # they have the old files in their view
            self.parked = self.runs.parked = Parked(self._make_pool)
        self.private.replace(home)

    # --- packages for an engine that exists --------------------------------------------------------

    def find_packages(
        self, packages: Tuple[object, ...], may_build: bool, line: Optional[Callable[[str], object]] = None
    ) -> Packages:
        """Finds or installs more packages; they are not seen by runs yet."""
        self.check_open()
        return install_more(packages, self.settings.policy, may_build, line, self.settings.base_dir)

    def add_packages(self, packages: Packages) -> None:
        """Later runs see them, before those that there are."""
        with self._adding:
            self.check_open()
            old = self.settings
            every = packages.over(old.packages)
            programs = tuple(dict.fromkeys((*packages.programs, *old.programs)))
            settings = replace(old, policy=packages.applied(old.policy), packages=every, programs=programs)
            viewer = Viewer(settings)
            self._record(packages)
            self.private.use(settings, viewer)
            self.settings, self.policies, self._viewer = settings, Policies(settings), viewer
            self.builds.use(settings)
            warm, parked = self.warm, self.parked
            if warm is not None:
                self.warm = Warm(settings, self.private.place_for_code)
                if self._owns_image:
                    warm.close()
                self._owns_image = True
            if parked is not None:  # they have the old view
                self.parked = self.runs.parked = Parked(self._make_pool)
                parked.close()
            for stock in (self.ahead, self.held):
                if stock is not None:
                    stock.close()
                    stock.reopen()

    def _record(self, packages: Packages) -> None:
        """For those who attach() from now on. Others may have been given other settings."""
        home = self.private.open() if self.settings.id is not None else self.private.home
        if home is None or home.pid != os.getpid():  # a forked child installs for itself
            return
        home.require()
        meta = home.meta()
        policy = packages.applied(from_document(meta["policy"], frozenset(meta["unlimited"])))
        programs = list(dict.fromkeys((*packages.programs, *meta["programs"])))
        home.record({**meta, "policy": policy.effective(), "programs": programs})

    @property
    def level(self) -> str:
        """Which layers there are."""
        return self._viewer.common().level

    def memory_bytes(self) -> int:
        """limits.memory of a run; 0: none."""
        return self._viewer.limits(self.private.open().path).memory_bytes

    def check_quiet(self, besides: Optional[_cordon.Run] = None) -> None:
        """StateError if anything runs that could change files, but for one run."""
        self.runs.check_quiet(besides)

    def room(self, layers: Sequence[str]) -> "Steps[None]":
        """Looks whether copies of package layers fit into the private home."""
        home, limit = self.private.inside_home(), self._viewer.limits(self.private.open().path).disk_bytes
        tmp = "/tmp" if self.level != "landlock" else os.path.join(os.path.dirname(home), "tmp")
        return check_room(layers, (home, tmp), limit)

    # --- its life --------------------------------------------------------------------------------

    def check_open(self) -> None:
        """ClosedError after shut()."""
        if self.runs.is_closed:
            raise ClosedError("the sandbox is closed")
        self._after_fork()

    def _after_fork(self) -> None:
        """A forked child shares the private directory with its parent, and has no runs."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._adding = threading.Lock()
            self.private.renew_lock()
            if self.warm is not None:
                self.warm.renew_lock()
            self.runs.after_fork()
            self.builds.after_fork()

    def start(self) -> Optional[_store.Home]:
        """The private directory, which is made if it is missing; None without ``persist``."""
        self.check_open()
        return self.private.open() if self.settings.persist else None

    def _make_pool(self) -> _cordon.Pool:
        """The library's pool of sandboxes for runs of this one."""
        settings, options = self.settings, self.settings.launch_options()
        doc = settings.policy.effective()
        if settings.persist:
            options["private_dir"] = self.private.path_for(self.private.open(), settings.policy)
        # Any program will do that runs may start: it is not started.
        argv0 = next(iter(doc.get("commands", ())), "/bin/sh")
        return launcher().pool(settings.parked, 0, self.policies.native(settings.policy), [argv0], **options)

    def shut(self, remove: bool) -> None:
        """Ends everything. ``remove``: even files that were to stay."""
        self._after_fork()
        if self.runs.close() or remove:
            for stock in (self.ahead, self.held):
                if stock is not None:
                    stock.close()
            self.builds.close()
            if self.parked is not None:
                self.parked.close()
            if self.warm is not None and self._owns_image:
                self.warm.close()
            self.runs.end()
            self.runs.workspace.close()
            self._snapshots.close()
            self.private.close(remove)

    def restart(self) -> None:
        """Ends everything and begins with empty private files, under a new id."""
        self.check_open()
        self.shut(remove=False)
        self._begin(replace(self.settings, id=None))
        if self.ahead is not None:
            self.ahead.reopen()

    @property
    def is_closed(self) -> bool:
        """Whether it was shut, or its private directory removed by another process."""
        home = self.private.home
        return self.runs.is_closed or (home is not None and not home.exists)

    @property
    def id(self) -> str:
        """The id of the private directory, which is made if it is missing."""
        if not self.settings.persist:
            raise UsageError("a sandbox without persist has no id")
        home = self.private.home
        if self.runs.is_closed and self.settings.keep and home is not None:
            return home.id
        self.check_open()
        return self.private.open().id

    @property
    def workdir(self) -> str:
        """The directory that commands start in, as they see it."""
        view = self._viewer.common()
        if view.level == "landlock" and self.settings.persist:
            self.start()  # nothing is mounted there, so paths are those of the host
        if self.settings.private_workdir:
            return self.private.inside_workdir()
        return self.private.inside_home() if view.cwd == view.home else view.cwd

    def writable_paths(self) -> List[str]:
        """The directories of the host that runs can change."""
        paths = list(self.settings.policy.effective().get("fs.write", ()))
        if self.private.home is not None:
            paths.append(self.private.home.path)
        return [os.path.realpath(os.path.join(self.settings.base_dir, path)) for path in paths]

    # --- runs ------------------------------------------------------------------------------------

    def begin(
        self, args: RunArguments, connect: Optional[Callable[[Job], None]] = None
    ) -> Union[Started, Result]:
        """Prepares and starts a run; the result at once if the command is refused or cannot be
        executed. ``connect`` is called before the start, to make pipes."""
        if connect is None and self.held is not None:
            self.check_open()
            held = self.held.begin(args)
            if held is not None:
                return held
        job = self.prepare(args)
        return job if isinstance(job, Result) else self._start(job, connect)

    def need(self, args: RunArguments) -> Optional[Need]:
        """What a run of code waits for: its compiler. None if it has none, or is refused."""
        if args.code is None or args.code.compiled is None:
            return None
        self.check_open()
        policy = self.policies.for_run(args)
        if args.code.compiled.is_native and "commands" in policy.effective():
            return None  # prepare() says so
        return self.builds.need(args, policy)

    def begin_files(self, op: "Op[Any]", out_fd: int, in_home: bool = False) -> Union[Started, Result]:
        """Starts a run that serves requests about files instead of executing something. ``in_home``: about
        those in the private home, so it needs no workspace, which another run may have."""
        settings, home = self.settings, self.start()
        policy = self.policies.for_files(op.grows, without_workspace=in_home)
        job = Job(policy.native(settings.base_dir), ["files"], cwd=self.workdir)
        options = job.options
        options.update(settings.launch_options())
        if home is not None:
            options["private_dir"] = self.private.path_for(home, policy)
        # The server limits itself, and its answers, which are the caller's, are not charged to it.
        options["memory_bytes"] = -1
        if "fs.workspace" in policy.effective():
            options["workspace_name"] = None  # Runs.start() fills it in
        if in_home:
            job.set("cwd", self.private.inside_home())
        elif settings.private_workdir:
            job.set("cwd", self.private.inside_workdir())
        options.update(files=True, stdin=op.request, stdout=out_fd, stderr="capture")
        return self._start(job, None)

    def _start(
        self, job: Job, connect: Optional[Callable[[Job], None]]
    ) -> Union[Started, Result]:
        try:
            if connect is not None:
                connect(job)
            run = self.runs.start(job)
        except BaseException:
            job.close()
            raise
        if isinstance(run, Result):
            job.close()
            return run
        return Started(self, run, job)

    def prepare(self, args: RunArguments) -> Union[Job, Result]:
        """Everything up to the start: a job, or the result if the command is refused."""
        home = self.start()
        self._viewer.make_workdir()
        policy = self.policies.for_run(args)
        if args.code is not None and args.code.compiled is not None:
            return _denied(f"a program in {args.code.compiled.name}", "a program", policy)
        native = self.policies.native(policy)
        argv = _argv(args, policy)
        denied = _check_commands(args, argv, policy, native)
        if denied is not None:
            return denied
        job = Job(native, argv, merge=args.merge, cwd=args.cwd, stated=policy)
        try:
            # What was made ahead has no place for a directory on disk.
            if home is None and args.code is not None and self.parked is None:
                home = job.temporary_home = self.private.temporary()
            self._fill(job, args, policy, home)
        except BaseException:
            job.close()
            raise
        return job

    def _fill(
        self, job: Job, args: RunArguments, policy: Policy, home: Optional[_store.Home]
    ) -> None:
        options = job.options
        stated = policy.effective()
        options.update(self.settings.launch_options())
        for key, option in (("limits.wall", "wall_ms"), ("limits.memory", "memory_bytes")):
            if key in policy.unlimited:
                options[option] = -1
        code_path = _code_path(args)
        if code_path is not None:
            options["search_path"] = self.settings.in_path(code_path)
        if home is not None:
            options["private_dir"] = self.private.path_for(home, policy)
            where = home.path
            self._put_files(job, args, policy, lambda: where)
        elif args.code is not None:
            self._put_files(job, args, policy, lambda: self.private.place_for_code(policy))
        elif isinstance(args.cmd, str):
            self._put_programs(job, policy)
        path = self.private.search_path(job.argv[0], job.policy, policy, options.get("code_dir"))
        if path is not None and "PATH" not in stated.get("env.set", {}):
            job.set("env.set", f"PATH={path}")
        if home is not None:
            for name, value in KEPT_HOME.items():
                if name not in stated.get("env.set", {}):
                    job.set("env.set", f"{name}={value}")
        for name, value in _arguments.variables("env", args.env).items():
            job.set("env.set", f"{name}={value}")
        self._set_cwd(job, args, policy)
        options["stdin"] = args.stdin_for_library()
        options["stderr"] = "join" if args.merge or args.tty else "capture"
        options["keep_orphans"] = args.orphans == "keep"
        if args.tty:
            options.update(terminal=True, rows=args.rows, cols=args.cols)
        if stated.get("fs.workspace") is not None:
            options["workspace_name"] = None  # Runs.start() fills it in
            options["workspace_changes"] = True

    def _put_files(
        self, job: Job, args: RunArguments, policy: Policy, beside: Callable[[], str]
    ) -> None:
        """Puts code, and commands that are too long for an argument, into files of the run's own."""
        code, private = args.code, self.private
        python = private.python_link(policy)
        if code is not None:
            job.drop = put_code(beside, python, code, private.is_memory_closed(policy))
            job.argv[code.file_index] = f"{private.inside_code(job.drop.path)}/{code.shown or code.filename}"
            if self.warm is not None and self._can_be_warm(job, code, args, policy):
                image = self.warm.image()
                if image >= 0:
                    job.fds.append(image)
                    job.options["image_fd"] = image
        elif len(job.argv) == 3 and len(job.argv[2]) > _ARGUMENT_MAX:
            if args.shell is not None or job.argv[:2] == ["/bin/sh", "-c"]:
                command = Code(job.argv, 1, "command", job.argv[2], None)
                job.drop = put_code(beside, python, command, private.is_memory_closed(policy))
                job.argv[1:] = [f"{private.inside_code(job.drop.path)}/command"]
        if job.drop is not None:
            job.options["code_dir"] = job.drop.path
        else:
            self._put_programs(job, policy)

    def _can_be_warm(self, job: Job, code: Code, args: RunArguments, policy: Policy) -> bool:
        """Whether an interpreter that was started ahead may do. It looks for itself at what else
        counts, and executes the cold one if it does not fit (_inside.py)."""
        mine, doc = self.settings.policy.effective(), policy.effective()
        names = [*doc.get("env.set", ()), *doc.get("env.pass", ()), *(args.env or ())]
        return (
            code.file_index == 1
            and job.argv[0] == interpreter()
            and code.filename == MAIN
            and self._viewer.common().level != "landlock"  # there the program's path is another
            # What the modules have read ahead, this run may read, too.
            and set(mine.get("fs.read", ())) <= set(doc.get("fs.read", ()))
            and set(doc.get("fs.deny", ())) <= set(mine.get("fs.deny", ()))
            and not any(name == "LD_PRELOAD" or name.startswith("CORDON_WARM") for name in names)
        )

    def _put_programs(self, job: Job, policy: Policy) -> None:
        drop = self.private.programs(policy)
        if drop is not None:
            job.options["code_dir"] = drop.path

    def _set_cwd(self, job: Job, args: RunArguments, policy: Policy) -> None:
        cwd = None if args.cwd is None else _arguments.path("cwd", args.cwd)
        if cwd is not None and not os.path.isabs(cwd):
            cwd = os.path.join(self.workdir, cwd)
        elif cwd is None and self.settings.private_workdir and "cwd" not in policy.effective():
            cwd = self.private.inside_workdir()
        if cwd is not None:
            job.cwd = cwd
            job.set("cwd", os.path.normpath(cwd))

    # --- beside runs -----------------------------------------------------------------------------

    def wrap(
        self, argv: Sequence[StrPath], cwd: Optional[StrPath], env: Optional[Mapping[str, str]]
    ) -> List[str]:
        """The command line that runs ``argv`` in this sandbox."""
        self.check_open()
        settings = self.settings
        policy, doc = settings.policy, settings.policy.effective()
        argv = _arguments.words("argv", argv)
        if not argv or not argv[0]:
            raise UsageError("the command is empty")
        if "commands" not in doc:
            argv[0] = program(argv[0], callers_path())
        where = _arguments.path("cwd", cwd) if cwd is not None else doc.get("cwd") or self.workdir
        doc["cwd"] = where if os.path.isabs(where) else os.path.join(self.workdir, where)
        if env:
            doc["env.set"] = {**doc.get("env.set", {}), **_arguments.variables("env", env)}
        words = [cordon_command(), "run", *flags_of(doc, settings.base_dir)]
        for key, flag, default in (
            ("limits.wall", "--timeout", "30s"),
            ("limits.memory", "--memory", "256M"),
        ):
            if key not in doc and key not in policy.unlimited:
                words += [flag, default]
        home = self.start()
        if home is not None:
            words += ["--private", self.private.path_for(home, policy)]
            for name, value in KEPT_HOME.items():
                if name not in doc.get("env.set", {}):
                    words += ["--env", f"{name}={value}"]
        for port, endpoint in self.runs.endpoints.items():
            words += ["--publish", f"{endpoint.port}:{port}/tcp"]
        return [*words, "--", *argv]

    def spawn(
        self,
        argv: Sequence[StrPath],
        cwd: Optional[StrPath],
        env: Optional[Mapping[str, str]],
        popen: Dict[str, Any],
    ) -> "subprocess.Popen[Any]":
        """Starts what wrap() gives. Values of variables go through the environment, since every
        user of the machine can see the command line."""
        given = self.settings.policy.effective().get("env.set", {})
        given = {**given, **_arguments.variables("env", env)}
        unseen = {name: text for name, text in given.items() if name not in USED_BY_COMMAND}
        words = self.wrap(argv, cwd, env)
        for name, text in unseen.items():
            words[words.index(f"{name}={text}")] = name
        # The launcher lets the command read the directory that it is started in.
        options = self.settings.launch_options()
        where, found = options["cwd"], options["search_path"]
        path = {} if found is None else {"PATH": found}
        spawned = subprocess.Popen(words, cwd=where, env={**os.environ, **path, **unseen}, **popen)
        self.runs.add_spawned(spawned)
        return spawned


def _code_path(args: RunArguments) -> Optional[str]:
    """Where code's own interpreter is found by its name in a list of commands, if PATH has another
    one before it."""
    ours = None if args.code is None else hidden(search_path())
    if ours is None or args.code is None or args.code.argv[0] != ours:
        return None
    return f"{os.path.dirname(ours)}:{search_path()}"


def _argv(args: RunArguments, policy: Policy) -> List[str]:
    cmd = args.cmd
    if isinstance(cmd, str):
        shell = "/bin/sh" if args.shell is None else _arguments.path("shell", args.shell)
        if not shell:
            raise UsageError("shell: '' is no path")
        return [shell, "-c", _arguments.text("cmd", cmd)]
    if isinstance(cmd, bytes) or not hasattr(cmd, "__iter__"):
        raise UsageError(f"cmd: a string or a list of strings is needed, not {type(cmd).__name__}")
    argv = _arguments.words("cmd", cmd)
    if not argv or not argv[0]:
        raise UsageError("the command is empty")
    if "commands" not in policy.effective():
        argv[0] = program(argv[0], search_path())
    elif argv[0] == "python" and not shutil.which("python", path=search_path()):
        argv[0] = "python3"  # the list says which
    return argv


def _check_commands(
    args: RunArguments, argv: List[str], policy: Policy, native: _cordon.Policy
) -> Optional[Result]:
    """A refusal by the list of allowed commands, before anything starts."""
    allowed = policy.effective().get("commands")
    if allowed is None:
        return None
    path = _code_path(args) or search_path()
    if isinstance(args.cmd, str) and argv[0] in SHELLS:
        bad = refused(args.cmd, [*allowed, argv[0]], path)
        if bad is None and argv[0] not in allowed:
            set_in(native, "commands", argv[0])
    else:
        # Another name of an allowed program needs no word in the policy: the library checks the
        # file, and the one that it starts.
        bad = refused(argv[:1], allowed, path)
    return None if bad is None else _denied(f"'{bad}'", bad, policy)


def _denied(what: str, target: str, policy: Policy) -> Result:
    allowed = policy.effective().get("commands", ())
    error = NotExecutableError(
        f"{what} is not one of the allowed commands", hint="allowed: " + (", ".join(allowed) or "none")
    )
    setattr(error, "target", target)
    return not_started(error, kind="denied", status=126)
