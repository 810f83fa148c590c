# SPDX-License-Identifier: Apache-2.0
"""The sandbox client of the OpenAI Agents SDK (part of `pycordon.adapters.openai_agents`).

The SDK's local session keeps the workspace in a directory of the host, and its file operations
walk there by descriptor and never through a link. On Linux it does not confine commands: this
session runs them in a sandbox in which that directory, at its own path, is all they can write.
"""

from __future__ import annotations

import contextvars
import fcntl
import socket
import struct
import termios
import threading
from pathlib import Path
from typing import (
    Any, Awaitable, Callable, Dict, FrozenSet, List, Literal, Mapping, Optional, Tuple, Union,
)  # fmt: skip

from agents.sandbox.errors import ExecTimeoutError, ExecTransportError
from agents.sandbox.sandboxes import unix_local as base
from agents.sandbox.types import ExecResult
from agents.sandbox.util.blocking_io import run_blocking_workspace_io

from pycordon import CordonError, Result, Sandbox

from ._common import remark
from ._openai_tar import ArchivingSession
from ._shared import Shared
from ._tools import Async, cut_note, limit_for, open_endless, passed

# The SDK's own list of harmless variables, without those that name directories of the host.
ENVIRONMENT = frozenset(base._HOST_ENVIRONMENT_ALLOWLIST - {"PATH", "TMPDIR"})
OUTPUT_MAX = 16 * 1024 * 1024
# The launcher ends terminal output with this, to tidy the screen. Models do not need it.
_TIDY = (b"\x18\x1b7\x1b[?1049l", b"\x1b[?1015l")
_terminal: contextvars.ContextVar[bool] = contextvars.ContextVar("terminal", default=False)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class CordonSandboxSessionState(base.UnixLocalSandboxSessionState):
    """What a session is continued from. What it may do is not in it: that is the client's."""

    type: Literal["cordon"] = "cordon"  # type: ignore[assignment]


class CordonSandboxClientOptions(base.UnixLocalSandboxClientOptions):
    """`exposed_ports`: ports of a process started as a PTY session that answer at 127.0.0.1; of any
    process with `shared=True`."""

    type: Literal["cordon"] = "cordon"  # type: ignore[assignment]

    def __init__(
        self, exposed_ports: Tuple[int, ...] = (), *, type: Literal["cordon"] = "cordon"
    ) -> None:
        super().__init__(exposed_ports, type=type)  # type: ignore[arg-type]


