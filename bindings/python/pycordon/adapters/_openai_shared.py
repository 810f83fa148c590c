# SPDX-License-Identifier: Apache-2.0
"""Sessions of the OpenAI Agents SDK whose commands share processes and the network inside
(`CordonSandboxClient(shared=True)`; part of `pycordon.adapters.openai_agents`).

Archives and terminals have a sandbox of their own, as in sessions that share files alone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple, Union

from agents.sandbox.errors import ExecTransportError
from agents.sandbox.sandboxes import unix_local as base
from agents.sandbox.session.pty_types import allocate_pty_process_id, clamp_pty_yield_time_ms

from pycordon import CordonError, Result, Sandbox

from ._openai_process import SharedProcess
from ._openai_session import OUTPUT_MAX, CordonSandboxSession
from ._shared import Shared, ended_note

_CUT = b"\n[output was cut]\n"
_CHUNK = 1 << 16


class SharedSandboxSession(CordonSandboxSession):
    """A session whose commands are in one sandbox until it is shut down."""

    _shared: Optional[Shared] = None
    _shared_key: object = None

    def shared(self) -> Shared:
        """The session of all commands, for the manifest as it is now."""
        with self._box_lock:
            key = self._granted()
            if self._shared is None or self._shared_key != key:
                self._discard_shared()
                settings = self._box_settings()
                ports = [f"{port}:{port}" for port in self.state.exposed_ports]
                if ports:
                    settings["net_publish"] = [*settings.get("net_publish", ()), *ports]
                self._shared = Shared(self._config, **settings)
                self._shared_key = key
            return self._shared

    def _discard_shared(self) -> None:
        had, self._shared = self._shared, None
        if had is not None:
            had.close_now()

    def discard(self, workspace: bool = False) -> None:
        """Ends everything that runs, too."""
        with self._box_lock:
            self._discard_shared()
        super().discard(workspace)

    def _runner(self) -> Tuple[Union[Sandbox, Shared], Callable[..., Awaitable[Result]]]:
        shared = self.shared()
        return shared, shared.run

    def _notes(self, result: Result) -> Tuple[str, ...]:
        return (*super()._notes(result), ended_note(result))

    def _ports(self) -> Tuple[int, ...]:
        return ()  # of terminals: they are the session's

    async def pty_exec_start(
        self, *command: Union[str, Path], tty: bool = False, **options: Any
    ) -> Any:
        """A command that need not end. With `tty` it has a sandbox of its own."""
        if tty:
            return await super().pty_exec_start(*command, tty=True, **options)
        return await self._start_shared(*command, **options)

    async def _start_shared(
        self,
        *command: Union[str, Path],
        timeout: Optional[float] = None,
        shell: Union[bool, List[str]] = True,
        user: Any = None,
        yield_time_s: Optional[float] = None,
        max_output_tokens: Optional[int] = None,
    ) -> Any:
        """As the SDK's, in whose place this is, with a process of the session."""
        env, _ = await self._resolved_exec_context()
        argv = [str(word) for word in self._prepare_exec_command(*command, shell=shell, user=user)]
        try:
            shared = self.shared()
            process: Any = await SharedProcess.start(
                shared.begin(), argv, str(shared.host_workdir), env
            )
        except (CordonError, OSError) as error:
            raise ExecTransportError(command=command, cause=error) from error
        entry = base._UnixPtyProcessEntry(process=process, tty=False)
        entry.pump_tasks = [
            asyncio.create_task(self._pump_process_stream(entry, stream))
            for stream in process.streams
        ]
        entry.wait_task = asyncio.create_task(self._watch_process_exit(entry))
        async with self._pty_lock:
            number = allocate_pty_process_id(self._reserved_pty_process_ids)
            self._reserved_pty_process_ids.add(number)
            pruned = self._prune_pty_processes_if_needed()
            self._pty_processes[number] = entry
        if pruned is not None:
            await self._terminate_pty_entry(pruned)
        milliseconds = 10_000 if yield_time_s is None else int(yield_time_s * 1000)
        output, count, is_closed = await self._collect_pty_output(
            entry=entry,
            yield_time_ms=clamp_pty_yield_time_ms(milliseconds),
            max_output_tokens=max_output_tokens,
        )
        return await self._finalize_pty_update(
            process_id=number, entry=entry, output=output, original_token_count=count,
            output_closed=is_closed,
        )  # fmt: skip

    async def _pump_process_stream(
        self, entry: base._UnixPtyProcessEntry, stream: Optional[asyncio.StreamReader]
    ) -> None:
        """As the SDK's, but what nobody has taken yet is bounded."""
        while stream is not None:
            chunk = await stream.read(_CHUNK)
            if not chunk:
                return
            async with entry.output_lock:
                kept = entry.output_chunks
                if sum(map(len, kept)) >= OUTPUT_MAX:
                    if kept[-1] != _CUT:
                        kept.append(_CUT)
                elif kept and len(kept[-1]) + len(chunk) <= _CHUNK:
                    kept[-1] += chunk  # many small ones would take more room than their bytes
                else:
                    kept.append(chunk)
            entry.output_notify.set()

    async def _watch_process_exit(self, entry: base._UnixPtyProcessEntry) -> None:
        process: Any = entry.process
        if not isinstance(process, SharedProcess):
            await super()._watch_process_exit(entry)
            return
        result = await process.wait()
        await asyncio.gather(*entry.pump_tasks, return_exceptions=True)
        for note in () if result is None else filter(None, self._notes(result)):
            entry.output_chunks.append(f"{note}\n".encode())
        entry.output_closed.set()
        entry.output_notify.set()

    async def _terminate_pty_entry(self, entry: base._UnixPtyProcessEntry) -> None:
        process: Any = entry.process
        if isinstance(process, SharedProcess):
            process.kill()
        await super()._terminate_pty_entry(entry)
