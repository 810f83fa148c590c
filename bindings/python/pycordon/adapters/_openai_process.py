# SPDX-License-Identifier: Apache-2.0
"""A command of a shared session as the OpenAI Agents SDK sees processes
(part of `pycordon.adapters.openai_agents`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import List, Mapping, Optional

from pycordon import Result, StateError

from .. import _arguments
from .._session_core import SessionCommand
from ._shared import Live


class SharedProcess:
    """A command of the session in the place of asyncio's Process: what the SDK's entries use."""

    pid = None  # none of the host: kill() is the way to end it

    def __init__(self, live: Live, command: SessionCommand) -> None:
        self._live = live
        self._command: Optional[SessionCommand] = command
        self._transports: List[asyncio.BaseTransport] = []
        self.streams: List[asyncio.StreamReader] = []
        self.result: Optional[Result] = None

    @classmethod
    async def start(
        cls, live: Live, argv: List[str], cwd: str, env: Mapping[str, str]
    ) -> SharedProcess:
        """Starts a command. Its standard input is empty."""
        ours: List[int] = []
        theirs: List[int] = []
        made: Optional[SharedProcess] = None
        try:
            for _ in range(2):
                ends = os.pipe2(os.O_CLOEXEC)
                ours.append(ends[0])
                theirs.append(ends[1])
            variables = _arguments.variables("env", env)
            made = cls(
                live,
                live.core.exec(
                    argv, stdout=theirs[0], stderr=theirs[1], cwd=cwd, env=variables, keep=True
                ),
            )
            while ours:
                await made._connect(ours.pop(0))
            return made
        except BaseException:
            if made is not None:
                made.kill()
            raise
        finally:
            for fd in (*ours, *theirs):
                os.close(fd)

    async def _connect(self, fd: int) -> None:
        """Reads from a descriptor, which it takes over."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(fd, "rb", 0)
        )
        self.streams.append(stream)
        self._transports.append(transport)

    @property
    def returncode(self) -> Optional[int]:
        """Its exit code; None while it runs."""
        if self.result is not None:
            return self.result.returncode
        return None if self._command is not None else 128 + signal.SIGKILL

    async def wait(self) -> Optional[Result]:
        """Waits for its end; None if the session was closed. Then its streams are at theirs, even if
        what it left goes on."""
        assert self._command is not None
        try:
            with contextlib.suppress(StateError):
                self.result = await self._live.wait(self._command)
        finally:
            self._command = None  # it keeps descriptors open
        return self.result

    def kill(self) -> None:
        """Ends it and what it started, and its streams."""
        if self._command is not None:
            self._live.end(self._command)
        for transport in self._transports:
            transport.close()
