# SPDX-License-Identifier: Apache-2.0
"""The sandbox client of the OpenAI Agents SDK (part of `pycordon.adapters.openai_agents`)."""

from __future__ import annotations

from typing import Any, Collection, Dict, Optional

from agents.sandbox.manifest import Manifest
from agents.sandbox.sandboxes import unix_local as base
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec
from agents.sandbox.util.blocking_io import run_blocking_workspace_io

from ._openai_session import (
    ENVIRONMENT,
    CordonSandboxClientOptions,
    CordonSandboxSession,
    CordonSandboxSessionState,
)
from ._openai_shared import SharedSandboxSession
from ._shared import Shared


class CordonSandboxClient(base.UnixLocalSandboxClient):
    """Sessions for `SandboxRunConfig(client=CordonSandboxClient())` that are confined on Linux.

    A command can change the session's workspace (a directory of the host, at its own path) and the
    session's /tmp, and reads what the policy lets it: no network, no other files, none of the
    application's environment but `env_pass` and a few harmless names. `config` and all further
    settings are those of `pycordon.Sandbox`: `CordonSandboxClient("python", max_memory_mb=1024)`.

    `shared=True`: all commands of a session are in one sandbox until it is shut down. They share
    processes and the network inside: one starts a server, the next connects to it, and exposed ports
    answer. Limits hold for all of them together, `max_execution_seconds` is how long it may live,
    /tmp is in its memory. Commands with a terminal (`tty`) still have a sandbox of their own.
    """

    backend_id = "cordon"

    def __init__(
        self,
        config: Any = None,
        *,
        env_pass: Collection[str] = (),
        instrumentation: Optional[Instrumentation] = None,
        dependencies: Optional[Dependencies] = None,
        shared: bool = False,
        **settings: Any,
    ) -> None:
        if isinstance(env_pass, str):
            raise TypeError("env_pass must be a collection of variable names")
        super().__init__(
            instrumentation=instrumentation,
            dependencies=dependencies,
            inherit_host_environment=False,
            host_environment_allowlist=ENVIRONMENT | frozenset(env_pass),
        )
        self._config = config
        self._settings: Dict[str, Any] = settings
        self._session_class = SharedSandboxSession if shared else CordonSandboxSession
        if shared:
            Shared(config, **settings)  # what cannot be combined is said now

    async def create(
        self,
        *,
        snapshot: "SnapshotSpec | SnapshotBase | None" = None,
        manifest: Optional[Manifest] = None,
        options: Optional[base.UnixLocalSandboxClientOptions] = None,
    ) -> SandboxSession:
        """A new session, in `manifest.root` or a temporary directory that `delete` removes."""
        options = options if options is not None else CordonSandboxClientOptions()
        plain = await super().create(snapshot=snapshot, manifest=manifest, options=options)
        names = base.UnixLocalSandboxSessionState.model_fields.keys() - {"type"}
        return self._open(
            CordonSandboxSessionState(**{name: getattr(plain.state, name) for name in names})
        )

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """A session that continues from a state of this client's."""
        if not isinstance(state, CordonSandboxSessionState):
            raise TypeError("CordonSandboxClient.resume expects a CordonSandboxSessionState")
        await super().resume(state)  # checks the state
        return self._open(state)

    def deserialize_session_state(self, payload: "dict[str, object]") -> SandboxSessionState:
        """The state from what `serialize_session_state` gave."""
        return self._deserialize_session_state_payload(payload, CordonSandboxSessionState)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Ends the session's processes and removes its /tmp, and its workspace if temporary."""
        inner = session._inner
        if not isinstance(inner, CordonSandboxSession):
            raise TypeError("CordonSandboxClient.delete expects a CordonSandboxSession")
        await inner.pty_terminate_all()
        await run_blocking_workspace_io(inner.discard, inner.state.workspace_root_owned)
        return await super().delete(session)

    def _open(self, state: CordonSandboxSessionState) -> SandboxSession:
        inner = self._session_class(state=state, config=self._config, settings=self._settings)
        inner._host_environment_allowlist = self._host_environment_allowlist
        return self._wrap_session(inner, instrumentation=self._instrumentation)
