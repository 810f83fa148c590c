# SPDX-License-Identifier: Apache-2.0
"""Pools for programs with an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, AsyncIterator, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import _cordon
from ._ahead import Ahead, Wanted, adopt, wanted
from ._aio import AsyncSandbox
from ._aio_interpreter import AsyncInterpreter
from ._aio_wait import compiled, in_thread, slot, wait_for
from ._engine import Engine
from ._errors import ClosedError, CordonError, raise_native
from ._grade import Checker, Graded, InOrder, Program, Tally, failed, judge, numbered
from ._interpreter import MAX_OUTPUT
from ._live import GRACE_SECONDS
from ._policy import Config
from ._result import Result
from ._pool import AHEAD, Inputs, Items, Progress, pool_settings

if TYPE_CHECKING:
    from ._held import Wanted as HeldWanted
    from typing_extensions import Unpack

    from ._types import RunSettings, SandboxSettings


async def _grade(engine: Engine, index: int, program: Program) -> Graded:
    try:
        ready = await compiled(engine, program.arguments())
        if isinstance(ready, Result):
            return judge(index, program, ready)
        args = ready
        async with slot():
            result = await wait_for(lambda: engine.begin(args))
    except ClosedError:
        raise
    except (CordonError, OSError) as error:
        return failed(index, program, error)
    return judge(index, program, result)


class AsyncPool(AsyncSandbox):
    """The same as Pool for asyncio: ``run``, ``map`` and the others are coroutines, ``imap`` and
    ``imap_unordered`` asynchronous iterators. Cancelling the task ends all its programs before the
    cancellation goes on."""

    def __init__(
        self,
        config: Config = None,
        *,
        workers: Optional[int] = None,
        parked: Optional[int] = None,
        preload: Union[str, Sequence[str], None] = None,
        warm: "HeldWanted" = None,
        fresh_aslr: bool = False,
        interpreters: Wanted = None,
        env: Optional[Mapping[str, str]] = None,
        allow_overrides: bool = False,
        compile_timeout: Union[float, str] = "60s",
        compile_memory: Union[int, str] = "1G",
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        self._workers, waiting = pool_settings(workers, parked, settings)
        counts = wanted(interpreters)
        super().__init__(
            config, persist=False, env=env, allow_overrides=allow_overrides, parked=waiting,
            preload=preload, warm=warm, fresh_aslr=fresh_aslr, compile_timeout=compile_timeout, compile_memory=compile_memory, **settings,
        )  # fmt: skip
        self._engine.ahead = Ahead(self._engine, counts)

    @classmethod
    def _beside(cls, engine: Engine, workers: int) -> "AsyncPool":
        """A second front of a pool that exists; not to be closed."""
        self = cls.__new__(cls)
        self._engine = engine
        self._workers = workers
        return self

    async def __aenter__(self) -> "AsyncPool":
        return await self.start()

    async def start(self) -> "AsyncPool":
        """Makes the first sandboxes now instead of at the first run."""
        self._engine.check_open()
        assert self._engine.parked is not None
        try:
            await in_thread(self._engine.parked.open)
            if self._engine.warm is not None:
                await in_thread(self._engine.warm.start)
            assert self._engine.ahead is not None
            self._engine.ahead.start()
            if self._engine.held is not None:
                self._engine.held.start()
        except _cordon.Error as error:
            raise_native(error)
        return self

    def interpreter(
        self,
        language: str = "python",
        *,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> AsyncInterpreter:
        """An interpreter with state, in a sandbox of its own: one that waits, if the pool was made with
        ``interpreters``, else a new one. Close it; the pool ends those that are left."""
        self._engine.check_open()
        made = AsyncInterpreter(language, sandbox=self, max_output=max_output, grace=grace)
        adopt(made, self._engine.ahead)
        return made

    @property
    def workers(self) -> int:
        """How many programs run at once."""
        return self._workers

    async def map(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> List[Graded]:
        """Runs all programs and says about each what became of it, in their order; see Pool.map()."""
        results = self.imap(
            programs, inputs, expected=expected, checker=checker, timeout=timeout, limits=limits,
            progress=progress,
        )  # fmt: skip
        return [graded async for graded in results]

    amap = map

    def imap(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> AsyncIterator[Graded]:
        """The same one by one, in order; see Pool.imap()."""
        common = {"checker": checker, "timeout": timeout, "limits": limits or {}}
        source, total = numbered(programs, inputs, expected, common)
        return self._results(source, Tally(total, progress), InOrder())

    def imap_unordered(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> AsyncIterator[Graded]:
        """The same as they come; ``index`` says which it is."""
        common = {"checker": checker, "timeout": timeout, "limits": limits or {}}
        source, total = numbered(programs, inputs, expected, common)
        return self._results(source, Tally(total, progress), None)

    async def _results(
        self, source: Iterator[Tuple[int, Program]], tally: Tally, order: Optional[InOrder]
    ) -> AsyncIterator[Graded]:
        self._engine.check_open()
        running: "Set[asyncio.Task[Graded]]" = set()
        has_more, most_held = True, AHEAD * self._workers
        try:
            while has_more or running:
                while has_more and len(running) < self._workers and (order is None or order.held < most_held):
                    entry = next(source, None)
                    has_more = entry is not None
                    if entry is not None:
                        running.add(asyncio.ensure_future(_grade(self._engine, *entry)))
                if not running:
                    continue
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    graded = tally.add(task.result())
                    for one in [graded] if order is None else order.add(graded):
                        yield one
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)
