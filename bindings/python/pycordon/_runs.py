# SPDX-License-Identifier: Apache-2.0
"""The runs of a sandbox: starting them, settling them, ending them. Nothing here waits for a run to
finish by itself."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _cordon
from ._branch import Branch
from ._native import launcher, log
from ._errors import ClosedError, PathError, StateError, make_error, raise_native
from ._job import Endpoint, Job, free_port, missing_cwd
from ._keeper import keeper
from ._parked import Parked
from ._result import Result, Usage, from_receipt, not_started

if TYPE_CHECKING:
    from .workspaces import Workspace

_END_SECONDS = 2.0  # for runs to be over after they were ended


def end_spawned(processes: "Sequence[subprocess.Popen[Any]]") -> None:
    """Ends commands of spawn_popen(), and with them everything inside."""
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


class WorkspaceTurn:
    """Which workspace the runs use. The first run makes it, and the others have to find it, so two
    at once are refused. Callers hold the lock of the runs, except for find_name() and open()."""

    def __init__(self, name: Optional[str]) -> None:
        self._name = name
        self._maker: "Optional[weakref.ref[Job]]" = None
        self._branch: Optional[Branch] = None
        self.id: Optional[str] = None

    def take(self, branch: Branch) -> None:
        """The first run continues this one."""
        self._branch, self.id = branch, branch.id

    def has_begun(self, which: Optional[str]) -> None:
        """A run has this workspace, also if it is ended without a result."""
        self.id = which
        if self._branch is not None:
            self._branch.use()

    def close(self) -> None:
        """There will be no run."""
        if self._branch is not None:
            self._branch.close()

    def open(self) -> "Optional[Workspace]":
        """The workspace that the last run left, or None."""
        if self.id is None:
            return None
        from . import workspaces

        try:
            return workspaces.open(self.id)
        except PathError:
            return None  # committed or discarded meanwhile

    def find_name(self) -> Optional[str]:
        """The workspace that a run continues. A new one begins if the last one was discarded."""
        found = self.open()
        if found is None:
            return self._name
        found.close()
        return found.id

    def begin(self, job: Job) -> None:
        """``job`` is the one that makes the workspace."""
        if self._maker is not None and self._maker() is not None:
            raise StateError(
                "the sandbox's workspace is in use by another run",
                hint="wait for its end, or take a sandbox for each",
            )
        self._maker = weakref.ref(job)

    def end(self, job: Job) -> None:
        """``job`` has made it, or never will."""
        if self._maker is not None and self._maker() is job:
            self._maker = None

    def after_fork(self) -> None:
        """The run that makes it is the parent's."""
        self._maker = None


class KeptRuns:
    """Runs whose processes go on (orphans="keep"). They end with the sandbox's object at the latest:
    when it is closed, forgotten, or when the program ends."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._entries: List[Tuple[_cordon.Run, Job]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, run: _cordon.Run, job: Job) -> None:
        """``run`` goes on, and needs what was lent to it."""
        self._entries.append((run, job))

    def take(self, run: _cordon.Run) -> List[Job]:
        """Forgets a run. Its job, if it was one of these."""
        mine = [job for other, job in self._entries if other is run]
        self._entries = [entry for entry in self._entries if entry[0] is not run]
        return mine

    def end(self) -> List[Job]:
        """Ends them all. In a forked child they are the parent's."""
        entries, self._entries = self._entries, []
        if self._pid != os.getpid():
            return []
        for run, job in entries:
            let_go(run, job)
        return [job for _, job in entries]


def let_go(run: _cordon.Run, job: Job) -> None:
    """Ends what a run left, and tidies up after it."""
    keeper().discard(run)
    run.close()
    job.is_kept = False
    job.close()


