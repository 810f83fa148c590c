# SPDX-License-Identifier: Apache-2.0
"""What Sandbox and AsyncSandbox share: preparing, starting and settling runs. Nothing here waits for
a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _cordon, arguments, store
from ._native import command as cordon_command
from ._native import launcher, log
from .code import Content, find_language, interpreter, put_code
from .commands import SHELLS, refused
from .errors import (
    ClosedError,
    NotExecutableError,
    PolicyError,
    StateError,
    UsageError,
    make_error,
    raise_native,
)
from .job import Endpoint, Job, RunArguments, free_port, missing_cwd, set_in, stdin_of, typed
from .keeper import keeper
from .policy import Policy, make_policy
from .result import Result, Truncated, from_receipt, not_started
from .state import SandboxState
from .tighten import REPLACING, loosened

Command = Union[str, Sequence[Union[str, bytes, "os.PathLike[str]"]]]
_END_SECONDS = 2.0  # for runs to be over after they were ended
# What the command itself goes by: these must not change for it.
_COMMANDS_OWN = ("PATH", "HOME", "XDG_STATE_HOME", "TMPDIR", "NO_COLOR", "TERM")
ARGUMENT_MAX = 120 * 1024  # the kernel takes 128 KiB in one argument


def end_spawned(processes: "Sequence[subprocess.Popen[Any]]") -> None:
    """Ends commands of spawn_popen(), which take everything inside with them."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    end = time.monotonic() + _END_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class SandboxBase(SandboxState):
    """Runs, up to their start and from their end on."""

    # --- preparing a run -------------------------------------------------------------------------

    def _run_policy(self, args: RunArguments) -> Policy:
        """The sandbox's policy with a run's own settings, which may only tighten it."""
        over = Policy(**args.overrides) if args.overrides else None
        if args.policy is not None:
            given = args.policy if isinstance(args.policy, Policy) else make_policy(args.policy, {})
            over = given if over is None else given.merged(**args.overrides)
        limits = {"timeout": args.timeout, "max_output_bytes": args.max_output}
        if any(v is not None for v in limits.values()):
            over = (over or Policy()).merged(**limits)
        if over is None:
            return self._policy
        # An empty list says "none of these"; written as JSON it would say nothing.
        stated = {**over.effective(), **{k: v for k, v in over._doc.items() if v == []}}
        if not self._allow_overrides:
            why = loosened(self._policy, stated, over.unlimited, base_dir=self._base_dir)
            if why:
                raise PolicyError(
                    f"a run cannot have more than its sandbox: {why}",
                    hint="set it on the sandbox, or make that with allow_overrides=True",
                )
        doc = self._policy.effective()
        for key in over.unlimited:
            doc.pop(key, None)
        for key, value in stated.items():
            if isinstance(value, list) and key not in REPLACING:
                value = [*doc.get(key, ()), *(v for v in value if v not in doc.get(key, ()))]
            if isinstance(value, dict):
                value = {**doc.get(key, {}), **value}
            doc[key] = value
        return Policy._from_doc(doc, self._policy.unlimited | over.unlimited)

    def _native_policy(self, policy: Policy) -> _cordon.Policy:
        """A copy that the run may add to."""
        if policy is not self._policy:
            return policy.native(self._base_dir)
        if self._native is None:
            self._native = policy.native(self._base_dir)
        return self._native.copy()

    @staticmethod
    def _search_path(args: RunArguments) -> str:
        path = os.environ.get("PATH") or os.defpath
        # An installation counts as the caller's own if its programs are in the PATH.
        return path if args.search_first is None else f"{args.search_first}:{path}"

    def _argv(self, cmd: Command, args: RunArguments) -> List[str]:
        if isinstance(cmd, str):
            shell = "/bin/sh" if args.shell is None else arguments.path("shell", args.shell)
            return [shell, "-c", arguments.text("cmd", cmd)]
        if isinstance(cmd, bytes) or not hasattr(cmd, "__iter__"):
            raise UsageError(
                f"cmd: a string or a list of strings is needed, not {type(cmd).__name__}"
            )
        argv = arguments.words("cmd", cmd)
        if not argv or not argv[0]:
            raise UsageError("the command is empty")
        if argv[0] == "python" and not shutil.which("python", path=self._search_path(args)):
            argv[0] = "python3"
        return argv

    def _check_commands(
        self, cmd: Command, argv: List[str], policy: Policy, native: _cordon.Policy, path: str
    ) -> Optional[Result]:
        """A refusal by the list of allowed commands, before anything starts."""
        allowed = policy.effective().get("commands")
        if allowed is None:
            return None
        if isinstance(cmd, str) and argv[0] in SHELLS:
            bad = refused(cmd, [*allowed, argv[0]], path)
            if bad is None and argv[0] not in allowed:
                set_in(native, "commands", argv[0])
        else:
            # Another name of an allowed program needs no word in the policy: the library looks at
            # the file, and at the one that it starts.
            bad = refused(argv[:1], allowed, path)
        if bad is None:
            return None
        error = NotExecutableError(
            f"'{bad}' is not one of the allowed commands",
            hint="allowed: " + (", ".join(allowed) or "none"),
        )
        setattr(error, "target", bad)
        return not_started(error, kind="denied", status=126)

    def _prepare(self, cmd: Command, args: RunArguments) -> Union[Job, Result]:
        """Everything up to the start: a job, or the result if the command is refused."""
        self._check_open()
        home = self._make_home() if self._persist else None
        self._make_workdir()
        policy = self._run_policy(args)
        native = self._native_policy(policy)
        argv = self._argv(cmd, args)
        denied = self._check_commands(cmd, argv, policy, native, self._search_path(args))
        if denied is not None:
            return denied
        job = Job(native, argv, merge=args.merge, cwd=args.cwd, stated=policy)
        try:
            if home is None and args.code is not None:
                home = job.own_home = store.create({}, keep=False)
                self._furnish(home.path)
            self._fill(job, args, policy, home)
        except BaseException:
            job.close()
            raise
        return job

    def _fill(
        self, job: Job, args: RunArguments, policy: Policy, home: Optional[store.Home]
    ) -> None:
        options = job.options
        options.update(self._where())
        if home is not None:
            options["private_dir"] = self._private_dir(home, policy)
        if args.search_first is not None:
            options["search_path"] = self._search_path(args)
        for key, option in (("limits.wall", "wall_ms"), ("limits.memory", "memory_bytes")):
            if key in policy.unlimited:
                options[option] = -1
        if home is not None and args.code is not None:
            self._put_code(job, args, home)
        elif home is not None and len(job.argv) == 3 and len(job.argv[2]) > ARGUMENT_MAX:
            if args.shell is not None or job.argv[:2] == ["/bin/sh", "-c"]:
                job.drop = put_code(os.path.join(home.path, "tmp"), "command", job.argv[2], None)
                job.argv[1:] = [f"{self._inside_tmp(home)}/{job.drop.name}/command"]
        path = self._path_of(job.argv[0], job.policy) if home is not None else None
        if path is not None and "PATH" not in policy.effective().get("env.set", {}):
            job.set("env.set", f"PATH={path}")
        for name, value in arguments.variables("env", args.env).items():
            job.set("env.set", f"{name}={value}")
        self._set_cwd(job, args, policy)
        options["stdin"] = stdin_of(args.stdin)
        options["stderr"] = "join" if args.merge or args.tty else "capture"
        options["keep_orphans"] = args.orphans == "keep"
        if args.tty:
            options.update(terminal=True, rows=args.rows, cols=args.cols)
            options["stdin"] = typed(options["stdin"])
        workspace = policy.effective().get("fs.workspace")
        if workspace is not None:
            options["workspace_name"] = None  # _begin_workspace() knows
            options["workspace_changes"] = True

    def _set_cwd(self, job: Job, args: RunArguments, policy: Policy) -> None:
        cwd = None if args.cwd is None else arguments.path("cwd", args.cwd)
        if cwd is not None and not os.path.isabs(cwd):
            cwd = os.path.join(self.workdir, cwd)
        elif cwd is None and self._own_workdir and "cwd" not in policy.effective():
            cwd = os.path.join(self._inside_home(), "work")
        if cwd is not None:
            job.cwd = cwd
            job.set("cwd", os.path.normpath(cwd))

    def _put_code(self, job: Job, args: RunArguments, home: store.Home) -> None:
        assert args.code is not None
        code, filename, files = args.code
        job.drop = put_code(os.path.join(home.path, "tmp"), filename, code, files)
        job.argv[args.code_index] = f"{self._inside_tmp(home)}/{job.drop.name}/{filename}"

    def _code_job(
        self,
        code: Content,
        language: str,
        filename: Optional[str],
        argv: Sequence[str],
        files: Optional[Mapping[str, Content]],
        args: RunArguments,
    ) -> List[str]:
        """argv of run_code(); the place of the file is filled in when it is there."""
        more = arguments.words("args", argv)
        found = find_language(language)
        words = interpreter(found)
        args.code = (code, filename or found.filename, files)
        args.code_index = len(words)
        if words[0].startswith("/") and not found.argv:
            args.search_first = os.path.dirname(words[0])
        return [*words, "", *more]

    # --- starting and settling -------------------------------------------------------------------

    def _start(self, job: Job) -> Union[_cordon.Run, Result]:
        """Starts a prepared run. A program that cannot be executed is a result, no error."""
        self._begin_workspace(job)
        self._publish(job)
        try:
            run = launcher().start(job.policy, job.argv, **job.options)
        except _cordon.Error as error:
            self._unpublish(job)
            if error.name in ("not_found", "not_executable"):
                return not_started(make_error(error.name, error.message, error.hint))
            if job.cwd is not None:
                missing_cwd(job.cwd, error.name, error.errno, error.message)
            raise_native(error)
        except BaseException:
            self._unpublish(job)
            raise
        with self._lock:
            self._live.add(run)
            closed = self._closed
        if closed:
            run.cancel()
        return run

    def _publish(self, job: Job) -> None:
        """Exposed ports belong to one run at a time: the host's side can be bound only once."""
        with self._lock:
            if not self._endpoints or self._publisher is not None:
                return
            self._publisher = job
            for port, endpoint in self._endpoints.items():
                job.set("net.publish", f"{endpoint.port}:{port}/tcp")

    def _unpublish(self, job: Job) -> None:
        with self._lock:
            if self._publisher is job:
                self._publisher = None
            self._workspace_begun(job)

    def _begin_workspace(self, job: Job) -> None:
        """The first run makes the workspace, and the others have to find it. Two at once are refused
        as they are later, when there is a workspace that one of them uses."""
        if "workspace_name" not in job.options:
            return
        with self._lock:
            if self._beginner is not None and self._beginner() is not None:
                raise StateError(
                    "the sandbox's workspace is in use by another run",
                    hint="wait for its end, or take a sandbox for each",
                )
            self._beginner = weakref.ref(job)
        job.options["workspace_name"] = self._workspace_name()
        if job.options["workspace_name"] is not None:
            with self._lock:
                self._workspace_begun(job)

    def _workspace_begun(self, job: Job) -> None:
        if self._beginner is not None and self._beginner() is job:
            self._beginner = None

    def _settle(
        self,
        run: _cordon.Run,
        job: Job,
        stdout: Optional[bytes] = None,
        stderr: Optional[bytes] = None,
        cut: Truncated = Truncated(),
    ) -> Result:
        """The result of a run that is over. What it left running goes on if it was asked to."""
        raw = run.result()
        result = from_receipt(raw, job.merge, tuple(run.notes()), stdout, stderr, cut, job.stated)
        with self._lock:
            self._forget(run)
            self._usage = self._usage.plus(result.usage)
            closed = self._closed
            if job.options.get("keep_orphans") and not closed and not run.over:
                self._kept.append((run, job))
                job.is_kept = True
                keeper().add(run, job.drains, self._kept_is_over)
            if result.workspace is not None:
                kept = result.workspace.get("kept")
                self._workspace_id = result.workspace["id"] if kept else None
            self._workspace_begun(job)
        if not job.is_kept:
            self._unpublish(job)
            run.close()
        log.debug("%s: %s in %.1f ms", job.argv[0], result.kind, result.duration_ms)
        self._raise_failed(raw, result, job, closed)
        return result

    def _raise_failed(self, raw: Dict[str, Any], result: Result, job: Job, closed: bool) -> None:
        if closed and result.kind in ("cancelled", "sandbox_error"):
            raise ClosedError("the sandbox was closed while the command ran")
        if result.kind == "sandbox_error":
            error = raw.get("error") or {}
            if job.cwd is not None:
                missing_cwd(job.cwd, error.get("code"), error.get("errno"), error.get("message"))
            raise make_error(
                error.get("code") or "setup",
                error.get("message") or "the sandbox failed",
                error.get("hint"),
                error.get("stage") or "outside",
                error.get("errno") or 0,
            )

    def _abandon(self, run: _cordon.Run, job: Job) -> None:
        """After an exception: the run is over or must be; nothing of it stays."""
        self._unpublish(job)
        try:
            run.close()
        except _cordon.Error:
            pass  # in a forked child it is the parent's
        with self._lock:
            self._forget(run)

    def _forget(self, run: _cordon.Run) -> None:
        self._live.discard(run)
        if not self._live:
            self._quiet.notify_all()

    # --- the end ---------------------------------------------------------------------------------

    def _end_runs(self) -> None:
        with self._lock:
            live, kept, spawned = list(self._live), self._kept, list(self._spawned)
            self._kept = []
        for run in live:
            try:
                run.cancel()
            except _cordon.Error:
                pass  # over meanwhile
        # Whoever waits for them settles them. What is not over in time has no processes any more,
        # but output that its reader does not take.
        with self._lock:
            self._quiet.wait_for(lambda: not self._live, _END_SECONDS)
        for run, job in kept:
            self._let_go(run, job)
        end_spawned(spawned)

    def _let_go(self, run: _cordon.Run, job: Job) -> None:
        keeper().discard(run)
        run.close()
        self._unpublish(job)
        job.is_kept = False
        job.close()

    def _kept_is_over(self, run: _cordon.Run) -> None:
        """The last process that a run left has ended: it needs no descriptors any more."""
        with self._lock:
            over = [entry for entry in self._kept if entry[0] is run]
            self._kept = [entry for entry in self._kept if entry[0] is not run]
        for entry in over:
            self._let_go(*entry)

    def _shut(self, remove: bool) -> None:
        """Ends everything. ``remove``: also what was meant to stay."""
        with self._lock:
            if self._closed and not remove:
                return
            self._closed = True
            home, self._home = self._home, None
            finalizer, self._finalizer = self._finalizer, None
        if self._pid != os.getpid():
            self._after_fork()
        self._end_runs()
        if finalizer is not None:
            finalizer.detach()
        if home is not None:
            if (home.owner and not self._keep) or remove:
                home.remove()
            else:
                home.release()
        self._home = home  # for `closed`, `id` and error texts only

    # --- beside runs -----------------------------------------------------------------------------

    def wrap(
        self,
        argv: Sequence[Union[str, "os.PathLike[str]"]],
        *,
        cwd: Union[str, "os.PathLike[str]", None] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> List[str]:
        """The command line that runs ``argv`` in this sandbox: ``[cordon, "run", …, "--", …]``.
        For frameworks that start processes themselves. Start it in the working directory or in
        /: the command may read the directory that it is started in. Values in ``env`` stand in the
        command line, which every user of the machine can see; spawn_popen() hands them over
        unseen."""
        from .flags import flags_of

        self._check_open()
        policy = self._policy
        doc = policy.effective()
        argv = arguments.words("argv", argv)
        if not argv or not argv[0]:
            raise UsageError("the command is empty")
        where = arguments.path("cwd", cwd) if cwd is not None else doc.get("cwd") or self.workdir
        if not os.path.isabs(where):
            where = os.path.join(self.workdir, where)
        doc["cwd"] = where
        if env:
            doc["env.set"] = {**doc.get("env.set", {}), **arguments.variables("env", env)}
        words = [cordon_command(), "run", *flags_of(doc, self._base_dir)]
        for key, flag, default in (
            ("limits.wall", "--timeout", "30s"),
            ("limits.memory", "--memory", "256M"),
        ):
            if key not in doc and key not in policy.unlimited:
                words += [flag, default]
        if self._persist:
            words += ["--private", self._private_dir(self._make_home(), policy)]
        for port, endpoint in self._endpoints.items():
            words += ["--publish", f"{endpoint.port}:{port}/tcp"]
        return [*words, "--", *argv]

    def _spawn(
        self,
        argv: Sequence[Union[str, "os.PathLike[str]"]],
        cwd: Union[str, "os.PathLike[str]", None],
        env: Optional[Mapping[str, str]],
        popen: Dict[str, Any],
    ) -> "subprocess.Popen[Any]":
        """What spawn_popen() starts. Values go through the environment of the command."""
        own = arguments.variables("env", env)
        given = {**self._policy.effective().get("env.set", {}), **own}
        unseen = {name: text for name, text in given.items() if name not in _COMMANDS_OWN}
        words = self.wrap(argv, cwd=cwd, env=env)
        for name, text in unseen.items():
            at = words.index(f"{name}={text}")
            words[at] = name
        environ = {**os.environ, **unseen}
        # The launcher lets the command read the directory that it is started in.
        spawned = subprocess.Popen(words, cwd=self._where()["cwd"], env=environ, **popen)
        with self._lock:
            self._spawned.add(spawned)
        if self._closed:
            end_spawned([spawned])  # meanwhile, by another thread
        return spawned

    def expose(self, port: int, host_port: int = 0) -> Endpoint:
        """Lets the host connect to a port inside, from the next run on. While several runs go on at
        once, the first of them has it."""
        self._check_open()
        port = arguments.whole("port", port, 1, 65535)
        host_port = arguments.whole("host_port", host_port, 0, 65535)
        with self._lock:
            if port in self._endpoints:
                return self._endpoints[port]
            number = host_port or free_port()
            made = Endpoint("127.0.0.1", number)
            self._endpoints[port] = made
            return made
