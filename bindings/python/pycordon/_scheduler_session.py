# SPDX-License-Identifier: Apache-2.0
"""A session of a Scheduler: an interpreter with state, and commands and files beside it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple

from . import _arguments, _keys
from ._aio import AsyncSandbox
from ._aio_files import AsyncFiles
from ._aio_interpreter import AsyncInterpreter
from ._code import Content
from ._errors import ClosedError, StateError
from ._execution import Execution
from ._interpreters import find_kind
from ._job import Callback, Command, StrPath
from ._policy import Policy
from ._result import Result
from ._scheduler_kit import package_words
from ._tighten import tightened

if TYPE_CHECKING:
    from ._scheduler import Scheduler

_OUTPUT = 16 << 20  # bytes of each stream and of what is shown, where the policy states nothing
_LEAST_OUTPUT = 1 << 16  # what an interpreter needs


class SchedulerSession:
    """State between runs; made by Scheduler.session(), and begun by ``async with``.

    ``run()`` executes code in one interpreter, ``exec()`` runs a command beside it; both see the same
    files, which are gone with the session. Each execution takes its turn among the scheduler's runs.
    """

    def __init__(
        self,
        scheduler: "Scheduler",
        language: str,
        packages: Tuple[str, ...],
        brought: Mapping[str, bytes],
        env: Optional[Mapping[str, str]],
        cwd: Optional[StrPath],
        tighter: Dict[str, Any],
    ) -> None:
        self._scheduler = scheduler
        self._language = find_kind("bash" if language == "raw" else language).name
        self._packages = packages
        self._brought = brought
        self._env = _arguments.variables("env", env)
        self._cwd = cwd
        self._tighter = tighter
        self._stack: Optional[AsyncExitStack] = None
        self._box: Optional[AsyncSandbox] = None
        self._interpreter: Optional[AsyncInterpreter] = None
        self._is_closed = False

    async def __aenter__(self) -> "SchedulerSession":
        return await self.start()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def language(self) -> str:
        """The language of its code."""
        return self._language

    @property
    def closed(self) -> bool:
        """Whether it was closed, or its scheduler was."""
        return self._is_closed

    @property
    def files(self) -> AsyncFiles:
        """Its files, with the rights of its code; see AsyncFiles."""
        return self._open()[0].files

    async def start(self) -> "SchedulerSession":
        """Begins it. QueueFullError: as many sessions as the scheduler takes go on."""
        if self._is_closed:
            raise ClosedError("the session is closed")
        if self._stack is not None:
            raise StateError("the session has begun")
        scheduler = self._scheduler
        _, gate = scheduler._gates()
        stack = AsyncExitStack()
        stack.enter_context(gate.admitted())
        self._stack = stack
        scheduler._sessions.add(self)
        stack.callback(scheduler._sessions.discard, self)
        try:
            await stack.enter_async_context(gate.turn())
            kit = await stack.enter_async_context(scheduler._kit(self._packages))
            policy = self._policy(kit.policy, kit.base_dir)
            box = await stack.enter_async_context(scheduler._box(kit, policy))
            for error in await box.files.put_many(list(self._brought.items())):
                if error is not None:
                    raise error
            self._interpreter = AsyncInterpreter(
                self._language, sandbox=box, cwd=self._cwd, max_output=self._output(policy)
            )
            stack.push_async_callback(self._interpreter.close)
            self._box = box
            if self._is_closed:
                raise ClosedError("the scheduler is closed")
        except BaseException:
            await self.close()
            await asyncio.shield(stack.aclose())  # close() may have been called before the last of it was there
            raise
        return self

    def _policy(self, base: Policy, base_dir: str) -> Policy:
        policy = self._scheduler._session_policy
        # What the packages add: their directories and variables.
        stated = {key: base.effective()[key] for key in ("fs.read", "env.set") if key in base.effective()}
        if stated:
            policy = policy.merged(**{key.replace(".", "_"): value for key, value in stated.items()})
        if self._env:
            policy = policy.merged(env_set=self._env)
        if self._tighter:
            policy = tightened(policy, Policy(**self._tighter), base_dir=base_dir, allow_overrides=False)
        return policy

    @staticmethod
    def _output(policy: Policy) -> int:
        stated = _keys.magnitude("limits.output", policy.effective().get("limits.output"))
        return _OUTPUT if stated is None else max(_LEAST_OUTPUT, int(stated))

    def _open(self) -> Tuple[AsyncSandbox, AsyncInterpreter]:
        if self._is_closed:
            raise ClosedError("the session is closed")
        if self._box is None or self._interpreter is None:
            raise StateError("the session has not begun", hint="async with scheduler.session() as session:")
        return self._box, self._interpreter

    async def run(
        self,
        code: Content,
        *,
        timeout_seconds: Optional[float] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
    ) -> Execution:
        """Executes code where the code before it has left off; see Interpreter.execute(). When its
        time is over it is interrupted, and so it is if the task is cancelled: the state is kept."""
        limit = self._scheduler._limit(timeout_seconds)
        self._open()
        async with self._scheduler._turn():
            _, interpreter = self._open()
            return await interpreter.execute(code, timeout=limit, on_stdout=on_stdout, on_stderr=on_stderr)

    async def exec(
        self,
        cmd: Command,
        *,
        timeout_seconds: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[StrPath] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
    ) -> Result:
        """Runs a command among the session's files, beside the interpreter: it does not see its
        processes. A string is run by a shell. A cancelled task ends it."""
        limit = self._scheduler._limit(timeout_seconds)
        self._open()
        async with self._scheduler._turn():
            box, _ = self._open()
            return await box.run(
                cmd, timeout=limit, env=env, cwd=cwd, on_stdout=on_stdout, on_stderr=on_stderr
            )

    async def install(self, *packages: str) -> None:
        """Installs packages for this session's code and commands from now on, without a restart; see
        Interpreter.install(). PolicyError: the scheduler does not allow one of them."""
        scheduler = self._scheduler
        words = package_words(packages, scheduler._allowed)
        await self._open()[1].install(*words, build_packages=scheduler._build_packages)

    async def put(self, host_path: StrPath, path: StrPath) -> None:
        """Copies a file of the host into the session."""
        await self.files.put(host_path, path)

    async def get(self, path: StrPath, host_path: StrPath) -> None:
        """Copies a file of the session to the host."""
        await self.files.get(path, host_path)

    async def restart(self) -> None:
        """Begins with a fresh interpreter; the files stay."""
        await self._open()[1].restart()

    async def close(self) -> None:
        """Ends it, even if code runs, and removes its files. Closing twice is fine."""
        self._is_closed = True
        stack, self._stack = self._stack, None
        if stack is not None:
            await asyncio.shield(stack.aclose())