class Runs:
    """The runs of one sandbox."""

    def __init__(self, workspace_name: Optional[str], parked: Optional[Parked] = None) -> None:
        self.workspace = WorkspaceTurn(workspace_name)
        self.parked = parked
        self.usage = Usage(0.0, 0.0, 0, 0, 0, runs=0)
        self.is_closed = False
        self.endpoints: Dict[int, Endpoint] = {}
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: all runs are the parent's."""
        self._lock = threading.RLock()
        self._quiet = threading.Condition(self._lock)  # no run goes on
        # The waiting caller holds a run. One that lost its holder, because an interrupt came at the
        # wrong moment, ends with its object.
        self.live: "weakref.WeakSet[_cordon.Run]" = weakref.WeakSet()
        self.kept = KeptRuns()
        weakref.finalize(self, self.kept.end)
        self._spawned: "weakref.WeakSet[subprocess.Popen[Any]]" = weakref.WeakSet()
        self._publisher: Optional[Job] = None
        self.workspace.after_fork()
        if self.parked is not None:
            self.parked.renew_lock()

    # --- one run ---------------------------------------------------------------------------------

    def start(self, job: Job) -> Union[_cordon.Run, Result]:
        """Starts a prepared run. A program that cannot be executed is a result, no error."""
        self._begin_workspace(job)
        self._publish(job)
        try:
            run = self._start(job)
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
            if "workspace_name" in job.options:
                self.workspace.has_begun(run.workspace())
            self.live.add(run)
            closed = self.is_closed
        if closed:
            run.cancel()
        return run

    def _start(self, job: Job) -> _cordon.Run:
        # The file server has limits of its own, for which nothing is made ahead.
        if self.parked is None or job.options.get("files"):
            return launcher().start(job.policy, job.argv, **job.options)
        return self.parked.start(job.policy, job.argv, job.options)

    def _begin_workspace(self, job: Job) -> None:
        if "workspace_name" not in job.options:
            return
        with self._lock:
            self.workspace.begin(job)
        name = job.options["workspace_name"] = self.workspace.find_name()
        if name is not None:
            with self._lock:
                self.workspace.end(job)

    def _publish(self, job: Job) -> None:
        """Exposed ports belong to one run at a time: the host's side can be bound only once."""
        with self._lock:
            if not self.endpoints or self._publisher is not None:
                return
            self._publisher = job
            for port, endpoint in self.endpoints.items():
                job.set("net.publish", f"{endpoint.port}:{port}/tcp")

    def _unpublish(self, job: Job) -> None:
        with self._lock:
            if self._publisher is job:
                self._publisher = None
            self.workspace.end(job)

    def settle(self, run: _cordon.Run, job: Job) -> Result:
        """The result of a run that is over. Processes it left go on if ``orphans="keep"``."""
        raw = run.result()
        result = from_receipt(raw, job.merge, tuple(run.notes()), job.stated)
        with self._lock:
            self._forget(run)
            self.usage = self.usage.plus(result.usage)
            closed = self.is_closed
            if job.options.get("keep_orphans") and not closed and not run.over:
                self.kept.add(run, job)
                job.is_kept = True
                keeper().add(run, job.drains, self._kept_is_over)
            if result.workspace is not None:
                kept = result.workspace.get("kept")
                self.workspace.id = result.workspace["id"] if kept else None
            self.workspace.end(job)
        if not job.is_kept:
            self._unpublish(job)
            if self.parked is None or not self.parked.ended(run):
                run.close()
        log.debug("%s: %s in %.1f ms", job.argv[0], result.kind, result.duration_ms)
        if closed and result.kind in ("cancelled", "sandbox_error"):
            raise ClosedError("the sandbox was closed while the command ran")
        if result.kind == "sandbox_error":
            self._raise_failed(raw.get("error") or {}, job)
        return result

    @staticmethod
    def _raise_failed(error: Dict[str, Any], job: Job) -> None:
        if job.cwd is not None:
            missing_cwd(job.cwd, error.get("code"), error.get("errno"), error.get("message"))
        raise make_error(
            error.get("code") or "setup",
            error.get("message") or "the sandbox failed",
            error.get("hint"),
            error.get("stage") or "outside",
            error.get("errno") or 0,
        )

    def abandon(self, run: _cordon.Run, job: Job) -> None:
        """After an exception: ends the run if it still goes on."""
        self._unpublish(job)
        try:
            run.close()
        except _cordon.Error:
            pass  # in a forked child it is the parent's
        with self._lock:
            self._forget(run)
        if self.parked is not None:
            self.parked.ended()

    def _forget(self, run: _cordon.Run) -> None:
        self.live.discard(run)
        if not self.live:
            self._quiet.notify_all()

    def check_quiet(self, besides: Optional[_cordon.Run] = None) -> None:
        """StateError if anything of this object's runs that could change files, but for one run."""
        with self._lock:
            is_busy = any(run is not besides for run in self.live) or bool(self.kept)
            is_busy = is_busy or any(process.poll() is None for process in self._spawned)
        if is_busy:
            raise StateError(
                "a run goes on in the sandbox, which may change its files", hint="wait for its end, or end it"
            )

    # --- all of them -----------------------------------------------------------------------------

    def close(self) -> bool:
        """No run can be started from now on. False: that was so before."""
        with self._lock:
            was_closed, self.is_closed = self.is_closed, True
        return not was_closed

    def add_usage(self, usage: Usage) -> None:
        """Counts what was used for the runs beside them."""
        with self._lock:
            self.usage = self.usage.plus(usage)

    def stop(self) -> None:
        """Ends everything that still runs, without waiting for that. No run can be started."""
        with self._lock:
            self.is_closed = True
            live = list(self.live)
        for run in live:
            try:
                run.cancel()
            except _cordon.Error:
                pass  # over meanwhile

    def end(self) -> None:
        """Ends everything that still runs."""
        with self._lock:
            live, spawned = list(self.live), list(self._spawned)
        for run in live:
            try:
                run.cancel()
            except _cordon.Error:
                pass  # over meanwhile
        # The waiting callers settle them. A run that is not over in time has no processes any more,
        # but output that its reader does not take.
        with self._lock:
            self._quiet.wait_for(lambda: not self.live, _END_SECONDS)
        for job in self.kept.end():
            self._unpublish(job)
        end_spawned(spawned)

    def _kept_is_over(self, run: _cordon.Run) -> None:
        """The last process that a run left has ended: its descriptors are not needed any more."""
        with self._lock:
            over = self.kept.take(run)
        for job in over:
            let_go(run, job)
            self._unpublish(job)

    # --- beside runs -----------------------------------------------------------------------------

    def add_spawned(self, process: "subprocess.Popen[Any]") -> None:
        """A command of spawn_popen(), which end() ends."""
        with self._lock:
            self._spawned.add(process)
        if self.is_closed:
            end_spawned([process])  # closed meanwhile, by another thread

    def expose(self, port: int, host_port: int) -> Endpoint:
        """Where the host finds ``port`` from the next run on; ``host_port`` 0: any."""
        with self._lock:
            if port not in self.endpoints:
                self.endpoints[port] = Endpoint("127.0.0.1", host_port or free_port())
            return self.endpoints[port]