class CordonSandboxSession(ArchivingSession):
    """A session whose commands are confined; /tmp is its own and lives as long as it does."""

    def __init__(
        self,
        *,
        state: base.UnixLocalSandboxSessionState,
        config: Any = None,
        settings: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self._allowed: FrozenSet[str] = ENVIRONMENT
        super().__init__(state=state)
        self._config = config
        self._settings = dict(settings or {})
        self._box: Optional[Sandbox] = None
        self._box_key: object = None
        self._box_lock = threading.RLock()  # archives are made in other threads

    @property
    def _host_environment_allowlist(self) -> FrozenSet[str]:
        return self._allowed

    @_host_environment_allowlist.setter
    def _host_environment_allowlist(self, names: Optional[FrozenSet[str]]) -> None:
        # None means "all of them" to the SDK: too much for untrusted commands.
        self._allowed = ENVIRONMENT if names is None else names

    def sandbox(self) -> Sandbox:
        """The sandbox for the manifest as it is now."""
        with self._box_lock:
            key = self._granted()
            if self._box is None or self._box_key != key:
                self._discard_box()
                self._box = open_endless(self._config, **self._box_settings())
                self._async = Async(self._box)
                self._box_key = key
            return self._box

    def _granted(self) -> Tuple[object, ...]:
        """What the manifest says about a sandbox."""
        manifest = self.state.manifest
        return (manifest.root, *((g.path, g.read_only) for g in manifest.extra_path_grants))

    def _box_settings(self) -> Dict[str, Any]:
        manifest = self.state.manifest
        settings: Dict[str, Any] = {"workdir": Path(manifest.root).resolve(), **self._settings}
        if self.state.workspace_root_owned:
            # A temporary directory is not shared: `git init` and the like are fine.
            settings.setdefault("fs_protect", False)
        for grant in manifest.extra_path_grants:
            key = "fs_read" if grant.read_only else "fs_write"
            settings[key] = [*settings.get(key, ()), str(Path(grant.path).resolve())]
        return settings

    def discard(self, workspace: bool = False) -> None:
        """Removes the session's /tmp and, if told so, what is in the workspace.

        The sandbox does that too: it copes with trees as deep and directories as closed as commands
        can make them, which the SDK's removal on the host does not.
        """
        if workspace and Path(self.state.manifest.root).is_dir():
            box = self.sandbox()
            self._async.close()  # so that no process can put anything there again
            box.run("chmod -R u+rwx . ; find . -mindepth 1 -delete", merge=True)
        self._discard_box()

    def _discard_box(self) -> None:
        with self._box_lock:
            had, self._box = self._box, None
            if had is not None:
                self._async.close()
                had.close()

    async def _after_shutdown(self) -> None:
        await super()._after_shutdown()
        await run_blocking_workspace_io(self.discard)

    def _prepare_exec_command(
        self, *command: Union[str, Path], shell: Union[bool, List[str]], user: Any
    ) -> List[str]:
        if user is not None:  # the SDK would run sudo on the host, also for file operations
            raise ValueError("a Cordon session has one user: `user` is not supported")
        return super()._prepare_exec_command(*command, shell=shell, user=None)

    async def _exec_internal(
        self, *command: Union[str, Path], timeout: Optional[float] = None
    ) -> ExecResult:
        env, _ = await self._resolved_exec_context()
        argv = [str(part) for part in command]
        try:
            box, run = self._runner()
            result = await run(
                argv,
                cwd=str(box.host_workdir),
                env=env,
                timeout=None if timeout is None else limit_for(box, "limits.wall", timeout),
                max_output=limit_for(box, "limits.output", OUTPUT_MAX),
            )
        except (CordonError, OSError) as error:
            raise ExecTransportError(command=command, cause=error) from error
        if result.kind == "timeout":
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        stderr = result.stderr_bytes
        for note in self._notes(result):
            if note:
                stderr = stderr.rstrip(b"\n") + f"\n{note}\n".encode()
        return ExecResult(stdout=result.stdout_bytes, stderr=stderr, exit_code=result.returncode)

    def _runner(self) -> Tuple[Union[Sandbox, Shared], Callable[..., Awaitable[Result]]]:
        """Where commands run, and what runs them."""
        return self.sandbox(), self._async().run

    def _ports(self) -> Tuple[int, ...]:
        """Ports that each PTY session publishes if they are free."""
        return self.state.exposed_ports

    def _notes(self, result: Result) -> Tuple[str, ...]:
        """What is said about a command besides its output."""
        return (cut_note(result), remark(result))

    async def pty_exec_start(
        self, *command: Union[str, Path], tty: bool = False, **options: Any
    ) -> Any:
        """As the SDK's, but without `tty` standard input is empty, not the application's."""
        token = _terminal.set(tty)
        try:
            return await super().pty_exec_start(*command, tty=tty, **options)
        finally:
            _terminal.reset(token)

    def _confined_exec_command(
        self, *, command_parts: List[str], workspace_root: Path, env: Mapping[str, str]
    ) -> List[str]:
        if not _terminal.get():
            # The SDK lets the launcher inherit the application's standard input.
            command_parts = ["/bin/sh", "-c", 'exec "$@" </dev/null', "sh", *command_parts]
        argv = self.sandbox().wrap(command_parts, cwd=str(workspace_root))
        launcher, flags = passed(env)
        if isinstance(env, dict):  # it is the one that the launcher is started with
            env.clear()
            env.update(launcher)
        for port in self._ports():
            if _is_free(port):  # a running command of this session may have it
                flags += ["--publish", f"{port}:{port}"]
        if _terminal.get():
            flags.append("--interactive")
        argv[2:2] = flags
        return argv

    async def _finalize_pty_update(self, *, output: bytes, **rest: Any) -> Any:
        begun, found, end = output.rpartition(_TIDY[0])
        if found and end.endswith(_TIDY[1]):
            output = begun
        return await super()._finalize_pty_update(output=output, **rest)

    async def pty_resize(self, *, session_id: int, rows: int, cols: int) -> None:
        """Give the terminal of a PTY session another size."""
        async with self._pty_lock:
            entry = self._resolve_pty_session_entry(
                pty_processes=self._pty_processes, session_id=session_id
            )
            if entry.primary_fd is None:
                raise RuntimeError("this process has no terminal")
            fcntl.ioctl(entry.primary_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
